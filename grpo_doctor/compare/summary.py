"""Writes a comparison as sentences and tables, the same for every report format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..diagnosis.catalogue import report, report_names
from ..diagnosis.check import Severity
from ..diagnosis.verdict import Diagnosis
from ..diagnosis.wording import counted, number
from ..report.model import Options, UnknownFormatError, presentable, shortened
from ..report.model import render as render_diagnoses
from ..report.redaction import cleaned, one_line
from ..run import Table
from .arms import Arm, Change
from .comparison import Comparison
from .difference import SEED
from .divergence import Parting
from .verdict import Fared, decided_by, one_sided

NEAR = 1e-4
"""Relative change below which a tensor counts as almost unchanged."""
SHOWN = 20
"""Maximum number of checkpoint tensors in a table. The tensors that changed most are listed."""


def render(name: str, comparisons: Sequence[Comparison], options: Options) -> str:
    """Render comparisons in one format. Raises `UnknownFormatError`.

    Formats for people show the comparison. Formats for machines, which contain only findings, show the runs of NEW with
    the findings of the comparison checks. Findings that BASE also has are accepted.
    """
    if name not in report_names():
        raise UnknownFormatError(f"unknown report format {name!r}; there are {', '.join(report_names())}")
    leaf = report(name)
    if hasattr(leaf, "render_comparisons"):
        text: str = leaf.render_comparisons([shown(c, samples=options.samples) for c in comparisons], options)
        return text
    pairs = [judged(c) for c in comparisons]
    excused = {**options.excused, **{key: why for _, known in pairs for key, why in known.items()}}
    told = msgspec.structs.replace(options, excused=excused)
    return render_diagnoses(name, [d for diagnoses, _ in pairs for d in diagnoses], told)


def shown(found: Comparison, *, samples: bool) -> Comparison:
    """Return a copy of a comparison with all texts cleaned for display."""
    names = [n for n in found.__struct_fields__ if n not in ("base", "new", "settings", "x")]
    texts = {name: cleaned(getattr(found, name)) for name in names}
    for side in ("base", "new"):
        arm = getattr(found, side)
        texts[side] = msgspec.structs.replace(
            arm, name=one_line(arm.name), diagnoses=[presentable(d, samples=samples) for d in arm.diagnoses]
        )
    return Comparison(**texts, settings=[_clean(c) for c in found.settings], x=found.x)


def judged(found: Comparison) -> tuple[list[Diagnosis], dict[tuple[str, str], str]]:
    """Return the diagnoses of NEW for the gate, with the findings of the comparison checks, and the findings to accept
    because BASE also has them."""
    diagnoses = []
    excused: dict[tuple[str, str], str] = {}
    for diagnosis in found.new.diagnoses:
        grave = [f for f in found.findings if f.level >= Severity.ERROR]
        told = msgspec.structs.replace(diagnosis, findings=[*found.findings, *diagnosis.findings])
        if grave:
            told.verdict, told.cause, told.headline = "failing", grave[0].code, headline(found)
        diagnoses.append(told)
        for one in found.fared:
            if one.fate in ("stayed", "eased"):
                excused[diagnosis.source, one.code] = f"{found.base.name} has it too"
    return diagnoses, excused


def _clean(change: Change) -> Change:
    """Return a setting without secrets; the value is also removed if the name marks a secret."""
    ((name, values),) = cleaned({change.name: [change.base, change.new]}).items()
    return Change(name, *(values if isinstance(values, list) else (values, values)))


def headline(found: Comparison) -> str:
    """Return the first sentences: how NEW compares with BASE, the numbers that show it, and where the two diverge."""
    if found.because:
        return f"Cannot compare, because {found.because}."
    grave = [f for f in found.findings if f.level >= Severity.ERROR and f.code != "CMP001"]
    if grave:
        return grave[0].message
    return " ".join(filter(None, (_verdict(found), _parted(found))))


def _verdict(found: Comparison) -> str:
    reasons = [d.sentence for d in found.differences if d.better]
    for fate, words in (("vanished", ""), ("appeared", "appeared"), ("worsened", "got worse")):
        these = [f for f in found.fared if f.fate == fate]
        grave = [f for f in these if f.level >= Severity.ERROR]
        words = words or ("is gone" if len(grave or these) == 1 else "are gone")
        if these:
            reasons.append(f"{_named(grave) if grave else ', '.join(f.code for f in these[:3])} {words}")
    said = {
        "better": "NEW is better",
        "worse": "NEW is worse",
        "mixed": "NEW is better in some respects and worse in others",
    }
    if found.verdict in said:
        return f"{said[found.verdict]}: {'; '.join(reasons)}."
    told = []
    for side, fate in (("BASE", "cannot tell"), ("NEW", "appeared")):
        if these := [f for f in one_sided(found.fared) if f.fate == fate]:
            told.append(f"{side} has {_named(these)}, but {these[0].why}.")
    if told:
        told.insert(0, f"BASE is {_verdicts(found.base)}, NEW is {_verdicts(found.new)}.")
    deciding = decided_by(found.differences)
    if found.recorded and found.unequal is None and not found.acting:
        told.append("NEW is a copy of BASE: every metric has identical values at every shared step.")
    elif deciding is None:
        told.append("It cannot be judged whether NEW is better: too few steps are shared to estimate the noise.")
    else:
        words = "Inconclusive" if deciding.inconclusive else "No difference beyond noise"
        told.append(f"{words}{' in the shared steps' if told else ''}: {deciding.sentence}.")
    return " ".join(told)


def _verdicts(arm: Arm) -> str:
    return ", ".join(dict.fromkeys(d.verdict for d in arm.diagnoses))


def _named(these: Sequence[Fared]) -> str:
    """Return codes and names of at most three findings."""
    more = f" and {len(these) - 3} more" if len(these) > 3 else ""
    return ", ".join(f"{f.code} {f.name}" for f in these[:3]) + more


def _parted(found: Comparison) -> str:
    if found.parting is None:
        return ""
    first = found.parting
    unit = "step" if found.by == "step" else "token"
    where = f"{unit} {first.at:.0f}"
    if first.broken is not None:
        return f"They diverge at {where}, where {first.metric} of {first.broken} is not finite."
    levels = f"{first.metric} ({number(first.base)} against {number(first.new)})"
    if first.until is not None:
        return f"They differ from {where} to {unit} {first.until:.0f} in {levels}."
    return f"They diverge at {where} in {levels}."


def setting(value: Any) -> str:
    """Return the value of a setting with all digits, because values may differ only in the last digit."""
    return "not declared" if value is None else str(value)


def names(found: Comparison) -> list[str]:
    """Return the names of NEW and BASE without common folders; the facts contain the full paths."""
    return shortened([found.new.name, found.base.name])


def facts(found: Comparison) -> list[tuple[str, str]]:
    """Return the header: both sides with their verdicts, and the range of shared steps or tokens."""
    rows = []
    for side, arm in (("BASE", found.base), ("NEW", found.new)):
        runs = "" if arm.seeds == 1 else f", {counted(arm.seeds, 'run')}"
        rows.append((side, f"{arm.name} ({_verdicts(arm)}, {counted(arm.diagnoses[0].steps, 'step')}{runs})"))
    if found.x is not None:
        unit = "steps" if found.by == "step" else "tokens"
        rows.append(("compared", f"{unit} {found.x[0]:.0f} to {found.x[1]:.0f}"))
    return rows


def tables(found: Comparison) -> list[Table]:
    """Return all results as tables, and skip empty tables."""
    made = (
        _settings(found), _differences(found), _partings(found), _findings(found), _remedies(found), _equal(found),
        _samples(found), _weights(found),
    )  # fmt: skip
    return [table for table in made if table is not None and table.rows]


def _settings(found: Comparison) -> Table:
    rows = [[c.name, setting(c.base), setting(c.new)] for c in found.settings]
    return Table(title="Settings that differ", head=["setting", "BASE", "NEW"], rows=rows)


def _differences(found: Comparison) -> Table:
    rows = [
        [
            d.label, number(d.base), number(d.new), number(d.difference, sign="+"),
            f"{number(d.low, sign='+')} to {number(d.high, sign='+')}" if d.known else "unknown", d.shown, d.words,
        ]
        for d in found.differences
    ]  # fmt: skip
    seeds = f"assumed to be {SEED:.0%} of the metric's range"
    if found.base.seeds + found.new.seeds > 2:
        seeds = f"measured on {found.base.seeds} and {found.new.seeds} runs, combined with an assumption"
    note = (
        "Means over the second half of the shared steps, or since the runs diverged if that is later. The intervals "
        f"hold together at 95%: they include the noise along the runs and between seeds ({seeds}). Detectable: the "
        "smallest difference between these runs that is found in 80% of such pairs, at most the range of the metric."
    )
    head = ["metric", "BASE", "NEW", "difference", "interval", "detectable", "verdict"]
    return Table(title="Differences", head=head, rows=rows, note=note)


def _partings(found: Comparison) -> Table:
    rows = [
        [f"{p.at:.0f}", "the end" if p.until is None else f"{p.until:.0f}", p.metric,
         *(_level(p, side) for side in ("BASE", "NEW"))]
        for p in found.partings
    ]  # fmt: skip
    note = "Where a metric first differs beyond noise, until when, and its level on each side there."
    if found.unequal is not None:
        note += f" Values first differ at {found.by if found.by == 'step' else 'token'} {found.unequal:.0f}."
    head = [f"from {found.by if found.by == 'step' else 'token'}", "until", "metric", "BASE", "NEW"]
    return Table(title="Where they diverge", head=head, rows=rows, note=note)


def _level(parting: Parting, side: str) -> str:
    if parting.broken is not None:
        return "not finite" if parting.broken == side else "finite"
    return number(parting.base if side == "BASE" else parting.new)


def _findings(found: Comparison) -> Table:
    rows = [[f.code, f.name, f.severity, f.status, f.why] for f in found.fared]
    note = "The findings at warning or above on either side, BASE's headline first."
    return Table(title="Findings", head=["code", "finding", "severity", "status", "because"], rows=rows, note=note)


def _remedies(found: Comparison) -> Table:
    """Return one row for each remedy of BASE's findings. If a remedy belongs to several findings with different
    verdicts, its verdict is "partly"."""
    by_title: dict[str, list[Fared]] = {}
    for fared in found.fared:
        for title in fared.remedies:
            by_title.setdefault(title, []).append(fared)
    rows = []
    for title, these in by_title.items():
        verdicts = list(dict.fromkeys(f.judgement or "cannot tell" for f in these))
        why = "; ".join(dict.fromkeys(f"{f.code}: {f.why}" for f in these))
        rows.append([title, verdicts[0] if len(verdicts) == 1 else "partly", why])
    note = (
        "What happened to the finding of each remedy. Confirmed: the check ran in NEW and is silent, and success is "
        "not worse. The logs do not show which remedies were applied."
    )
    return Table(title="Remedies", head=["remedy", "verdict", "because"], rows=rows, note=note)


def _equal(found: Comparison) -> Table:
    rows = [[name, str(places)] for name, places in found.equal.items()]
    if rows and len(rows) == found.recorded:
        rows = [["all of them", rows[0][1]]]
    note = f"Of {found.recorded} metrics that vary, these have identical values on both sides at every shared step."
    return Table(title="Identical metrics", head=["metric", "places"], rows=rows, note=note)


def _samples(found: Comparison) -> Table | None:
    if (s := found.samples) is None:
        return None
    parted = "never" if s.parted is None else f"step {s.parted}"
    rows = [[str(s.compared), f"{s.share:.1%}", parted]]
    return Table(
        title="Responses to the same prompt at the same step", head=["compared", "identical", "first other"], rows=rows
    )


def _weights(found: Comparison) -> Table:
    order = sorted(found.weights, key=lambda m: -m.change)
    rows = [[m.name, f"{m.change:.3g}", f"{m.norm:.4g}"] for m in order[:SHOWN]]
    still = sum(m.change < NEAR for m in order)
    note = f"Change relative to the norm of BASE, for {len(order)} tensors; {still} moved by less than {NEAR:g}."
    return Table(title="Weights", head=["tensor", "relative change", "norm of BASE"], rows=rows, note=note)
