import math
import re
from collections import Counter
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, began, each, recent_mean, where

SCRIPTS = {
    "greek": "\u0370-\u03ff",
    "cyrillic": "\u0400-\u052f",
    "hebrew": "\u0590-\u05ff",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "indic": "\u0900-\u0dff",
    "thai": "\u0e00-\u0e7f",
    "korean": "\u1100-\u11ff\uac00-\ud7af",
    "chinese or japanese": "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff",
}
"""Writing systems by their Unicode blocks; Chinese and Japanese share one. Latin letters are counted apart."""
_LETTERS = {name: re.compile(f"[{blocks}]") for name, blocks in SCRIPTS.items()}
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
OWN = 0.1
"""Share of the letters of the prompts from which a script is one of theirs."""


@check("DIV006", severity="warning", confidence="high")
def script_drifts(
    step: Column,
    known: Column = any_of("other_script_rate", "samples"),
    other_script_rate: Column = None,
    samples: Column = None,
    *,
    share: float = 0.1,
    most: float = 0.5,
) -> Fires:
    """Responses drift into a different script than the prompts.

    ## What it sees
    The share of letters in a script that the prompts do not use, mean of the last 5 rows that have it: as logged by
    the trainer, or else counted in the saved prompts and responses. A **warning** where it has risen by 10 points
    since the first rows, an **error** above 50 %.

    ## Thresholds
    - `share`: rise of the share of letters, 0 to 1: single symbols, names and quotations stay below it.
    - `most`: share of letters, 0 to 1, above which the responses are in another language.

    ## Why it matters
    The reward scores the answer, not the language. Users cannot read a policy that mixes languages. A drift into many
    scripts is the first visible sign that the policy generates noise.

    ## Known false alarms
    Translation tasks. Greek letters in mathematics count as another script and stay far below the limit.

    ## Remedy
    Read ten responses. If they make sense, add a small reward for the language of the prompt. If they are noise,
    check the entropy and roll back.

    ## Sources
    DeepSeek-R1, arXiv 2501.12948 (language mixing in R1-Zero, and the reward against it).
    """
    other = where(other_script_rate == other_script_rate, other_script_rate, each(_other, samples))
    first, now = baseline(other, 3), recent_mean(other)
    drifted = now - first >= share
    return fires(
        drifted,
        "{now:.0%} of the letters in the responses are in a different script than the prompts ({first:.0%} at the "
        "start).",
        error=drifted & (now > most),
        onset=began(drifted, other - first > share / 2, step),
        now=now,
        first=first,
    )


def _counts(texts: list[str]) -> Counter[str]:
    """Letters by script."""
    text = "".join(texts)
    found = Counter({"latin": len(_LATIN.findall(text))})
    if not text.isascii():
        found.update({name: len(letters.findall(text)) for name, letters in _LETTERS.items()})
    return found


def _other(row: list[Any] | None) -> float:
    """Share of the letters of one step's responses in scripts that its prompts do not use; NaN without prompts."""
    asked = _counts([sample.prompt for sample in row or () if sample.prompt])
    written = _counts([sample.response for sample in row or () if sample.prompt])
    if not asked.total() or not written.total():
        return math.nan
    return sum(n for name, n in written.items() if asked[name] < OWN * asked.total()) / written.total()
