"""Extracts the names and numbers from one printed line of any trainer."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from ...series.derived import MEANINGS
from ..aliases import resolve, words

_DIGITS = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_NOT_FINITE = r"[nN][aA][nN]\b|[iI][nN][fF]\b"
NUMBER = re.compile(
    r"([-+.\dnNiI](?<![A-Za-z0-9_.@].)"
    rf"(?:(?<=[-+])(?>{_DIGITS}|{_NOT_FINITE})|(?<=\d)(?>\d*(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    r"|(?<=\.)(?>\d+(?:[eE][-+]?\d+)?)|(?<=[nN])[aA][nN]\b|(?<=[iI])[nN][fF]\b))([A-Za-z]*)"
)
"""A number and its unit. The pattern begins with a character class, so that the search skips all other characters
quickly."""
_SAYS = re.compile(r"(?:^|\s+and\s+)([A-Za-z]\w{1,40}(?: \w{1,20})?) is (?=[-+.\d])", re.IGNORECASE)
_SAID = re.compile(r"(?:(?:^|\s+and\s+)[A-Za-z]\w{1,40}(?: \w{1,20})? is [-+.\deE]{1,30}){1,6}\s*$", re.IGNORECASE)
_COUNTED = re.compile(
    r"(?:^|\s-\s|[\]|:>]\s)\W{0,4}([A-Za-z][\w /]{1,40}?) (?:after|at|of|for|in|on) "
    r"(step|iter|iteration|update|epoch)s? #?(\d{1,9})\s?[:=]\s?",
    re.IGNORECASE,
)
"""A name followed by a counter, as in ``Mean reward after step 5: 0.25``."""
_LISTED = re.compile(
    r"(rewards?(?:\s+\w+)?)\s*[:=]?\s*(?:tensor\()?"
    r"\[\s*(['\"]?[-+\d.eE]+['\"]?(?:(?:\s*,\s*|\s+)['\"]?[-+\d.eE]+['\"]?)*)\s*\]",
    re.IGNORECASE,
)
"""A list of individual rewards, as in ``Rewards: [0.5, 0.0, 1.0]`` or ``rewards=['0.50', '0.00']``."""
_TYPED = re.compile(
    r"\b(?:np\.float\d\d|(?:torch\.)?tensor|Array)"
    r"\(\[{0,2}([-+]?[\d.][\d.eE+-]{0,30}|-?inf|nan)\]{0,2}(?:, ?[a-z]\w{0,20}=[^()]{0,80})?\)"
)
"""A number as printed by numpy, torch and jax, such as ``np.float32(0.5)`` or ``tensor(0.5000, device='cuda:0')``."""
_ROUNDED = re.compile(r"\b\d{1,6}(?:\.\d{1,3})?[KMB]\((\d{1,15})\)")
"""A rounded number followed by the exact number, as in LeRobot's counters: ``step:15K(15123)``."""
_SOME = re.compile(r"\b(?:few|some|first|examples?|samples?)\b[^:=|]*$", re.IGNORECASE)
"""Words before a list that contains only some rewards of a step, so that their spread is not the spread of the step."""
_EDGES = re.compile(r"^[\W_]+|[^\w%)]+$")
_CUTS = re.compile(r"[,|;\t()\[\]{}<>·•→│┃║*#、，；。]|\s-\s|\s{2,}")
_ARROW = re.compile(r"\s*(?:→|⇒|[-=]>|(?<=\s)-(?=\s))\s*(?=(?:mean|avg|average|std|min|max|median)\b)", re.IGNORECASE)
"""Separators between a subject and its statistic, as in ``reward → mean`` and ``rewards - Avg``."""
_OPENED = re.compile(r"([:=])\s*\($")
_ALIGNED = re.compile(r"\s+(?=[:=])")
"""Blanks before a colon or equals sign, which align names and values over several lines."""
_ARROWS = re.compile("[->→⇒]")
_LONGEST_NAME, _LONGEST_COUNTER = 60, 40
"""`_LONGEST_NAME`: maximum number of characters of a name. `_LONGEST_COUNTER`: maximum number of characters of the text
before the number of a counter."""
_SPREAD = re.compile(r"\s*(?:±|\+/?-).*")
_STATISTICS = frozenset("mean std min max median".split())
_LOG_WORDS = frozenset(
    "info debug warning warn error trainer main rank0 logger result results stats metrics "
    "skip skipped skipping starting done finished completed with 步 轮 次".split()
)
_LEVEL = re.compile(r"^SUCCESS\s+(?=(?i:step|iter|iteration|update|epoch)\b)")
"""The loguru level ``SUCCESS`` before a counter, as in the output of prime-rl. In other places, the word is a success
rate."""
_JOINED = re.compile(r"(?:^|\s)[A-Za-z][\w/]*:[A-Za-z][\w/]*$")
"""A name that contains a colon, such as ``loss:sum`` in the output of tinker."""
_COUNTER = re.compile(
    r"(?:^|[^\w/])(step|iter|iteration|update|epoch|episode|batch|round|evaluation)\s?:?\s?[\[(#]$", re.IGNORECASE
)
"""Text before the number of a counter, as in ``Epoch [3/60]``, ``Step (12`` and ``Evaluation #3``."""
_OF_COUNTER = re.compile(
    r"\b(?:in|at|for|of|on|after|during) ((?:(?:global|train|training) )?(?:step|iteration|iter|update|epoch))=?$",
    re.IGNORECASE,
)
"""A counter at the end of a longer phrase, as in ``Call #1 for step`` and ``KL spike at step=10``."""
_COUNTS = "[(#=pPnNrReEhH"
"""Last characters of the text that `_COUNTER` and `_OF_COUNTER` match."""
_MOST_NUMBERS = 200
_LONGEST_GAP = 130
"""Maximum number of characters between a name and its number."""


