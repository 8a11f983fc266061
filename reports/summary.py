"""Renders the job summary: a table of all runs, and instructions for the runs that need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo_doctor import Diagnosis
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.report.model import (
    Options,
    authored,
    excuse,
    first_screen,
    leading,
    markdown,
    responses,
    story,
    when,
)

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

BADGE = {
    "failing": "❌ failing",
    "suspect": "⚠️ suspect",
    "healthy": "✅ healthy",
    "unproven": "❔ unproven",
    "unjudged": "❔ unjudged",
}
LENGTH = 300
"""Maximum length of a response in characters."""


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Return Markdown for ``$GITHUB_STEP_SUMMARY``."""
    verdicts = ", ".join(
        f"{count} {verdict}"
        for verdict in ("failing", "suspect", "unjudged", "unproven", "healthy")
        if (count := sum(d.verdict == verdict for d in diagnoses))
    )
    rows = ["| verdict | run | steps | finding |", "| --- | --- | --- | --- |", *map(_row, diagnoses)]
    parts = [f"## grpo-doctor: {counted(len(diagnoses), 'run')}: {verdicts}", "\n".join(rows)]
    parts += ["\n".join(_chapter(d, options)) for d in diagnoses if d.findings]
    if options.suppressions:
        parts.append(
            "\n".join(["### Suppressions", "", *(f"- {s.kind}: {markdown(s.text)}" for s in options.suppressions)])
        )
    return "\n\n".join(parts)


def render_comparisons(comparisons: Sequence[Comparison], options: Options) -> str:
    """Return Markdown for comparisons: how NEW compares with BASE, and the outcome of BASE's findings."""
    from grpo_doctor.compare import summary as compared

    parts = []
    for found in comparisons:
        parts.append(f"## grpo-doctor: {found.verdict}: {markdown(found.new.name)}")
        lines = [f"**{markdown(compared.headline(found))}**", ""]
        lines += [f"- {name}: {markdown(value)}" for name, value in compared.facts(found)]
        lines += [f"- `{f.code}` {f.name} ({f.severity}): {markdown(f.message)}" for f in found.findings]
        lines += [f"- `{f.code}` {f.name}: {f.status}" + (f", {markdown(f.why)}" if f.why else "") for f in found.fared]
        parts.append("\n".join([*lines, *(f"- {markdown(note)}" for note in found.notes)]))
    return "\n\n".join(parts)


def _row(diagnosis: Diagnosis) -> str:
    main = leading(diagnosis)
    cause = markdown(diagnosis.headline)
    if main is not None:
        cause = f"`{main.code}` {main.name}, {first_screen(main, diagnosis)['when']}"
    return f"| {BADGE[diagnosis.verdict]} | {markdown(diagnosis.source)} | {diagnosis.steps} | {cause} |"


def _chapter(diagnosis: Diagnosis, options: Options) -> list[str]:
    main, effects, others, notes = story(diagnosis)
    lines = [f"### {markdown(diagnosis.source)}", "", f"**{markdown(diagnosis.headline)}**", ""]
    if main is not None:
        lines += [f"- {name}: {authored(words)}" for name, words in first_screen(main, diagnosis).items()]
        if effects:
            lines.append(f"- explains {', '.join(f'`{f.code}` {f.name}' for f in effects)}")
    for finding in [*others, *notes]:
        words = f"`{finding.code}` {finding.name} ({finding.severity}, {when(finding)}): {markdown(finding.message)}"
        why = excuse(diagnosis, finding, options)
        lines.append(f"- {words}" + (f" Accepted: {markdown(why)}" if why else ""))
    if options.samples:
        lines += [f"- response: {markdown(s.response[:LENGTH])}" for s in responses(diagnosis)]
    return lines
