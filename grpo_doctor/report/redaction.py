"""What must not leak: keys and tokens, control characters, and texts without end; cleaned before anything is shown."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import msgspec

CLIP = 2000
"""Characters of one text beyond which it is cut: nobody reads on, and a log line may have 100 KB."""
REDACTED = "[redacted]"
RANDOM_BITS = 4.2
"""Entropy of its characters, in bits, from which on a long word of mixed case and digits is taken for a key: English
words joined by underscores stay below 4, random base64 of 32 characters lies at 4.4 to 4.9."""

UNBROKEN = 14
"""Characters without a separator that such a key has somewhere; names of models and files have shorter words."""

_SECRET = re.compile(
    r"""-----BEGIN\ [A-Z ]{0,32}PRIVATE\ KEY-----(?:[^-]{0,20000}-----END\ [A-Z ]{0,32}PRIVATE\ KEY-----)?
    | \b(?:sk|rk|pk)[-_](?:live|test|proj|ant|or)[-_][A-Za-z0-9_\-]{8,256} | \bsk-[A-Za-z0-9_\-]{16,256}
    | \bhf_[A-Za-z0-9]{16,128} | \bgh[pousr]_[A-Za-z0-9]{16,256} | \bgithub_pat_[A-Za-z0-9_]{16,256}
    | \bglpat-[A-Za-z0-9_\-]{16,128} | \bxox[abeprs]-[A-Za-z0-9\-]{10,256} | \bA(?:KIA|SIA)[0-9A-Z]{16}\b
    | \bAIza[A-Za-z0-9_\-]{30,64} | \bya29\.[A-Za-z0-9_\-]{10,512} | \bGOCSPX-[A-Za-z0-9_\-]{10,64}
    | \bwandb_v1_[A-Za-z0-9_\-]{8,256} | \b(?:gsk|r8|npm|xai|dop_v1|shpat)_[A-Za-z0-9_\-]{16,256}
    | \b(?:nvapi|pypi|pplx|tgp)-[A-Za-z0-9_\-]{16,512} | \bSG\.[A-Za-z0-9_\-]{16,64}\.[A-Za-z0-9_\-]{16,64}
    | \beyJ[A-Za-z0-9_\-]{10,2000}\.[A-Za-z0-9_\-]{10,2000}(?:\.[A-Za-z0-9_\-]{0,2000})?
    | (?i:\bbearer)\ [A-Za-z0-9._~+/=\-]{16,2000}
    | (?i:\b(?:basic|token))\ (?=[A-Za-z._~+/\-]{0,64}\d)[A-Za-z0-9._~+/\-]{16,2000}={0,2}(?![A-Za-z0-9=])
    | (?<=://)[^/\s:@]{1,128}:[^/\s@]{1,256}(?=@) | (?<=://)[^/\s:@]{8,256}(?=@)     # user:password@, TOKEN@
    | (?i:\b(?:account|shared_?access)_?(?:key|signature))=[A-Za-z0-9+/=%_\-]{16,512}
    | \bhooks\.slack\.com/services/[A-Za-z0-9/]{8,128}
    | (?<![0-9A-Za-z])(?=[0-9]{0,39}[a-f])[0-9a-f]{40}(?![0-9A-Za-z])                                       # a W&B key
    """,
    re.VERBOSE,
)
_NAME = r"(?:api|access|auth|secret|private|wandb|hf|hub|account|client|session|bearer|personal)"
_NAMED_SECRET = re.compile(
    rf"(?i)((?:{_NAME}[_-]?(?:api[_-]?|access[_-]?)?(?:key|token|secret)|password|passwd|secret|credentials?)"
    r"(?:[_-]?(?:id|key|token))?)"
    r"(['\"]?\s{0,4}[:=]\s{0,4}|\s{1,4}(?=\S{0,64}\d))(['\"]?)[^\s'\",;&\[]{6,512}"
)
_SECRET_NAME = re.compile(
    rf"(?i)(?:{_NAME}[_-]?(?:api[_-]?|access[_-]?)?(?:key|token|secret)(?:[_-]?(?:id|key|token))?"
    r"|password|passwd|secret|credentials?)$"
)
_WORD = re.compile(r"(?<![A-Za-z0-9+/_=\-])[A-Za-z0-9+/_=\-]{32,512}(?![A-Za-z0-9+/_=\-])")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,16}[A-Za-z]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?)")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def redact(text: str) -> str:
    """The text without anything that looks like a key or a token."""
    named = _NAMED_SECRET.sub(rf"\1\2\3{REDACTED}", _SECRET.sub(REDACTED, text))
    return _WORD.sub(_random_parts, named)


def _random_parts(found: re.Match[str]) -> str:
    """A long word without what looks random in it; more than two slashes make it a path, judged part by part."""
    word = found[0]
    if word.count("/") > 2:
        return "/".join(REDACTED if len(part) >= 32 and _looks_random(part) else part for part in word.split("/"))
    return REDACTED if _looks_random(word) else word


def _looks_random(word: str) -> bool:
    """Whether a long word is a key rather than a name: both cases, digits, and characters in no order."""
    mixed = any(c.isupper() for c in word) and any(c.islower() for c in word) and any(c.isdigit() for c in word)
    if not mixed or max(map(len, re.split("[-_/=]", word))) < UNBROKEN:
        return False
    counts = Counter(word).values()
    return -sum(n / len(word) * math.log2(n / len(word)) for n in counts) >= RANDOM_BITS


def clean(text: str) -> str:
    """Text that is safe to show: keys redacted, terminal escapes out, control and direction characters visible, the
    overlong cut."""
    shown = redact(_ESCAPE.sub("", text[: 2 * CLIP] if len(text) > CLIP else text))
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", shown.replace("\r\n", "\n"))
    return shown if len(text) <= CLIP else f"{shown[:CLIP]}… ({len(text)} characters)"


def one_line(text: str) -> str:
    """The same on one line, so that no name of a file begins a line that something else would take for a command."""
    return " ".join(clean(text).split())


def cleaned(value: Any) -> Any:
    """The same value with every text in it cleaned, and what stands under the name of a key redacted."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {
            clean(str(key)): REDACTED if _SECRET_NAME.search(str(key)) and item else cleaned(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(cleaned(item) for item in value)
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: cleaned(getattr(value, name)) for name in value.__struct_fields__})
    return value