@lru_cache(maxsize=4096)
def _share(name: str) -> bool:
    """Return whether a name means a share, which may be printed as ``12/32``."""
    return any("0 to 1" in MEANINGS[alias.field] for alias in resolve(name))


def pairs(text: str) -> tuple[tuple[str, ...], list[float]]:
    """Return the names and numbers of a line. The name ``#`` means a position without a name, such as ``12/500``."""
    names, values, _ = picked(text)
    return names, values


def picked(text: str) -> tuple[tuple[str, ...], list[float], list[tuple[int, float]] | None]:
    """Return the names and numbers of a line, and the index of each number on the line with its divisor. Indices and
    divisors are the same for every line that differs only in digits. The list of indices is None if the indices depend
    on the digits."""
    names: list[str] = []
    values: list[float] = []
    picks: list[tuple[int, float]] | None = []
    subject, end, total = "", 0, False
    for place, match in enumerate(NUMBER.finditer(text)):
        if match.start() < end:
            continue
        gap, end_before = text[end : match.start()], end
        value, end = _decimal(text, match)
        scale, picks = 1.0, None if end != match.end() else picks
        if match[2] and not math.isfinite(value):
            continue
        if text[end : end + 1] == "%":
            value, scale, end = value / 100, 100.0, end + 1
        bare = gap.strip()
        if bare == "/" and end_before:
            if names and not total:
                if value > 0 and _share(names[-1]):
                    values[-1] /= value
                    picks = None
                names[-1] = names[-1] or "#"
            total = True
            continue
        total = False
        if bare in ("±", "+/-", "+-", "(±") and names:
            name = f"{subject or names[-1]} std"
        else:
            name, subject = _name(gap[-_LONGEST_GAP:], text[end : end + 1], subject)
        names.append(name)
        values.append(value)
        if picks is not None:
            picks.append((place, scale))
        if len(names) >= _MOST_NUMBERS:
            break
    return tuple(names), values, picks


def said(text: str) -> str:
    """Rewrite a sentence as pairs if all of it consists of pairs, as in ``policy_loss is 0.5 and kl is 0.01``."""
    return _SAYS.sub(r" | \1: ", text) if _SAID.match(text) else text


def counter_first(text: str) -> str:
    """Move a counter before the name that precedes it: ``step 5 | Mean reward: 0.25``."""
    return (
        _COUNTED.sub(r" | \2 \3 | \1: ", text, count=1)
        if " step " in text or " epoch " in text or "iter" in text
        else text
    )


def plain(text: str) -> str:
    """Replace numbers printed with their types with plain numbers, and a list of rewards with its mean and spread."""
    if "(" in text:
        text = _TYPED.sub(r"\1", _ROUNDED.sub(r"\1", text))
    return _LISTED.sub(_of_list, text) if "[" in text and "eward" in text.lower() else text


