"""Diagnoses of the real logs: ``python -m tests.corpus``, or ``make corpus``.

Compares verdict, first sentence and onset with ``labels.csv``, run by run and weighted by repository, so that one
project with many runs does not decide, and lists every wrong run. ``--all`` prints what was read and found in every
file; ``--write`` also stores the verdicts in docs/evidence/accuracy.csv and all figures that are derived from them. Exit
code 1 if anything is wrong.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.corpus import first_sight, tables
from grpo_doctor import __version__
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import ReadError, read
from grpo_doctor.run import Run

from .corpus_path import CORPUS

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
STORED, ACCURACY = EVIDENCE / "accuracy.csv", EVIDENCE / "accuracy.md"
LABELLED = ("id", "repo", "expect", "families")
COLUMNS = ("date", "version", *LABELLED, "verdict", "named", "dated", "cause", "confidence")
"""``named``: whether the first sentence of a failing run names its problem; ``dated``: whether its onset is right;
``cause``, ``confidence``: the cause in its headline."""
RUN_TYPES = {"rl": "rl", "sft": "supervised", "dpo": "preference"}
STEPS = re.compile(r"(\d+) rows")
ONSETS = {
    **{"R013": 137, "R014": 5, "R015": 21, "R028": 195, "R034": 13, "R035": 10, "R036": 30, "R037": 14},
    **{"R064": 23, "R065": 85, "R066": 45, "R067": 140, "R068": 29, "R072": 123, "R074": 78, "R075": 40, "R082": 157},
    **{"R133": 5, "R121": 20, "R032": 35},
}
"""Step at which the run began to fail, judged by its curves (for two of them, the first NaN and the first
collapse)."""
NEAR = 0.1
"""Share of the run's steps by which a date may be off."""


class Scored(msgspec.Struct):
    """One labelled run and its diagnosis."""

    label: dict[str, str]
    diagnosis: Diagnosis

    @property
    def row(self) -> dict[str, str]:
        """Return what is stored of it."""
        from grpo_doctor.lab.judge import cause

        head = cause(self.diagnosis)
        answers = {"named": self.told if first_sight.is_faulty(_expected(self.label)) else None}
        answers["dated"] = self.dated if self.label["id"] in ONSETS else None
        return {
            "date": date.today().isoformat(), "version": __version__, "verdict": self.diagnosis.verdict,
            **{name: self.label[name] for name in LABELLED},
            "cause": head.code if head else "", "confidence": head.confidence if head else "",
            **{name: "" if answer is None else "yes" if answer else "no" for name, answer in answers.items()},
        }  # fmt: skip

    @property
    def told(self) -> bool:
        """Return whether the first sentence of a failing run names a problem in its label."""
        wanted = set(self.label["families"].split())
        said = [f for f in self.diagnosis.findings if f.message.removesuffix(".") in self.diagnosis.headline]
        named = {f.code[:-3] for f in said if f.level >= Severity.WARNING}
        return bool(named & wanted if wanted else named) and self.diagnosis.verdict != "healthy"

    @property
    def dated(self) -> bool:
        first, last, begun = self.diagnosis.first_step, self.diagnosis.last_step, self.diagnosis.onset_step
        if first is None or last is None or begun is None:
            return False
        return abs(begun - ONSETS[self.label["id"]]) <= max(NEAR * (last - first), 1)

    def line(self) -> str:
        """Return one line for the list of wrong results."""
        found = ", ".join(
            f"{f.code} {f.severity}" for f in self.diagnosis.findings if f.level >= Severity.WARNING and not f.cleared
        )
        headline = f"{self.diagnosis.headline[:200]} [{found}]"
        return f"{self.label['id']}: {self.diagnosis.verdict}, expected {self.label['expect']}: {headline}"


def labels() -> list[dict[str, str]]:
    """The rows of labels.csv."""
    return tables.read(CORPUS / "labels.csv")


def run_named(name: str) -> Run:
    """The real run with this id."""
    return read(CORPUS / next(row["file"] for row in labels() if row["id"] == name))[0]


