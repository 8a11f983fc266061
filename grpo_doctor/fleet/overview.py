"""Collects the data of every fleet report: runs (worst first), causes, settings, the best runs and the seed plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ..diagnosis.wording import counted
from ..report.model import shortened
from ..series.trajectory import SUCCESS
from .merge import MergedFleet
from .planning import Plan, plan
from .separating_settings import SURE, Effect, separate
from .store import Store
from .unit import Line

WORST = ("failing", "broken", "unreadable", "suspect", "unjudged", "unproven", "healthy")
"""The order of verdicts in reports."""
RANKED = tuple(reversed(SUCCESS))
"""Metrics by which runs are ranked. The first metric that at least half of the RL runs record is used."""
LEADERS = 10


class Cause(msgspec.Struct, frozen=True):
    """Runs with the same verdict and main finding, with the median onset. ``first`` is the number of the first run."""

    verdict: str
    code: str | None
    name: str
    runs: int
    onset: float | None
    first: int


class Overview(msgspec.Struct, kw_only=True):
    """The data of a fleet report. ``lines`` and ``names`` have the order of the ``run`` column of the tables."""

    places: list[str]
    lines: list[Line]
    names: list[str]
    verdicts: dict[str, int]
    causes: list[Cause]
    effects: list[Effect]
    untried: dict[str, str]
    metric: str | None
    leaders: list[int]
    plan: Plan | None
    files: dict[str, int]

    @property
    def runs(self) -> int:
        """Return the number of rows that contain a run."""
        return sum(bool(line.unit) and line.verdict not in ("unreadable", "broken") for line in self.lines)


def ordered(fleet: MergedFleet) -> MergedFleet:
    """Sort the rows by verdict, the worst first, and then by cause, the most frequent first."""
    often = Counter((line.verdict, line.cause) for line in fleet.lines)

    def rank(line: Line) -> tuple[int, int, str, int, str]:
        group = -often[line.verdict, line.cause] if line.cause else 0
        return WORST.index(line.verdict), group, line.cause or "", line.onset_step or 0, line.source

    return MergedFleet(sorted(fleet.lines, key=rank), fleet.answers)


def overview(store: Store, fleet: MergedFleet, places: Sequence[str], gain: float | None) -> Overview:
    """Build the overview of a fleet."""
    metric = _metric(store)
    effects, untried = separate(store, metric)
    return Overview(
        places=list(places),
        lines=fleet.lines,
        names=shortened([line.source for line in fleet.lines]),
        verdicts={v: n for v in WORST if (n := sum(line.verdict == v for line in fleet.lines))},
        causes=[Cause(*row) for row in store.rows(_CAUSES)],
        effects=effects,
        untried=untried,
        metric=metric,
        leaders=[run for (run,) in store.rows(_LEADERS.format(metric=metric), [LEADERS])] if metric else [],
        plan=None if gain is None else plan(fleet.lines, metric, gain),
        files=dict(store.rows("select fate, count(*) from files group by fate order by fate")),
    )


_CAUSES = """
select verdict, cause, coalesce(any_value(cause_name), ''), count(*), median(onset_step), min(run)
from runs group by verdict, cause order by min(run)
"""
_LEADERS = """
select run from runs where {metric} is not null and verdict in ('healthy', 'unproven', 'suspect')
order by {metric} desc, run limit ?
"""


def _metric(store: Store) -> str | None:
    """Return the metric that ranks the RL runs; None if too few runs record such a metric."""
    known = ", ".join(f"count({metric})" for metric in RANKED)
    ((runs, *counts),) = store.rows(f"select count(*), {known} from runs where run_type = 'rl'")
    return next((m for m, count in zip(RANKED, counts, strict=True) if count and 2 * count >= runs), None)


def unit_of(metric: str | None) -> str:
    """Return the name of a metric for use in a sentence."""
    return SUCCESS.get(metric or "", metric or "")


def verdict_words(overview: Overview) -> str:
    """Return the number of runs with each verdict, as in ``184 runs: 40 failing, 90 healthy``."""
    return f"{counted(overview.runs, 'run')}: {', '.join(f'{n} {v}' for v, n in overview.verdicts.items())}"


def effect_words(effect: Effect, tried: int) -> str:
    """Describe how a setting is associated with failing."""
    worst = max(effect.values, key=lambda v: v.share)
    best = min(effect.values, key=lambda v: v.share)
    shares = f"{worst.share:.0%} of the runs with {worst.value} fail, {best.share:.0%} of those with {best.value}"
    p = f"p = {effect.adjusted:.2g}, corrected for {counted(tried, 'setting')}"
    if not effect.separates:
        return f"{effect.setting}: {shares}; this is consistent with chance ({p})."
    words = f"{effect.setting} separates: {shares} ({p}; {effect.test})."
    if effect.with_:
        words += f" It always changes together with {', '.join(effect.with_)}, so their effects cannot be separated."
    elif effect.beyond is not None and effect.beyond > SURE:
        words += (
            f" Among runs with equal values of the first setting it has no further effect (p = {effect.beyond:.2g})."
        )
    return words


def effects_words(overview: Overview) -> list[str]:
    """Describe the settings that separate failing runs, or explain why there are no such settings."""
    telling = [effect for effect in overview.effects if effect.separates]
    if telling:
        return [effect_words(effect, len(overview.effects)) for effect in telling]
    if overview.effects:
        first = overview.effects[0]

        return [f"No setting separates the failing runs from the others ({len(overview.effects)} tested). "
                f"The closest is {effect_words(first, len(overview.effects))}"]  # fmt: skip
    if overview.untried:
        name, why = next(iter(overview.untried.items()))
        return [f"No setting could be tested; for example {name}: {why}."]
    return ["No setting has different values in these runs, so none can be compared."]
