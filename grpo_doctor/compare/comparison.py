"""Compares two arms. Comparison checks receive the comparison, and every report shows the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..diagnosis.catalogue import Catalogue, load
from ..diagnosis.check import Check, Finding, Fires, Severity
from ..diagnosis.verdict import learns
from ..diagnosis.wording import counted, rendered
from ..record import NUMBER_FIELDS
from ..run import BROADCAST
from .align import Aligned, By, align, timeline
from .arms import SEEDS, Arm, Change, changes
from .difference import LEAST, Difference, difference_of, metrics_of
from .divergence import Parting, first_not_finite, first_unequal, partings
from .samples import Agreement, agreement
from .verdict import Fared, Verdict, fared, success_of, verdict_of
from .weights import WeightChange, compare_weights

CLOCKS = frozenset("wall_time epoch tokens_seen optimizer_step learning_rate update_skipped_reason".split()) | BROADCAST
"""Fields that depend on the clock or a setting, so that equal values show nothing about the policy."""
FOLLOWED = ("advantage_std", "dead_share")
"""Series that are searched for a divergence, in addition to the compared series."""


class Comparison(msgspec.Struct, kw_only=True):
    """Two arms and their differences. ``by`` is the axis, and ``x`` contains the first and the last shared place.

    Attributes:
        settings: the settings that differ.
        declared: whether the runs declare any settings.
        differences: one difference per compared metric that both arms record.
        partings: the places at which metrics diverge, the earliest first.
        unequal: the first place at which any metric differs; None if all metrics are equal.
        equal: number of shared places, by field, for the fields that vary along the runs but are equal in both arms at
            every shared place.
        fared: the outcome of every finding, and whether its remedies worked.
        findings: the findings of the comparison checks.
        because: why the arms cannot be compared; empty if a comparison is possible.
    """

    base: Arm
    new: Arm
    by: By = "step"
    x: tuple[float, float] | None = None
    settings: list[Change] = []
    declared: bool = True
    differences: list[Difference] = []
    partings: list[Parting] = []
    unequal: float | None = None
    equal: dict[str, int] = {}
    recorded: int = 0
    samples: Agreement | None = None
    weights: list[WeightChange] = []
    fared: list[Fared] = []
    findings: list[Finding] = []
    notes: list[str] = []
    because: str = ""
    verdict: Verdict = "cannot tell"

    def difference(self, metric: str) -> Difference | None:
        """Return the difference of this metric, if both sides record it."""
        return next((d for d in self.differences if d.metric == metric), None)

    def aligned(self, metric: str) -> Aligned | None:
        """Return the metric of both arms at the steps or token counts that they share."""
        return align(self.base.runs, self.new.runs, metric, self.by)

    @property
    def acting(self) -> list[Change]:
        """Return the settings that differ and should affect training, including the seed."""
        return [change for change in self.settings if change.acts]

    @property
    def changed(self) -> list[Change]:
        """Return the settings that differ and should affect training, without seeds."""
        return [change for change in self.acting if change.name not in SEEDS]

    @property
    def parting(self) -> Parting | None:
        return self.partings[0] if self.partings else None

    @property
    def single(self) -> bool:
        """Return whether a side has only one run."""
        return min(self.base.seeds, self.new.seeds) == 1

    @property
    def success(self) -> Difference | None:
        """Return the first success series that differs beyond noise; None if there is no such series."""
        return success_of(self.differences)

    @property
    def worst(self) -> Severity | None:
        """Return the highest severity among the findings that appeared or worsened in NEW and the findings of the
        comparison checks."""
        came = [f.level for f in self.fared if f.fate in ("appeared", "worsened")]
        return max((*came, *(f.level for f in self.findings)), default=None)

    @property
    def learns(self) -> bool:
        """Return whether every run of NEW shows learning or a solved task."""
        return all(learns(d.success, d.run_type) for d in self.new.diagnoses)


@np.errstate(all="ignore")
def compare(
    base: Arm,
    new: Arm,
    *,
    by: By = "step",
    weights: tuple[Path, Path] | None = None,
    catalogue: Catalogue | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Compare two arms. ``weights`` are two safetensors checkpoints. Raises `WeightsError` if a checkpoint cannot be
    read."""
    found = Comparison(base=base, new=new, by=by, settings=changes(base.settings, new.settings))
    found.declared = bool(base.settings or new.settings)
    found.weights = compare_weights(*weights) if weights is not None else []
    series = _shared(found)
    found.because = _why_not(found, series)
    if series and not found.because:
        found.x = (min(float(a.x[0]) for a in series.values()), max(float(a.x[-1]) for a in series.values()))
        _measure(found, series)
    found.samples = agreement(base.runs, new.runs)
    found.fared = fared(base, new, found.differences)
    found.verdict = "cannot tell" if found.because else verdict_of(found.differences, found.fared)
    found.notes = _notes(found, series)
    _ask(found, catalogue or load(), thresholds or {})
    return found


def _shared(found: Comparison) -> dict[str, Aligned]:
    """Return every metric that all runs record, except clocks and settings, aligned by step or tokens."""
    runs = (*found.base.runs, *found.new.runs)
    names = [n for n in NUMBER_FIELDS if n not in CLOCKS and all(n in run.columns for run in runs)]
    aligned = {name: found.aligned(name) for name in names}
    return {name: a for name, a in aligned.items() if a is not None}


