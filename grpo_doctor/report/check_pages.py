"""Renders the page of a check as Markdown from its docstring and its declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..diagnosis.catalogue import Catalogue, home, load
from ..diagnosis.check import THRESHOLDS, Check, Severity
from ..diagnosis.lab_results import stored
from ..diagnosis.wording import listed


def page(catalogue: Catalogue, check: Check) -> str:
    """Return the whole page of a check."""
    facts = [f"Severity: {check.severity}. Confidence: {check.confidence}. Family: {check.family}."]
    if check.seen is not None:
        facts.append(_evidence(check))
    if check.needs:
        facts.append(f"The check needs {_needs(check)}.")
    limits = check.limits
    if limits:
        silent = ", ".join(f"`{name}` = {value}" for name, value in limits.items() if name not in check.meanings)
        facts.append(
            f"Thresholds are set under `[tool.grpo-doctor.thresholds.{check.code}]`{silent and f': {silent}'}."
        )
    explained = [f"{code} {catalogue.checks[code].name}" for code in check.explains if code in catalogue.checks]
    if explained:
        holds = (
            "While active" if check.explains_from is Severity.INFO else f"At severity {check.explains_from} or above"
        )
        facts.append(f"{holds}, this finding explains {listed(explained)}.")
    text = _with_defaults(check.page, limits)
    for start, notation in NOTATIONS.items():
        text = text.replace(f"## Example\n{start}", f"## Example\n{notation}\n\n{start}")
    title, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    made = (_rivals(check), _remedies(check), _measured(check))
    parts = sorted((part.strip() for part in (*sections, *made) if part), key=_place)
    head = [f"## {check.code} {check.name}", title.strip(), " ".join(facts)]
    return "\n\n".join([*head, *(f"### {part}" for part in parts)])


NOTATIONS = {
    "```text\nbase.": (
        "Each line gives a setting or a record field of BASE or NEW. `0.5x10` means 0.5 on ten steps, and `1->0x5` "
        "means five evenly spaced values from 1 to 0."
    ),
    "```text\n": (
        "Each line gives a record field and its value at each step. `0.5x10` means 0.5 on ten steps, `1->0x5` means "
        "five evenly spaced values from 1 to 0, and `?` means that the value is unknown."
    ),
    "```python\nfrom my_trainer": ("The example is an adapter for the probe; `my_trainer` is a trainer without bugs."),
}
"""Introduction of an example on the page, by the first words of the example."""
MEASURED = "Measured on faults of the built-in engine"
ORDER = (
    "What it sees", "What the probe does", "Why it matters", "Example", "Remedy", "Steps", "What else it could be",
    "Thresholds", "Known false alarms", "What this certifies, and what it does not", MEASURED, "Sources",
)  # fmt: skip
"""The sections of a page in reading order."""


def _place(part: str) -> int:
    """Return the position of a section; sections with unknown headings come before the sources."""
    heading = part.partition("\n")[0]
    return ORDER.index(heading) if heading in ORDER else len(ORDER) - 2


TRAINERS = {"by-hand": "custom trainer"}
"""Display names of the trainers for which a remedy has steps."""
KINDS = {
    "logs": ("public log", "public logs"),
    "threads": ("issue thread", "issue threads"),
    "faults": ("injected fault", "injected faults"),
    "batches": ("kind of simulated token batch", "kinds of simulated token batches"),
    "trainers": ("run of a public trainer with a planted bug", "runs of public trainers with a planted bug"),
    "configurations": ("configuration with a planted problem", "configurations with a planted problem"),
    "twins": ("deliberately broken trainer", "deliberately broken trainers"),
    "peers": ("labelled run of another tool", "labelled runs of other tools"),
    "rollouts": (
        "simulated run with a drift planted in the rollouts",
        "simulated runs with a drift planted in the rollouts",
    ),
}
"""Kinds of evidence that `tests/seen.py` counts, each with the singular and the plural of its noun."""


def _needs(check: Check) -> str:
    """Return the fields that a check needs; of fields that replace each other, one is needed."""
    single = listed([f"`{need.fields[0]}`" for need in check.needs if len(need.fields) == 1])
    either = [
        " or ".join((", ".join(names[:-1]), names[-1]))
        for names in ([f"`{field}`" for field in need.fields] for need in check.needs)
        if len(names) > 1
    ]
    return ", and also ".join([*filter(None, [single]), *either])


def _evidence(check: Check) -> str:
    seen = check.seen or {}
    if check.preview:
        return (
            "Preview: only synthetic data has triggered this check, so findings are remarks unless `--preview` is set."
        )
    if not seen and check.probe is not None:
        return "Only the probe of this check can detect the problem: it runs the trainer's own code."
    if not seen:
        return "No public log has triggered this check yet."
    named = [f"{seen[kind]} {words[seen[kind] != 1]}" for kind, words in KINDS.items() if kind in seen]
    return f"Evidence: the check fires on {listed(named)}."


def _with_defaults(text: str, limits: Mapping[str, Any]) -> str:
    """Insert the default of each threshold before its meaning."""

    def default(m: re.Match[str]) -> str:
        value = limits[m[1]]
        return f"- `{m[1]}` = {float(f'{value:.4g}') if isinstance(value, float) else value}: "

    def filled(section: re.Match[str]) -> str:
        return re.sub(r"^- `(\w+)`: ", default, section[0], flags=re.MULTILINE)

    return THRESHOLDS.sub(filled, text)


def _rivals(check: Check) -> str:
    if not check.rivals:
        return ""
    lines = [f"- **{r.name}**: {r.why}. To confirm, {r.separated_by}." for r in check.rivals]
    return "What else it could be\n\n" + "\n".join(lines)


def _remedies(check: Check) -> str:
    parts = []
    for known in check.remedies:
        lines = [f"- **{known.title}** (`{known.id}`)"]
        for step in known.steps:
            code = step.do.replace("\n", "\n    ")
            block = f"\n\n    ```python\n    {code}\n    ```"
            text = block if "\n" in code else f" {code}"
            lines.append(f"  - {TRAINERS.get(step.who, step.who)}:{text}")
        lines.append(f"  - evidence: {known.evidence} ({known.source})")
        parts.append("\n".join(lines))
    return "Steps\n\n" + "\n".join(parts) if parts else ""


def _measured(check: Check) -> str:
    """Return results of the experiments: how early this check finds a fault, and the effects of the check's
    remedies."""
    found = stored()
    lines = [f"- {harm.early(fault)}" for fault, harm in found.faults.items() if harm.by == check.code and harm.lead]
    offered = [remedy.id for remedy in check.remedies]
    for words, ids in (("", offered), ("withheld remedy ", check.withholds)):
        lines += [f"- {words}`{id}`: {treatment}" for id in ids for treatment in found.tried(check.code, id)]
    return (
        "\n".join([f"{MEASURED}\n\nIn a checkout, `grpo-doctor lab --fault NAME` repeats an experiment.\n", *lines])
        if lines
        else ""
    )


def index(catalogue: Catalogue) -> str:
    """Return a Markdown table of all checks."""
    lines = ["| code | name | family | severity | what is wrong |", "|---|---|---|---|---|"]
    for c in catalogue.checks.values():
        lines.append(f"| [{c.code}](pages/{c.code}.md) | {c.name} | {c.family} | {c.severity} | {c.title} |")
    return "\n".join(lines)


INTRODUCTION = """# The checks

Each check is one file, and each family of checks is one folder. The docstring of the file is the page of the check,
which `grpo-doctor checks explain CODE` prints. If a check `x.py` has a probe, the probe is in `x_probe.py`, whose
docstring is part of the page. Checks that differ only in conditions and words are entries of TOML tables; see
`grpo_doctor/diagnosis/entries.py`. To add a check, see [CONTRIBUTING](../.github/CONTRIBUTING.md). `make pages`
generates this index and the pages.
"""


def written(catalogue: Catalogue) -> dict[str, str]:
    """Return the generated files below ``checks/``: path to text."""
    files = {"README.md": f"{INTRODUCTION}\n{index(catalogue)}\n"}
    for check in catalogue.checks.values():
        files[f"pages/{check.code}.md"] = page(catalogue, check) + "\n"
    return files


if __name__ == "__main__":
    folder: Path = home("checks")
    for old in folder.glob("pages/*.md"):
        old.unlink()
    for name, text in written(load()).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