def _of_list(match: re.Match[str]) -> str:
    """Return the mean of a list, and its spread if the list has several values and is complete."""
    try:
        figures = [float(figure.strip("'\"")) for figure in match[2].replace(",", " ").split()]
    except ValueError:
        return match[0]
    from statistics import pstdev  # slow to import

    whole = len(figures) > 1 and all(map(math.isfinite, figures)) and not _SOME.search(match.string, 0, match.start())
    spread = f" reward std: {pstdev(figures)!r}" if whole else ""
    return f"{match[1]}: {sum(figures) / len(figures)!r}{spread}"


def metrics(text: str) -> dict[str, float]:
    """Return all named numbers of a line if any name means a field other than the epoch; otherwise, an empty
    dictionary."""
    names, values = pairs(text)
    told = any(alias.field != "epoch" for name in names for alias in resolve(name))
    return {name: value for name, value in zip(names, values, strict=True) if name.strip("#")} if told else {}


def _decimal(text: str, match: re.Match[str]) -> tuple[float, int]:
    """Return the number of a match and the index of its end. The comma in ``0,53`` is a decimal comma, and the comma in
    ``1,234`` is a thousands separator."""
    value, end = float(match[1]), match.end()
    if match[2] or text[end : end + 1] != "," or not text[end + 1 : end + 2].isdigit():
        return value, end
    stop = end + 1
    while stop < len(text) and text[stop].isdigit() and stop < end + 20:
        stop += 1
    if text[match.start() - 1 : match.start()] in ("[", "(", ",") or text[stop : stop + 1] in ("]", ")", ",", "."):
        return value, end
    digits = text[end + 1 : stop]
    joined = f"{match[1]}{digits}" if len(digits) == 3 and abs(value) >= 1 else f"{match[1]}.{digits}"
    try:
        return float(joined), stop
    except ValueError:
        return value, end


@lru_cache(maxsize=4096)
def _name(gap: str, after: str, subject: str) -> tuple[str, str]:
    """Return the name of a number from the text before it, and the subject for the statistics that follow."""
    gap = gap.rstrip("'\"*`")  # characters around the number
    text = gap.rstrip()
    if text.endswith("第") and after in "步轮次":
        return "step", subject
    end = max(len(text) - _LONGEST_COUNTER, 0)
    counts = text[-1:] in _COUNTS and (_COUNTER.search(text, end) or _OF_COUNTER.search(text, end))
    if counts:
        return "#" if counts[1].lower() == "evaluation" else counts[1], subject
    if after == ")":  # `reward: (-0.28)`
        text = _OPENED.sub(r"\1", text)
    separated = text[-1:] in (":", "=", "：", "＝", "|", "│", "→", "⇒") or text.endswith(("->", "=>"))
    text = text.removesuffix("->").removesuffix("=>").rstrip(":=：＝|│→⇒ ")
    text = _ARROW.sub(": ", text) if _ARROWS.search(text) else text
    qualifier = ""
    if text.endswith(")") and (open_ := text.rfind("(")) > 0:
        qualifier, text = _SPREAD.sub("", text[open_ + 1 : -1]), text[:open_].rstrip()
    piece = _CUTS.split(_ALIGNED.sub("", text) if ":" in text or "=" in text else text)[-1]
    if separated and _JOINED.search(piece):
        return _trimmed(piece), subject
    head, colon, tail = piece.replace("：", ":").replace("=", ":").rpartition(":")
    if colon:
        head, piece = _trimmed(head.rpartition(":")[2]), tail
    piece = piece.strip().removesuffix(" reached").removesuffix(" is now")  # Lightning's 'val_loss' reached 2.28
    piece = _LEVEL.sub("", _trimmed(piece))
    if not piece or len(piece) > _LONGEST_NAME or (not separated and not gap[-1:].isspace() and piece.isascii()):
        return "", subject
    listed = piece.split()
    if len(listed) > 5:
        return "", subject
    while len(listed) > 1 and listed[0].lower() in _LOG_WORDS:
        listed = listed[1:]
    name = " ".join(listed)
    if words(name) <= _STATISTICS and (head or subject):
        subject = head or subject
        return f"{subject} {name}", subject
    if qualifier and words(qualifier) <= _STATISTICS:
        return f"{name} {qualifier}", name
    return name, name


def _trimmed(name: str) -> str:
    """Return a name without surrounding punctuation."""
    return name if name[:1].isalnum() and name[-1:].isalnum() else _EDGES.sub("", name)
