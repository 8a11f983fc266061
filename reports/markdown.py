"""Renders the report as Markdown for an issue, a pull request or a notebook. Texts of the log are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from grpo_doctor import Diagnosis, Finding, Remedy, Withheld
from grpo_doctor.diagnosis.framework import FRAMEWORKS
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.report.charts import file_name, panels
from grpo_doctor.report.model import (  # fmt: skip
    Options,
    authored,
    begun,
    coverage,
    facts,
    fenced,
    first_screen,
    is_prose,
    leading,
    level,
    markdown,
    measured,
    missing,
    next_run,
    number,
    responses,
    settings_table,
    story,
    when,
    withheld,
)
from grpo_doctor.report.proofs import proofs
from grpo_doctor.run import Table

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Render one chapter per run. A summary precedes several runs."""
    parts = _summary(diagnoses) if len(diagnoses) > 1 else []
    for index, diagnosis in enumerate(diagnoses):
        parts += _chapter(diagnosis, index, options)
    if options.suppressions:
        parts += ["# Suppressions", _bullets(f"{one.kind}: {markdown(one.text)}" for one in options.suppressions)]
    return "\n\n".join(parts)


def render_comparisons(comparisons: Sequence[Comparison], options: Options) -> str:
    """Render one chapter for each setting that is compared with BASE."""
    return "\n\n".join(part for found in comparisons for part in _comparison(found))


def _comparison(found: Comparison) -> list[str]:
    from grpo_doctor.compare import summary as compared

    parts = [f"# {found.verdict.capitalize()}: {markdown(found.new.name)}", f"**{markdown(compared.headline(found))}**"]
    parts.append(_bullets(f"{name}: {markdown(value)}" for name, value in compared.facts(found)))
    if found.findings:
        parts += ["## Found by the comparison", _bullets(_finding(f, remedies=True) for f in found.findings)]
    for table in compared.tables(found):
        parts += [f"## {markdown(table.title)}", _table(table), *([markdown(table.note)] if table.note else [])]
    return [*parts, "## Coverage", _bullets(map(markdown, found.notes))] if found.notes else parts


def _chapter(diagnosis: Diagnosis, index: int, options: Options) -> list[str]:
    main, effects, others, notes = story(diagnosis)
    parts = [f"# {diagnosis.verdict.capitalize()}: {markdown(diagnosis.source)}", f"**{markdown(diagnosis.headline)}**"]
    if main is not None:
        parts += [_first_screen(main, diagnosis, options), *_remedies(main, withheld(diagnosis))]
    if options.figures is not None:
        parts += [
            f"![{markdown(panel.alt)}]({(options.figures / file_name(panel, index)).as_posix()}.svg)"
            for panel in panels(diagnosis)
        ]
    if main is not None:
        if effects:
            parts += [f"## Explained by {main.code}", _bullets(map(_finding, effects))]
        parts += _doubts(main)
    if others:
        parts += ["## Other findings", _bullets(map(_finding, others))]
    if notes:
        parts += ["## Notes", _bullets(_finding(f, remedies=True) for f in notes)]
    if todo := next_run(diagnosis):
        parts += ["## Before the next run", _bullets(map(authored, todo))]
    if diagnosis.answers:
        parts += ["## What the numbers mean", _bullets(map(markdown, diagnosis.answers))]
    for table in diagnosis.tables:
        parts += [f"## {markdown(table.title)}", _table(table), *([markdown(table.note)] if table.note else [])]
    for proof in proofs(diagnosis) if options.samples else ():
        cells = [[markdown(cell.replace("\n", " ⏎ ")) for cell in row] for row in proof.rows]
        parts += [f"## {proof.title}", _rows(proof.head, cells)]
    if options.samples and (shown := responses(diagnosis)):
        parts += [f"## Responses at step {shown[0].step}", *(fenced(sample.response) for sample in shown)]
    return [*parts, *_basis(diagnosis)]


def _first_screen(main: Finding, diagnosis: Diagnosis, options: Options) -> str:
    rows = first_screen(main, diagnosis, options.gpu_cost).items()
    cells = ([f"**{name}**", authored(words) if name == "do this" else markdown(words)] for name, words in rows)
    return _rows(["", ""], cells)


def _remedies(main: Finding, withheld: Sequence[Withheld]) -> list[str]:
    parts = [part for remedy in main.remedies for part in _remedy(remedy)]
    if withheld:
        parts.append(_bullets(f"Ruled out: {authored(w.title)}. {authored(w.because)}" for w in withheld))
    return ["## What to change", *parts] if parts else []


def _remedy(remedy: Remedy) -> list[str]:
    parts = [f"### {authored(remedy.title)}"]
    for step in remedy.steps:
        who = f"**{FRAMEWORKS.get(step.who, step.who)}**"
        parts += [f"{who}: {authored(step.do)}"] if is_prose(step) else [f"{who}:", fenced(step.do)]
    return [*parts, f"Evidence: {authored(remedy.evidence)}. Source: {authored(remedy.source)}."]


def _doubts(main: Finding) -> list[str]:
    parts = []
    if main.rivals:
        rivals = [[authored(r.name), authored(r.why), authored(r.separated_by)] for r in main.rivals]
        parts += ["## Alternative explanations", _rows(["explanation", "why", "how to confirm"], rivals)]
    if main.invalidates:
        parts += ["## Do not use", _bullets(map(authored, main.invalidates))]
    if evidence := measured(main):
        rows = [[markdown(name.replace("_", " ")), markdown(number(value))] for name, value in evidence.items()]
        parts += [f"## Evidence for {main.code}", _rows(["", ""], rows)]
    return parts


def _finding(finding: Finding, *, remedies: bool = False) -> str:
    words = f"`{finding.code}` {finding.name} ({level(finding)}, {when(finding)}): {markdown(finding.message)}"
    if remedies and finding.remedies:
        words += " → " + "; ".join(authored(remedy.title) for remedy in finding.remedies)
    return words


def _basis(diagnosis: Diagnosis) -> list[str]:
    lines = [f"needs {markdown(needs)}: {', '.join(codes)}" for needs, codes in missing(diagnosis)]
    if unread := diagnosis.coverage.unread_keys:
        lines.append(f"log keys not used: {', '.join(map(markdown, unread))}")
    lines += map(markdown, diagnosis.notes)
    parts = ["## Coverage", _bullets(f"{name}: {markdown(value)}" for name, value in facts(diagnosis))]
    if diagnosis.settings:
        parts.append(_table(settings_table(diagnosis)))
    return [*parts, coverage(diagnosis), *([_bullets(lines)] if lines else [])]


def _summary(diagnoses: Sequence[Diagnosis]) -> list[str]:
    rows = []
    for diagnosis in diagnoses:
        main, first = leading(diagnosis), begun(diagnosis)
        cause = [f"`{main.code}` {main.name}" if main else "", when(first) if first else ""]
        rows.append([diagnosis.verdict, markdown(diagnosis.source), *cause])
    return [f"# {counted(len(diagnoses), 'run')}", _rows(["verdict", "run", "finding", "when"], rows)]


def _table(table: Table) -> str:
    return _rows([markdown(name) for name in table.head], [[markdown(cell) for cell in row] for row in table.rows])


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
