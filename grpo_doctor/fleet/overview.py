"""A fleet as every report tells it: its runs worst first, their causes, the settings, the leaders, the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ..wording import counted
from .merge import Gathered, shortened
from .planning import Plan, plan
from .separating_settings import SURE, Effect, separate
from .store import Store
from .unit import Line

WORST = ("failing", "broken", "unreadable", "suspect", "unjudged", "unproven", "healthy")
"""The order in which runs are told."""
RANKED = ("eval_score", "success_rate", "reward_mean")
"""What runs are ranked by: the first that half of them record."""
LEADERS = 10
PLAIN = {"eval_score": "held-out score", "success_rate": "success rate", "reward_mean": "reward"}


class Cause(msgspec.Struct, frozen=True):
    """Runs of one verdict that one finding heads, and the median step at which it begins."""

    verdict: str
    code: str | None
    name: str
    runs: int
    onset: float | None
    first: int


class Overview(msgspec.Struct, kw_only=True):
    """What is known of a fleet. ``lines`` and ``names`` go together, in the order of the table's ``run``."""

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
        """Runs, without the lines of inputs that none came of."""
        return sum(bool(line.unit) and line.verdict not in ("unreadable", "broken") for line in self.lines)


def ordered(fleet: Gathered) -> Gathered:
    """The lines worst first, and those of one cause together, the cause of most runs first."""
    often = Counter((line.verdict, line.cause) for line in fleet.lines)

    def rank(line: Line) -> tuple[int, int, str, int, str]:
        group = -often[line.verdict, line.cause] if line.cause else 0
        return WORST.index(line.verdict), group, line.cause or "", line.onset_step or 0, line.source

    return Gathered(sorted(fleet.lines, key=rank), fleet.answers)


def overview(store: Store, fleet: Gathered, places: Sequence[str], gain: float | None) -> Overview:
    """What the tables of a fleet come to."""
    metric = _metric(store)
    effects, untried = separate(store, metric)
    return Overview(
        places=list(places),
        lines=fleet.lines,
        names=shortened(fleet.lines),
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
    """What the runs of reinforcement learning are ranked by; None where too few record anything of it."""
    known = ", ".join(f"count({metric})" for metric in RANKED)
    ((runs, *counts),) = store.rows(f"select count(*), {known} from runs where run_type = 'rl'")
    return next((m for m, count in zip(RANKED, counts, strict=True) if count and 2 * count >= runs), None)


def unit_of(metric: str | None) -> str:
    """The name of a metric in a sentence."""
    return PLAIN.get(metric or "", metric or "")


def verdict_words(overview: Overview) -> str:
    """``184 runs: 40 failing, 90 healthy``."""
    return f"{counted(overview.runs, 'run')}: {', '.join(f'{n} {v}' for v, n in overview.verdicts.items())}"


def effect_words(effect: Effect, tried: int) -> str:
    """One sentence on what a setting has to do with failing."""
    worst = max(effect.values, key=lambda v: v.share)
    best = min(effect.values, key=lambda v: v.share)
    shares = f"{worst.share:.0%} of the runs with {worst.value} fail, {best.share:.0%} of those with {best.value}"
    p = f"p = {effect.adjusted:.2g}, corrected for {counted(tried, 'setting')}"
    if not effect.separates:
        return f"{effect.setting}: {shares}; nothing that chance would not do ({p})."
    words = f"{effect.setting} separates: {shares} ({p}; {effect.test})."
    if effect.with_:
        words += f" It always changes together with {', '.join(effect.with_)}, so they cannot be told apart here."
    elif effect.beyond is not None and effect.beyond > SURE:
        words += f" Among runs with equal values of the first setting it tells nothing more (p = {effect.beyond:.2g})."
    return words


def effects_words(overview: Overview) -> list[str]:
    """What the settings have to do with failing: those that separate, or that none does, and why."""
    telling = [effect for effect in overview.effects if effect.separates]
    if telling:
        return [effect_words(effect, len(overview.effects)) for effect in telling]
    if overview.effects:
        first = overview.effects[0]
        return [f"Of {counted(len(overview.effects), 'setting')} none separates the failing runs from the others; "
                f"nearest comes {effect_words(first, len(overview.effects))}"]  # fmt: skip
    if overview.untried:
        name, why = next(iter(overview.untried.items()))
        return [f"No setting could be tried; {name}, for one: {why}."]
    return ["No two of these runs declare different values of a setting, so none can be compared."]
