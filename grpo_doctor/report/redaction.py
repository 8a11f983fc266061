"""Redacts secrets, escapes invisible characters and workflow commands, and cuts long texts before anything is shown.

Redaction covers listed kinds of secrets, not every possible secret. The listed kinds are the shapes in
``secret_shapes.toml``, passwords in URLs, private key blocks, values under the name of a secret, and long words that
look random.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

CLIP = 2000
"""Maximum length of one text in characters; a log line may be 100 KB long."""
REDACTED = "[redacted]"
RANDOM_LENGTH = 32
"""Minimum length in characters of a word that is redacted because it looks random."""
RANDOM_BITS = 4.2
"""Minimum entropy, in bits per character, of a random word of mixed case and digits. English words joined by
underscores stay below 4, while random base64 of 32 characters has 4.4 to 4.9."""
UNBROKEN = 14
"""Minimum length of the longest part of a random word between separators. Names of models and files have shorter
parts."""
CHANGES = 0.15
"""Minimum share of neighbouring characters of a random word that differ in class (upper case, lower case, digit). The
share is 0.3 to 0.6 in base32, hex and base64, and at most 0.1 in words that end in a number."""
LETTERS = 3
"""Mean length of runs of lower-case letters at or above which a string counts as words. The mean is at least 3 in class
names, and 1.7 in random base64."""
LINES = 64
"""Number of lines that are searched together for signs of a secret."""
KNOWN = 100_000
"""Maximum number of cached words that are not a sign of a secret. Because of the cache, a log key is checked only
once."""

# Patterns for texts that few reports contain are strings, which `re` compiles on first use.
_BLOCK = (
    r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]{0,20000}(?:-{1,4}(?!-)[^-]{0,2000}){0,8}-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----)?"
)
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]+")
_LONG = re.compile(rf"[A-Za-z0-9+/_=\-]{{{RANDOM_LENGTH},}}")
_PIECES = re.compile(r"[A-Za-z0-9]+")
_SMALL = re.compile(r"[a-z]+")
_CHANGE = re.compile(r"[a-z](?![a-z])|[A-Z](?![A-Z])|\d(?!\d)")
_URL = re.compile(r"://([^\s'\"<>`\\]+)")
_PORT = re.compile(r"\d{1,5}(?:/|$)")
_HEX = re.compile(r"[0-9a-f]+")
_IDENTIFIER = (
    r"(?i)(?:@|(?:^|[^a-z])(?:commit|sha\d{0,3}|rev|revision|head|digest|md5|checksum|etag|oid|ref|version|snapshots?"
    r"|blobs?|tree|objects|runs?|run_?id|id|uuid|trace|span|image|experiment|actor|node|job|task|worker)"
    r"(?:_?(?:hash|sha|sum|id))?['\"]?[\s:=/(]{1,4}['\"]?"
    r"|hash['\"]?[\s:=/(]{1,4}['\"]?|actor\(\w{1,64}, |mlruns/\d{1,20}/)$"
)
"""Matches the words before a hexadecimal identifier that is not a secret, such as that of a commit, a digest or a
run."""
_VALUE = re.compile(
    r"(?P<quote>\\*['\"])(?P<inside>(?:(?!(?P=quote))[^\n]){1,20000})"
    r"|(?P<plain>(?:\\(?![nrt\"'])|[^\s\"'\\]){1,20000})"
    r"(?P<more>(?: {1,2}[^\s\"'=:\\|]{1,64}(?![^\s\"'=:\\|]|[=:])){0,16})"
)
_NOT_A_NAME = re.compile(r"[^\w.\-]")
_NEXT_PAIR = re.compile(r"[,;&](?=[\w.\-/]+=)")
_PLACEHOLDER = (
    r"(?i)(?:none|null|nil|true|false|unset|empty|nan|\*+|x{3,}|\.{3}|<.*>|\$\{?\w+\}?|\[redacted\]?|)[,;)}\]]*$"
)
_KEY_LIKE = (
    r"(?![+-]?[\d.]+(?:e[+-]?\d+)?$)(?:(?=\d{0,512}\D)(?=\D{0,512}\d)[\w.~+/=\-]{8,}|[A-Za-z0-9]{20,}"
    r"|[A-Za-z0-9+/]{6,}={1,2})$"
)
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,16}[A-Za-z]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?)")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_COMMAND = re.compile(r"(?m)^([^\S\n]*:)(?=:)|##(?=\[|vso\[|teamcity\[)")


class _Shapes(NamedTuple):
    """The table of shapes. The expressions are compiled on first use, because most texts have no sign of a secret."""

    starts: tuple[str, ...]
    ends: tuple[str, ...]
    whole: frozenset[str]
    keys: str
    phrases: list[tuple[str, str]]
    named: str
    always: str
    key: str
    sentence: str
    never: str


@cache
def _shapes() -> _Shapes:
    table = tomllib.loads(Path(__file__).with_name("secret_shapes.toml").read_text(encoding="utf-8"))
    keys, phrases, names = table["keys"].values(), table["phrases"].values(), table["names"]
    starts = sorted({start for these, _ in keys for start in these})
    always = f"(?:{'|'.join(names['always'])})(?:[_-]?(?:id|key|token|value))?"
    ends = "|".join(sorted(names["ends"], key=len, reverse=True))
    return _Shapes(
        tuple(start for start in starts if len(start) > 2 and "." not in start),
        tuple(names["ends"]),
        frozenset(start.split(".")[0].lower() for start in starts if "." in start),
        r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:"
        + "|".join(f"(?:{'|'.join(map(re.escape, these))}){rest}" for these, rest in keys)
        + ")",
        [*phrases],
        rf"(?i)(?P<end>{ends})"
        r"(?P<separator>(?P<quoted>\\*['\"])?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}|[ \t]{1,4})",
        f"(?i){always}$",
        *(f"(?i)(?:{'|'.join(names[kind])})$" for kind in ("key", "sentence", "never")),
    )


_plain: set[str] = set()
"""Cached words that are not a sign of a secret."""


FORMULA = "=+-@\t\r"
"""Characters with which a spreadsheet formula can begin."""


def redact(text: str) -> str:
    """Return the text without anything that has the shape of a secret; see the module and ``secret_shapes.toml``."""
    if "-----BEGIN" in text:
        text = re.sub(_BLOCK, REDACTED, text)
    lines = text.split("\n")
    if len(lines) == 1:
        return _redacted(text) if _suspicious(text) else text
    if len(lines) <= LINES:
        return "\n".join(map(redact, lines)) if _suspicious(text) else text
    return "\n".join(redact("\n".join(lines[i : i + LINES])) for i in range(0, len(lines), LINES))


def _suspicious(text: str) -> bool:
    """Return whether a text contains a sign of a secret: the name or prefix of a secret, random characters, or a URL
    with ``@``."""
    if "://" in text and "@" in text:
        return True
    if len(_plain) > KNOWN:
        _plain.clear()
    for word in set(_WORDS.findall(text)).difference(_plain):
        if _is_sign(word):
            return True
        if len(word) <= 2 * RANDOM_LENGTH:
            _plain.add(word)
    return False


def _is_sign(word: str) -> bool:
    shapes, low = _shapes(), word.lower()
    if low.endswith(shapes.ends) or low in shapes.whole:
        return re.search(shapes.never, low) is None
    return len(word) >= UNBROKEN and (any(map(word.__contains__, shapes.starts)) or _changes(word, UNBROKEN))


def _redacted(line: str) -> str:
    """Return a line with its secrets redacted."""
    shapes = _shapes()
    line = _URL.sub(_without_password, line)
    line = re.sub(shapes.keys, REDACTED, line)
    low = line.lower()
    for keyword, phrase in shapes.phrases:
        if keyword in low:
            line = re.sub(phrase, _without_group, line)
    return _LONG.sub(_without_random, _without_named(line))


def _without_group(found: re.Match[str]) -> str:
    start, end = (place - found.start() for place in found.span(1))
    return found[0][:start] + REDACTED + found[0][end:]


def _without_password(found: re.Match[str]) -> str:
    """Return an address without ``user:password@`` or ``TOKEN@``. The last ``@`` ends the password, because a password
    may contain ``@``."""
    before, at, host = found[1].rpartition("@")
    user, colon, password = before.partition(":")
    if not at or "/" in user or (colon and _PORT.match(password)) or (not colon and len(user) < 8):
        return found[0]
    return f"://{REDACTED}@{host}"


def _without_named(line: str) -> str:
    """Return the line with the values of secret names redacted."""
    parts, kept, place = [], 0, 0
    while found := re.compile(_shapes().named).search(line, place):
        place = found.end()
        span = _secret_value(line, found)
        if span is not None:
            start, place, replacement = span
            parts += [line[kept:start], replacement]
            kept = place
    return "".join([*parts, line[kept:]])


def _secret_value(line: str, found: re.Match[str]) -> tuple[int, int, str] | None:
    """Return the start and end of the value after this name, and the replacement of the value, or None if the value is
    not a secret."""
    shapes, named = _shapes(), not found["separator"].isspace()
    name = _NOT_A_NAME.split(line[max(0, found.start() - 32) : found.end("end")])[-1]
    option = name.startswith("-")
    always = re.search(shapes.always, name) is not None
    if re.search(shapes.never, name) or not (always or ((named or option) and re.search(shapes.key, name))):
        return None
    value = _VALUE.match(line, found.end())
    if value is None:
        return None
    text = value["inside"] or value["plain"]
    certain = always and (named or (option and not text.startswith("-")))
    if re.match(_PLACEHOLDER, text) or not (certain or re.match(_KEY_LIKE, text.rstrip(",;)}]"))):
        return None
    if value["inside"]:
        return value.start("inside"), value.end("inside"), REDACTED
    if found["quoted"]:  # the line stays valid JSON if a number or constant is replaced
        end = value.start() + len(re.split(r"[,}\]]", text, maxsplit=1)[0])
        return (value.start(), end, f"{found['quoted']}{REDACTED}{found['quoted']}") if end > value.start() else None
    if found["separator"][-1].isspace() and named and re.search(shapes.sentence, name):
        return value.start(), value.end(), REDACTED
    return value.start(), value.start() + len(_NEXT_PAIR.split(text, maxsplit=1)[0].rstrip(",;)}]")), REDACTED


def _without_random(found: re.Match[str]) -> str:
    """Return a long word without its random parts. A word with more than two slashes is a path and is judged part by
    part."""
    word = found[0]
    parts = word.split("/") if word.count("/") > 2 else [word]
    places = [found.start() + sum(len(part) + 1 for part in parts[:i]) for i in range(len(parts))]
    return "/".join(
        REDACTED if _looks_random(part) and not _identifies(part, found.string, place) else part
        for part, place in zip(parts, places, strict=True)
    )


def _identifies(word: str, text: str, place: int) -> bool:
    """Return whether a hexadecimal word identifies a commit, a file or a run, judged by the words before it."""
    word = word.rpartition("/")[2].rpartition("=")[2]
    before = text[max(0, place - 128) : text.index(word, place)]
    if not _HEX.fullmatch(word):
        return False
    path = re.split(r"[\s'\"=:(,]", before)[-1]
    return re.search(_IDENTIFIER, before) is not None or (path.startswith(("/", "~", ".")) and path[:2] != "//")


def _looks_random(word: str) -> bool:
    """Return whether a long word is a key and not a name, because its characters belong to several classes in random
    order."""
    if len(word) < RANDOM_LENGTH:
        return False
    if not all(any(map(is_class, word)) for is_class in (str.isupper, str.islower, str.isdigit)):
        return _changes(word, RANDOM_LENGTH)
    small = _SMALL.findall(word)
    if max(map(len, _PIECES.findall(word))) < UNBROKEN or sum(map(len, small)) >= LETTERS * len(small):
        return False
    counts = Counter(word).values()
    return -sum(n / len(word) * math.log2(n / len(word)) for n in counts) >= RANDOM_BITS


def _changes(word: str, least: int) -> bool:
    """Return whether a part of at least this length alternates between letters and digits like random characters."""
    return any(
        len(piece) >= least
        and not piece.isalpha()
        and not piece.isdigit()
        and len(_CHANGE.findall(piece)) - 1 >= CHANGES * (len(piece) - 1)
        for piece in _PIECES.findall(word)
    )


def clean(text: str) -> str:
    """Return text that is safe to show: without secrets and terminal escapes, with escaped invisible characters and
    workflow commands, and shortened if long."""
    shown = redact(_ESCAPE.sub("", text[: 2 * CLIP] if len(text) > CLIP else text))
    shown = inert(visible(shown.replace("\r\n", "\n")))
    return shown if len(text) <= CLIP else f"{shown[:CLIP]}… ({len(text)} characters)"


def visible(text: str) -> str:
    """Return the text with control, direction and other invisible characters as escapes, such as ``\\u200b``."""
    return _INVISIBLE.sub(lambda found: _escape(ord(found[0])), text)


def invisible_removed(text: str) -> str:
    """Return the text without invisible characters, except characters that end a line or begin a terminal escape."""
    return _INVISIBLE.sub(lambda found: found[0] if found[0] in "\r\x0b\x0c\x1b\x85\u2028\u2029" else "", text)


def visible_json(text: str) -> str:
    """Return JSON with invisible characters as JSON escapes, which does not change the values."""
    return _INVISIBLE.sub(
        lambda found: re.sub("(....)", r"\\u\1", found[0].encode("utf-16-be", "surrogatepass").hex()), text
    )


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def inert(text: str) -> str:
    """Return the text with lines that a CI service would run as commands, such as ``::add-mask::``, made harmless."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", text)


def one_line(text: str) -> str:
    """Return the text as one line, so that no part of a file name can begin a command line for a CI service."""
    return " ".join(clean(text).split())


def csv_cell(value: Any) -> Any:
    """Return a cell of a CSV file: text that looks like a formula gets a leading apostrophe."""
    if not (isinstance(value, str) and value[:1] in FORMULA and value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def cleaned(value: Any) -> Any:
    """Return the value with every text in it cleaned, and with the values of secret keys redacted."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned_under(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(cleaned(item) for item in value)
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: cleaned(getattr(value, name)) for name in value.__struct_fields__})
    return value


def _cleaned_under(name: str, value: Any) -> Any:
    """Return the cleaned value of this name."""
    if isinstance(value, str) and _HEX.fullmatch(value) and re.search(_IDENTIFIER, f"{name}="):
        return value
    given = value and value is not True and not (isinstance(value, str) and re.match(_PLACEHOLDER, value))
    if given and re.search(_shapes().always, name):
        return REDACTED
    if isinstance(value, str) and len(value) < CLIP and _without_named(f"{name}={value}") != f"{name}={value}":
        return REDACTED
    return cleaned(value)
