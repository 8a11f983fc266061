"""Computes how many seeds and steps a fleet needs to detect a gain, from the noise of its runs.

Runs that differ only in the seed end at different levels. The spread of the levels has two parts: variance between
seeds, which only more seeds reduce, and step noise, which longer averages also reduce. The variance between seeds and
the step noise are measured on the fleet. The power of a two-sided t test between two settings follows from the
noncentral t distribution (Cohen, Statistical Power Analysis, 1988, chapter 2).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ..compare.arms import SEEDS
from ..diagnosis.wording import counted
from .merge import by_setting
from .unit import Level, Line

LEVEL, POWER = 0.05, 0.8
"""Significance level and power of the test."""
DOUBT = 0.8
"""Confidence level at which the true spread is below the cautious estimate."""
MOST = 1000
"""Maximum number of seeds to plan."""
CERTAIN = 8.0
"""Gain, in standard errors of the difference, above which the power rounds to 1.0000."""
LONGER = (1, 2, 4)
"""Multiples of the averaging window to consider."""


class Choice(msgspec.Struct, frozen=True):
    """One option of a plan: number of averaged last steps, spread of their means, and number of required seeds."""

    steps: int
    spread: float
    seeds: int | None
    cautious: int | None


class Plan(msgspec.Struct, kw_only=True):
    """The number of seeds and steps needed to detect a gain of ``gain`` in ``metric``, with an explanation."""

    metric: str
    gain: float
    settings: int
    runs: int
    failing: float
    choices: list[Choice]
    words: list[str]


def plan(lines: Sequence[Line], metric: str | None, gain: float) -> Plan:
    """Plan the seeds and steps needed to detect a gain in the metric that ranks the fleet."""
    told = [line for line in lines if metric in line.levels and math.isfinite(line.levels[metric].now)]
    well = [line for line in told if line.verdict != "failing"]
    failing = sum(line.verdict == "failing" for line in told) / len(told) if told else math.nan
    groups = [group for group in by_setting(well) if len(group) > 1]
    groups = [group for group in groups if _seeds(group) == len(group)] or groups
    if metric is None or not groups:
        return Plan(metric=metric or "", gain=gain, settings=0, runs=len(well), failing=failing, choices=[],
                    words=_no_seeds(well, metric, gain))  # fmt: skip
    noise = _noise(groups, metric)
    choices = [_choice(noise, times, gain) for times in LONGER]
    words = _words(metric, gain, noise, choices[0], failing)
    return Plan(
        metric=metric, gain=gain, settings=noise.settings, runs=noise.runs, failing=failing,
        choices=choices, words=words,
    )  # fmt: skip


def _noise(groups: list[list[Line]], metric: str) -> _Noise:
    levels = [[line.levels[metric] for line in group] for group in groups]
    free = sum(len(group) - 1 for group in levels)
    with np.errstate(over="ignore"):  # values near 1e308 lead to an infinite variance
        spread = math.sqrt(sum(len(group) * float(np.var([one.now for one in group])) for group in levels) / free)
    within, rows = _within([one for group in levels for one in group])
    lines = [line for group in groups for line in group]
    seeded = all(_seeds(group) == len(group) for group in groups)
    return _Noise(len(groups), len(lines), seeded, free, spread, within, rows, _steps_a_row(lines))


def _seeds(group: list[Line]) -> int:
    """Return the number of different seeds that the runs of a setting declare."""
    told = [[value for name, value in line.settings.items() if name.rsplit(".", 1)[-1] in SEEDS] for line in group]
    return len({repr(seeds) for seeds in told if seeds})


def _within(levels: list[Level]) -> tuple[float, float]:
    """Return the long-run variance of one row, and the number of rows over which a level is averaged. The variance and
    the number of rows are medians over the runs."""
    known = [level for level in levels if math.isfinite(level.error)]
    rows = float(np.median([level.rows for level in levels]))
    return (float(np.median([level.error * level.error * level.rows for level in known])) if known else 0.0), rows


def _steps_a_row(lines: list[Line]) -> float:
    each = [(line.last_step - line.first_step) / (line.steps - 1) for line in lines
            if line.steps > 1 and line.last_step is not None and line.first_step is not None]  # fmt: skip
    return max(float(np.median(each)), 1.0) if each else 1.0


def _choice(noise: _Noise, times: int, gain: float) -> Choice:
    from scipy import stats

    spread = math.sqrt(noise.between + noise.within / (noise.rows * times))
    upper = spread * math.sqrt(noise.free / stats.chi2.ppf(1 - DOUBT, noise.free))
    steps = round(noise.rows * times * noise.each)
    return Choice(steps, spread, seeds_needed(spread, gain), seeds_needed(upper, gain))


def seeds_needed(spread: float, gain: float) -> int | None:
    """Return the number of seeds per setting that detect a difference of ``gain`` with `POWER`; None if more than
    `MOST` seeds are needed.

    Args:
        spread: standard deviation of the levels of runs that differ only in the seed, in the unit of ``gain``.
    """
    if spread <= 0:
        return 2
    counts = range(2, MOST + 1)
    place = bisect_left(counts, POWER, key=lambda seeds: power(seeds, spread, gain))
    return counts[place] if place < len(counts) else None


def power(seeds: int, spread: float, gain: float) -> float:
    """Return the probability that a two-sided t test at `LEVEL` detects the gain between two settings with ``seeds``
    runs each."""
    from scipy import stats

    if seeds < 2:
        return 0.0
    free = 2 * seeds - 2
    shift = gain / (spread * math.sqrt(2 / seeds))
    if shift > CERTAIN:
        return 1.0
    critical = stats.t.ppf(1 - LEVEL / 2, free)
    return float(stats.nct.sf(critical, free, shift))  # the other tail is negligible (below 0.0001)


def _no_seeds(well: list[Line], metric: str | None, gain: float) -> list[str]:
    if metric is None:
        return ["Too few of these runs record a reward or score, so its noise cannot be estimated."]
    within, rows = _within([line.levels[metric] for line in well]) if well else (0.0, 0.0)

    told = ["No two runs (without failing ones) differ only in the seed, so the variance between seeds is unknown and "
            "the number of seeds cannot be computed. Run one setting with three to five seeds first."]  # fmt: skip
    if within > 0:
        needed = math.ceil(2 * within * (2.8 / gain) ** 2)
        each = _steps_a_row(well)
        told.append(
            f"Step noise alone requires the following: the level of a run is the mean of its last {rows:.0f} rows, and "
            f"the noise variance per row is {within:.3g}. To detect a difference of {gain:g} between two such means, "
            f"average 2 x {within:.3g} x (2.8 / {gain:g})² = {counted(needed, 'row')} at the end of each run "
            f"({counted(math.ceil(needed * each), 'step')}). 2.8 = 1.96 + 0.84, for a significance level of "
            f"{LEVEL:.0%} and a power of {POWER:.0%}. The variance between seeds adds to this."
        )
    return told


class _Noise(NamedTuple):
    """Noise measured on runs with equal settings.

    Attributes:
        settings, runs: number of settings, and number of their runs.
        seeded: whether all runs declare different seeds within their setting.
        spread, free: standard deviation of the levels within a setting, and its degrees of freedom.
        within: long-run variance of one row.
        rows, each: number of rows over which a level is averaged, and number of steps per row.
    """

    settings: int
    runs: int
    seeded: bool
    free: int
    spread: float
    within: float
    rows: float
    each: float

    @property
    def between(self) -> float:
        """The variance between seeds, which longer averages do not reduce."""
        return max(self.spread**2 - self.within / self.rows, 0.0)


def _words(metric: str, gain: float, noise: _Noise, now: Choice, failing: float) -> list[str]:
    doubt = "" if noise.seeded else " (not all runs declare one, so other settings may differ too)"
    seen = (
        f"To detect a gain of {gain:g} with {POWER:.0%} power at a {LEVEL:.0%} significance level, a two-sided t test "
        f"between two settings needs {_counted(now.seeds)} per setting: the gain is "
        f"{gain / now.spread:.2g} times the spread."
        if now.spread > 0
        else "The levels of all seeds are equal, so any gain can be detected."
    )
    told = [
        f"{noise.runs} runs (without failing ones) cover {noise.settings} settings and differ within each only in the "
        f"seed{doubt}. Within a setting, the levels of {metric} (means of the last {noise.rows:.0f} rows) have a "
        f"standard deviation of {noise.spread:.3g} ({noise.free} degrees of freedom).",
        f"Of the variance {noise.spread**2:.3g}, step noise explains {noise.within:.3g} / {noise.rows:.0f} "
        f"= {noise.within / noise.rows:.3g}. The remaining {noise.between:.3g} is variance between seeds, which longer "
        "averages do not reduce.",
        seen,
        f"With so few runs the true spread may be larger; {_counted(now.cautious)} are enough with {DOUBT:.0%} "
        "confidence.",
    ]
    return [*told, _spares(failing)] if failing > 0 else told


def _spares(failing: float) -> str:
    """Return a sentence with the number of additional runs needed if this share of the runs fails, which is share / (1
    - share) of the plan."""
    if failing >= 1:
        return "All runs fail: fix the failures first."
    return f"{failing:.0%} of the runs fail: start {failing / (1 - failing):.0%} more runs than the plan needs."


def _counted(seeds: int | None) -> str:
    return f"more than {MOST:,} seeds" if seeds is None else f"{seeds} seeds"