def families(diagnosis: Diagnosis) -> set[str]:
    """Code prefixes of the findings of warning or above that still count at the end."""
    return {f.code[:-3] for f in diagnosis.findings if f.level >= Severity.WARNING and not f.cleared}


def main() -> int:
    """Print the figures and the list; return the number of contradictions, at most 1."""
    if not CORPUS.is_dir():
        print(
            f"the labelled logs are not at {CORPUS}: `make corpus-fetch` brings them; GRPO_DOCTOR_CORPUS names their folder"
        )
        return 2
    catalogue = load()
    wrong: list[str] = []
    scored: list[Scored] = []
    for label in labels():
        try:
            runs = read(CORPUS / label["file"])
        except ReadError as error:
            wrong.append(f"{label['id']}: cannot be read: {error}")
            continue
        diagnoses = [diagnose(run, catalogue=catalogue) for run in runs]
        for diagnosis in diagnoses:
            if "--all" in sys.argv:
                _show(label, diagnosis)
            wrong += _misread(label, diagnosis)
        if label["expect"] and label["label_confidence"] != "low":
            scored.append(Scored(label, min(reversed(diagnoses), key=lambda d: first_sight.WORST.index(d.verdict))))
    rows = [entry.row for entry in scored]
    for figure in measured(rows):
        print(f"{figure.what:56} {figure.by_run} ({figure.share}); {figure.by_repository} by repository")
    if "--write" in sys.argv:
        tables.write(STORED, COLUMNS, rows)
        from grpo_doctor.lab.evidence import texts

        for path, text in {**texts(EVIDENCE), ACCURACY: page(rows)}.items():
            path.write_text(text, encoding="utf-8")
    wrong += _misjudged(scored)
    print("\n".join(["", *wrong]) if wrong else "\nnothing is wrong")
    return int(bool(wrong))


def _show(label: dict[str, str], diagnosis: Diagnosis) -> None:
    run = diagnosis.run
    unread = list(run.unread)
    print(f"{label['file']}\n  {run.format}, {run.run_type}, {len(run)} steps")
    print("  mapped " + (", ".join(f"{key} → {name}" for key, name in run.mapping.items()) or "its own names"))
    print(f"  unread {len(unread)}: " + ", ".join(unread[:12]) + (" …" if len(unread) > 12 else ""))
    if run.settings:
        print("  settings " + ", ".join(f"{k}={v}" for k, v in list(run.settings.items())[:12]))
    found = ", ".join(f"{f.code} {f.severity} {f.role} at {f.onset_step}" for f in diagnosis.findings)
    print(f"  {diagnosis.verdict}: {diagnosis.headline}\n  expected {label['expect'] or 'not scored'}"
          f" {label['families']}\n  {found}\n")  # fmt: skip


def _misread(label: dict[str, str], diagnosis: Diagnosis) -> Iterable[str]:
    expected = RUN_TYPES.get(label["kind"])
    if expected and diagnosis.run_type != expected:
        yield f"{label['id']}: read as {diagnosis.run_type}, is {expected}"
    rows = STEPS.match(label["steps"])
    if rows and int(rows[1]) and abs(diagnosis.steps - int(rows[1])) > 1:  # a last row of totals counts or not
        yield f"{label['id']}: {diagnosis.steps} steps read, {rows[1]} expected"


class Figure(NamedTuple):
    """Return in how many of how many runs something holds, and the mean of that share over repositories."""

    what: str
    right: int
    of: int
    weighted: float

    @property
    def by_run(self) -> str:
        return f"{self.right} of {self.of}"

    @property
    def share(self) -> str:
        return f"{self.right / max(self.of, 1):.0%}"

    @property
    def by_repository(self) -> str:
        return f"{self.weighted:.0%}"


