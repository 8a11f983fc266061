"""Finds the settings that separate failing runs from other runs.

For each setting, an exact test is applied to the table of its values against failing and not failing. The test is
Fisher's for two values, and Fisher-Freeman-Halton's for more values. The null hypothesis of both tests is that failing
is independent of the setting, and their p-values are valid for small tables. Holm's method corrects the p-values for
the number of tested settings. In 99 of 100 fleets in which no setting has an effect, no setting is named. Rewards and
onsets are compared with the Kruskal-Wallis rank test, corrected in the same way.

Sources: Fisher, Statistical Methods for Research Workers, 1934; Freeman and Halton, Biometrika 38, 1951; Holm,
Scandinavian Journal of Statistics 6, 1979; Phipson and Smyth, SAGMB 9, 2010 (p-values of random tables).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..compare.arms import SEEDS
from .store import Store

SURE = 0.01
"""Maximum corrected p-value at which a setting is named. The limit is small because a false positive leads to a useless
sweep."""
FEWEST = 6
"""Minimum number of runs to test a setting."""
VALUES = 6
"""Maximum number of values per setting. If a setting has more numeric values, they are grouped into ranges with about
equal numbers of runs. A setting with more values, some of which are not numbers, is not tested."""
RANGES = 5
DRAWS, MORE = 9_999, 99_999
"""`DRAWS`: number of random tables for a test with more than two values. `MORE`: larger number for small p-values,
because the smallest possible p-value depends on the number of tables."""
COMPARED = 3
"""Minimum number of runs per value for a comparison of rewards or onsets."""


class Value(msgspec.Struct, frozen=True):
    """The runs with one value of a setting: number of runs, number of failing runs, median reward and median onset."""

    value: str
    runs: int
    failing: int
    reward: float | None
    onset: float | None

    @property
    def share(self) -> float:
        return self.failing / self.runs


class Effect(msgspec.Struct, kw_only=True):
    """The association of a setting with failing runs.

    Attributes:
        p: exact p-value of the association with failing; ``adjusted`` is corrected for the number of tested settings.
        strength: Cramér's V of the association, 0 to 1.
        beyond: p-value of the association among runs with equal values of the setting that separates best; None for the
            best setting itself.
        reward_p, onset_p: corrected p-values of the tests of whether the rewards of all runs, and the onsets of failing
            runs, differ between values.
        with_: settings that always change together with this setting, so their effects cannot be separated.
    """

    setting: str
    values: list[Value]
    test: str
    p: float
    adjusted: float = 1.0
    strength: float = 0.0
    separates: bool = False
    beyond: float | None = None
    reward_p: float | None = None
    onset_p: float | None = None
    with_: list[str] = []


class Tried(NamedTuple):
    """The tested settings, the best separation first, and the settings that could not be tested, with the reason."""

    effects: list[Effect]
    untried: dict[str, str]


class _Runs(NamedTuple):
    """The runs that declare a setting, with the value or range of each run, and the outcome of each run."""

    run: np.ndarray
    words: list[str]
    group: np.ndarray
    failing: np.ndarray
    reward: np.ndarray
    onset: np.ndarray


def separate(store: Store, metric: str | None) -> Tried:
    """Test every setting that varies between the judged runs of a fleet."""
    tried: list[tuple[Effect, _Runs]] = []
    untried: dict[str, str] = {}
    for setting, runs in _declared(store, metric).items():
        if isinstance(runs, str):
            untried[setting] = runs
        else:
            tried.append((_effect(setting, runs), runs))
    _correct([effect for effect, _ in tried])
    tried.sort(key=lambda pair: (pair[0].adjusted, pair[0].p, -pair[0].strength, pair[0].setting))
    for effect, runs in tried:
        if effect.separates:
            effect.with_ = [o.setting for o, others in tried if o is not effect and _same_parts(runs, others)]
            if effect is not tried[0][0]:
                effect.beyond = _beyond(runs, tried[0][1])
    return Tried([effect for effect, _ in tried], untried)


def _declared(store: Store, metric: str | None) -> dict[str, _Runs | str]:
    """Return the runs that declare each setting, or the reason why the setting is not tested."""
    rows = store.rows(
        f"""select s.name, s.run, s.value, s.number, r.verdict = 'failing', r.onset_step,
                   {metric or "null"} as reward
            from settings s join runs r using (run)
            where r.verdict in ('failing', 'suspect', 'unproven', 'healthy') order by s.name, s.run"""
    )
    by_name: dict[str, list[tuple[Any, ...]]] = {}
    for name, *rest in rows:
        by_name.setdefault(name, []).append(tuple(rest))
    found: dict[str, _Runs | str] = {}
    for name, told in by_name.items():
        if len({value for _, value, *_ in told}) > 1:
            found[name] = _grouped(name, told)
    return found


def _grouped(name: str, told: list[tuple[Any, ...]]) -> _Runs | str:
    run, value, number, failing, onset, reward = zip(*told, strict=True)
    if name.rsplit(".", 1)[-1] in SEEDS:
        return "a random seed"
    if len(told) < FEWEST:
        return f"declared by only {len(told)} runs (minimum {FEWEST})"
    failed = np.array(failing, bool)
    if failed.all() or not failed.any():
        return "all runs with it fail" if failed.all() else "no run with it fails"
    grouped = _groups(value, number)
    if grouped is None:
        return f"{len(set(value))} different values, too many to compare"
    words, group = grouped
    if len(words) < 2:
        return "almost all runs have the same value"
    known = [np.array([math.nan if v is None else v for v in column], float) for column in (reward, onset)]
    return _Runs(np.array(run), words, group, failed, known[0], np.where(failed, known[1], math.nan))


def _groups(values: Sequence[str], numbers: Sequence[float | None]) -> tuple[list[str], np.ndarray] | None:
    """Return the ordered values of a setting, or ranges if it has many numbers, and the index of each run's value.
    Return None if a setting has many values that are not numbers."""
    different = list(dict.fromkeys(values))
    numeric = all(number is not None for number in numbers)
    if len(different) <= VALUES:
        order = dict(zip(values, numbers, strict=True))
        words = sorted(different, key=lambda v: (order[v] is None, order[v] or 0.0, v))
        return words, np.array([words.index(value) for value in values])
    if not numeric:
        return None
    x = np.array(numbers, float)
    edges = np.unique(np.quantile(x, np.linspace(0, 1, RANGES + 1)[1:-1], method="inverted_cdf"))
    at = np.searchsorted(edges, x)
    parts = np.unique(at)
    ends = [(f"{x[at == part].min():.3g}", f"{x[at == part].max():.3g}") for part in parts.tolist()]
    words = [low if low == high else f"{low} to {high}" for low, high in ends]
    return words, np.searchsorted(parts, at)


def _effect(setting: str, runs: _Runs) -> Effect:
    table = np.array([[int((runs.failing[runs.group == g] == fails).sum()) for fails in (True, False)]
                      for g in range(len(runs.words))])  # fmt: skip
    values = [
        Value(
            words,
            int(table[g].sum()),
            int(table[g, 0]),
            _median(runs.reward[runs.group == g]),
            _median(runs.onset[runs.group == g]),
        )
        for g, words in enumerate(runs.words)
    ]
    test, p = _exact(table)
    return Effect(
        setting=setting,
        values=values,
        test=test,
        p=p,
        strength=_strength(table),
        reward_p=_ranked(runs.reward, runs.group),
        onset_p=_ranked(runs.onset, runs.group),
    )


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _exact(table: np.ndarray) -> tuple[str, float]:
    """Return the name and the p-value of the exact test for a table of values against failing and not failing."""
    from scipy import stats

    if len(table) == 2:
        return "Fisher's exact test", float(stats.fisher_exact(table).pvalue)
    for draws in (DRAWS, MORE):
        method = stats.MonteCarloMethod(n_resamples=draws, rng=np.random.default_rng(0))
        p = float(stats.fisher_exact(table, method=method).pvalue)
        if p > 20 / draws:
            break
    return "Fisher-Freeman-Halton's exact test", p


def _strength(table: np.ndarray) -> float:
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    return math.sqrt(float(((table - expected) ** 2 / expected).sum()) / float(table.sum()))


def _ranked(values: np.ndarray, group: np.ndarray) -> float | None:
    """Return the p-value of the Kruskal-Wallis test of whether values differ between groups. Return None if too few
    values are known, or if all values are equal."""
    from scipy import stats

    known = np.isfinite(values)
    parts = [values[known & (group == g)] for g in range(int(group.max()) + 1)]
    parts = [part for part in parts if len(part) >= COMPARED]
    if len(parts) < 2 or np.ptp(np.concatenate(parts)) == 0:
        return None
    return float(stats.kruskal(*parts).pvalue)


def _correct(effects: list[Effect]) -> None:
    """Apply Holm's correction to each family of p-values: failing, reward and onset."""
    for effect, p in zip(effects, holm([effect.p for effect in effects]), strict=True):
        effect.adjusted, effect.separates = p, p <= SURE
    for name in ("reward_p", "onset_p"):
        known = [effect for effect in effects if getattr(effect, name) is not None]
        for effect, p in zip(known, holm([getattr(effect, name) for effect in known]), strict=True):
            setattr(effect, name, p)


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for multiple testing by Holm's step-down method."""
    adjusted, least = [1.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = least
    return adjusted


def _same_parts(one: _Runs, other: _Runs) -> bool:
    """Return whether two settings split the same runs in the same way."""
    if not np.array_equal(one.run, other.run):
        return False
    pairs = set(zip(one.group.tolist(), other.group.tolist(), strict=True))
    return len(pairs) == len(one.words) == len(other.words)


def _beyond(runs: _Runs, best: _Runs) -> float:
    """Return the p-value, from random tables, of the association of a setting with failing among runs with the same
    value of the best setting."""
    from scipy import stats

    of_best = dict(zip(best.run.tolist(), best.group.tolist(), strict=True))
    stratum = np.array([of_best.get(run, -1) for run in runs.run.tolist()])
    rng = np.random.default_rng(0)
    seen, drawn = 0.0, np.zeros(DRAWS)
    for s in np.unique(stratum):
        here = stratum == s
        table = np.array([[((runs.group == g) & here & (runs.failing == f)).sum() for f in (True, False)]
                          for g in range(len(runs.words))])  # fmt: skip
        table = table[table.sum(1) > 0]
        if len(table) < 2 or (table.sum(0) == 0).any():
            continue
        expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
        seen += float(((table - expected) ** 2 / expected).sum())
        tables = stats.random_table(table.sum(1), table.sum(0), seed=rng).rvs(DRAWS)
        drawn += ((tables - expected) ** 2 / expected).sum((1, 2))
    return float((1 + (drawn >= seen - 1e-9).sum()) / (1 + DRAWS))