def _why_not(found: Comparison, series: Mapping[str, Aligned]) -> str:
    """Return why the arms cannot be compared; empty if a comparison is possible."""
    diagnoses = (*found.base.diagnoses, *found.new.diagnoses)
    for diagnosis in diagnoses:
        if not len(diagnosis.run) or diagnosis.run_type == "none":
            return f"no training metrics were found in {diagnosis.source}"
    kinds = {d.run_type for d in diagnoses}
    if len(kinds) > 1:
        return f"the runs are of different kinds ({', '.join(sorted(kinds))})"
    if found.by == "tokens" and not all("tokens_seen" in d.run.columns for d in diagnoses):
        return "not every run records the tokens that it has seen; compare them by step"
    if series:
        return ""
    ends = [(min(d.first_step or 0 for d in arm.diagnoses), max(d.last_step or 0 for d in arm.diagnoses))
            for arm in (found.base, found.new)]  # fmt: skip
    if ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]:
        return f"BASE has steps {ends[0][0]} to {ends[0][1]} and NEW has {ends[1][0]} to {ends[1][1]}: none are shared"
    return "they have no metric in common"


def _measure(found: Comparison, series: Mapping[str, Aligned]) -> None:
    """Compute the differences, the divergences, and the equal fields."""
    metrics = metrics_of(found.new.diagnoses[0].run_type)
    compared = {name: a for name in metrics if (a := found.aligned(name)) is not None}
    if _other_rewards(found):
        compared.pop("reward_mean", None)
    found.differences = [difference_of(name, *metrics[name], aligned) for name, aligned in compared.items()]
    followed = compared | {name: a for name in FOLLOWED if (a := found.aligned(name)) is not None}
    found.partings = partings(followed)
    broken = first_not_finite(found.base.runs, found.new.runs)
    if broken is not None and found.by == "step":
        found.partings = sorted([*found.partings, broken], key=lambda p: p.at)
    varied = {name: a for name, a in series.items() if len(np.unique(a.base)) > 1 or len(np.unique(a.new)) > 1}
    found.recorded = len(varied)
    found.unequal = first_unequal(varied)
    found.equal = {name: len(a.x) for name, a in varied.items() if a.equal().all()}


def _other_rewards(found: Comparison) -> bool:
    """Return whether the reward has different components on the two sides, so that its values cannot be compared."""
    sides = [
        {name for run in arm.runs for row in run.columns.get("reward_components", ()) if row for name in row}
        for arm in (found.base, found.new)
    ]
    return bool(sides[0] and sides[1] and sides[0] != sides[1])


def _notes(found: Comparison, series: Mapping[str, Aligned]) -> list[str]:
    """Return the notes that a reader needs to interpret the numbers."""
    notes = []
    for side, arm in (("BASE", found.base), ("NEW", found.new)):
        for run in arm.runs:
            if (again := len(run) - len(timeline(run))) > 0:
                notes.append(f"{side}: the step counter goes back; for {again} repeated rows, the last values are used")
    ends = [max((d.last_step or 0 for d in arm.diagnoses), default=0) for arm in (found.base, found.new)]
    if found.x is not None and found.by == "step" and max(ends) > found.x[1]:
        longer = "BASE" if ends[0] > ends[1] else "NEW" if ends[1] > ends[0] else "one of them"
        notes.append(f"only steps {found.x[0]:.0f} to {found.x[1]:.0f} are compared: {longer} continues to {max(ends)}")
    formats = {d.format for d in (*found.base.diagnoses, *found.new.diagnoses)}
    if len(formats) > 1:
        notes.append(f"written by different programs ({', '.join(sorted(formats))}), which may measure differently")
    if _other_rewards(found):
        notes.append("the reward has different components on each side, so it is not compared")
    few = {name for name, a in series.items() if len(a.x) < LEAST}
    if series and few == set(series):
        most = max(len(a.x) for a in series.values())
        what = "shared step" if found.by == "step" else "shared token count"
        notes.append(
            f"{counted(most, what)}; at least {LEAST} are needed to estimate the noise, so no difference is judged"
        )
    if found.single and not found.because:
        notes.append(
            "with one run per side, a difference can be shown but not its cause: another seed may differ as much"
        )
    if len(found.changed) > 1:
        notes.append(f"{len(found.changed)} settings differ at once, so the comparison cannot show which one matters")
    if not found.declared:
        notes.append("neither side declares a setting; use --set NAME=VALUE or put a configuration next to the log")
    return notes


def _ask(found: Comparison, catalogue: Catalogue, thresholds: Mapping[str, Mapping[str, Any]]) -> None:
    """Run every comparison check, and sort the findings, the most severe first."""
    for check in catalogue.checks.values():
        if check.across is None:
            continue
        limits = {n: thresholds.get(check.code, {}).get(n, default) for n, default in check.across_thresholds.items()}
        fires: Fires | None = check.across(found, **limits)
        if fires is not None and fires.when:
            finding = _finding(found, check, fires)
            if check.preview and not catalogue.preview:
                finding.severity, finding.preview = str(Severity.INFO), True
            found.findings.append(finding)
    found.findings.sort(key=lambda f: (-f.level, f.code))


def _finding(found: Comparison, check: Check, fires: Fires) -> Finding:
    first, last = (int(place) if math.isfinite(place) else 0 for place in found.x or (0, 0))
    began = int(found.parting.at) if found.parting is not None else first
    return Finding(
        code=check.code,
        name=check.name,
        kind=check.kind,
        severity=str(max((level for level, holds in fires.levels if holds), default=check.severity)),
        confidence=str(check.confidence if fires.confidence is None else fires.confidence),
        onset_step=began if fires.onset is None else int(fires.onset),
        detected_step=last,
        last_step=last,
        message=rendered(fires.message, fires.evidence),
        evidence=fires.evidence,
        remedies=list(check.remedies),
        rivals=list(check.rivals),
    )