def measured(rows: list[dict[str, str]]) -> list[Figure]:
    """The acceptance figures."""
    faulty, well = [r for r in rows if r["named"]], [r for r in rows if "healthy" in _expected(r)]
    plain, dated = [r for r in well if r["expect"] == "healthy"], [r for r in rows if r["dated"]]
    return [
        _figure("verdict matches the label", rows, [_right(r) for r in rows]),
        _figure("first sentence of a failing run names its failure", faulty, [r["named"] == "yes" for r in faulty]),
        _figure("failing run called healthy", faulty, [r["verdict"] == "healthy" for r in faulty]),
        _figure("healthy run called failing", well, [r["verdict"] == "failing" for r in well]),
        _figure("clearly healthy run called healthy", plain, [r["verdict"] == "healthy" for r in plain]),
        _figure("onset correct to within a tenth of the run", dated, [r["dated"] == "yes" for r in dated]),
    ]


def _expected(row: dict[str, str]) -> set[str]:
    return set(row["expect"].split("|"))


def _right(row: dict[str, str]) -> bool:
    return row["verdict"] in _expected(row)


def _figure(what: str, of: list[dict[str, str]], hits: list[bool]) -> Figure:
    by_repo: dict[str, list[bool]] = defaultdict(list)
    for entry, hit in zip(of, hits, strict=True):
        by_repo[entry["repo"]].append(hit)
    weighted = sum(sum(rights) / len(rights) for rights in by_repo.values()) / max(len(by_repo), 1)
    return Figure(what, sum(hits), len(of), weighted)


def table(figures: list[Figure]) -> str:
    """Return the figures as the README and the evidence page show them."""
    rows = [f"| {f.what} | {f.by_run} ({f.share}) | {f.by_repository} |" for f in figures]
    return "\n".join(["| on public logs | runs | mean over repositories |", "|---|---|---|", *rows])


def page(rows: list[dict[str, str]]) -> str:
    """docs/evidence/accuracy.md, from the stored verdicts."""
    from grpo_doctor.lab.evidence import calibration

    shares = calibration(EVIDENCE)
    causes = "\n".join(
        f"| {level} | {share.right} of {share.of} | {share.low:.0%} to {share.high:.0%} |"
        for level in ("high", "medium", "low")
        if (share := shares.get(level)) is not None
    )
    known = {"table": table(measured(rows)), "causes": causes}
    return PAGE.format(**rows[0], **known, first_sight=first_sight.table(first_sight.stored()))


PAGE = """# How accurate it is

The figures were measured on {date} with version {version} (command: `python -m tests.corpus --write`). The command
needs the labelled public logs, which are not part of this repository. `make corpus-fetch` downloads the logs, and
`benchmarks/corpus/README.md` describes how the logs were labelled.

{table}

Each label is based on a description by the authors of the run, on the curves, or on both. Runs with an uncertain label
are not counted. If a label allows several verdicts, each of these verdicts matches the label. **These logs were
available while the checks were written**, so expect lower accuracy on your own runs.

## Logs that were not used to write the checks

Each set of logs was labelled before grpo-doctor read any log of the set. grpo-doctor judged each set once, at the
revision in the table (command: `python -m benchmarks.corpus.first_sight`). `benchmarks/corpus/first_sight.csv` lists
each log with its label and verdict. A second person, who did not know the rules, then compared the first paragraph of
each report with the log. The last column counts the paragraphs in which every statement is true, the paragraphs that
report the main fact, and the paragraphs that explain what to do next. Some rules were later changed to fix errors in
these sets.

{first_sight}

## How often the cause is correct

The table shows how often the named cause was correct, by confidence. The cases are the faults of the
[experiments](lab.md) and the labelled logs. The checks were written with knowledge of these cases.

| confidence | correct | 95% interval |
|---|---|---|
{causes}
"""


def _misjudged(scored: list[Scored]) -> list[str]:
    """Return the wrong results, run by run."""
    lines = [s.line() for s in scored if not _right(s.row)]
    lines += [f"{s.line()} names none of {s.label['families']}" for s in scored
              if _right(s.row) and s.row["named"] == "no"]  # fmt: skip
    for s in scored:
        if s.row["dated"] == "no":
            lines.append(f"{s.label['id']}: onset {s.diagnosis.onset_step}, by eye {ONSETS[s.label['id']]}")
    return lines


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.exit(main())
