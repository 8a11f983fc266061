"""Every number of a first sentence is in the log: recomputed here from the columns, without the code that judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.run import Run
from grpo_doctor.testing import make_run
from tests.corpus_path import needs_corpus
from tests.test_windows import sampled

NUMBER = re.compile(r"(?<![\w.-])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(%?)(?![\w])")
NOT_OF_THE_LOG = re.compile(
    r"\(smallest detectable[^)]*\)|changes below \S+|at least \d+ times|last \d+ steps|over ten rows|\(line \d+\).*|"
    r"usual range \([^)]*\)|published recipes use .*|\bln 2 \(0.693\)|[A-Z]{3}\d{3}:|\bp = \S+|of the last \d+|Early indicators: .*"
)
"""Thresholds, noise, codes, medians before a fall, and text of the log itself."""
PERCENT, CLEAR = 100, 5
SUCCESS = {"reward_mean", "success_rate", "eval_score", "loss", "eval_loss", "reward_margin"}


def levels(x: np.ndarray) -> Iterator[np.ndarray]:
    """Every value; the means of the first and of the last rows, however many; the highest and the lowest mean of a
    window; and the share of rows at each of the two ends."""
    sums = np.concatenate(([0.0], np.cumsum(x)))
    n = np.arange(1, len(x) + 1)
    yield x
    yield sums[1:] / n
    for late in range(min(CLEAR, len(x) - 1)):  # a finding keeps its numbers until it clears
        yield (sums[-1 - late] - sums[: -1 - late]) / n[: len(x) - late][::-1]
    for k in range(2, len(x) // 2):
        means = (sums[k:] - sums[:-k]) / k
        yield np.array([means.min(), means.max()])
    yield np.array([x.min(), x.max(), (x == x.min()).sum(), (x == x.max()).sum(), np.median(x)])


def known(run: Run, names: set[str]) -> np.ndarray:
    """Every number that the log gives: of these series, its components, its counts of rows, its settings."""
    found = [c for name in names if (c := run.column(name)) is not None]
    columns = [c for c in found if c.dtype != object]
    for held in (c for c in found if c.dtype == object):
        names = {name for row in held if isinstance(row, dict) for name in row}
        columns += [np.array([(row or {}).get(n, np.nan) for row in held], float) for n in names if n != "events"]
    found = [part for c in columns if len(x := c[np.isfinite(c)].astype(float)) for part in levels(x)]
    settings = [float(v) for v in run.settings.values() if isinstance(v, int | float)]
    return np.concatenate([*found, run.steps, np.arange(len(run) + 1), settings])


def strange(run: Run, found: Diagnosis) -> list[str]:
    """The numbers of the first sentence that are not in the log, to the digits that are printed."""
    text = NOT_OF_THE_LOG.sub("", found.headline)
    told = {name for f in found.findings if f.message.removesuffix(".") in found.headline for name in f.columns}
    values, out = known(run, SUCCESS | told), []
    for digits, percent in NUMBER.findall(text):
        number, places = float(digits), len(digits.partition("e")[0].partition(".")[2])
        unit = max(10.0**-places, 10.0 ** (np.floor(np.log10(abs(number) or 1)) - 2)) * (1 / PERCENT if percent else 1)
        if not (np.abs(values - number * (1 / PERCENT if percent else 1)) <= 0.51 * unit).any():
            out.append(digits + percent)
    return out


def test_a_wrong_number_is_noticed() -> None:
    run = make_run(reward_mean=[0.2 + 0.3 * (i > 20) + 0.01 * (i % 3) for i in range(40)])
    found = diagnose(run)
    assert found.headline.startswith("It learns: the reward rose from 0.209 to 0.509.")
    assert strange(run, found) == []
    assert strange(run, replace(found, headline="The reward rose from 0.209 to 0.57.")) == ["0.57"]


@needs_corpus
def test_every_number_of_a_first_sentence_is_in_the_log() -> None:
    wrong = [(name, odd, found.headline) for name, run, found in sampled("", 4) if (odd := strange(run, found))]
    assert wrong == []
