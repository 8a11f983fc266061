"""What the doctor makes of the real logs: ``python -m tests.corpus``, or ``make corpus``.

Holds verdict, first sentence and onset against ``labels.csv``, run by run and weighted by repository, so that one
project with many runs does not decide, and lists every run that is judged wrongly. ``--all`` prints what was read and
found of every file. Exit code 1 when anything is wrong.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import ReadError, read
from grpo_doctor.run import Run

from .corpus_path import CORPUS

RUN_TYPES = {"rl": "rl", "sft": "supervised", "dpo": "preference"}
STEPS = re.compile(r"(\d+) rows")
ONSETS = {
    **{"R013": 137, "R014": 5, "R015": 21, "R028": 195, "R034": 13, "R035": 10, "R036": 30, "R037": 14},
    **{"R064": 23, "R065": 85, "R066": 45, "R067": 140, "R068": 29, "R072": 123, "R074": 78, "R075": 40, "R082": 157},
    **{"R133": 5, "R121": 20, "R032": 35},
}
"""Step at which the run went wrong, by eye on its curves (of R028 and R133 by the first NaN and the first collapse)."""
NEAR = 0.1
"""Share of the run's steps by which a date may be off."""


class Scored(msgspec.Struct):
    """One labelled run and what was said of it."""

    label: dict[str, str]
    diagnosis: Diagnosis

    @property
    def expected(self) -> list[str]:
        return self.label["expect"].split("|")

    @property
    def sick(self) -> bool:
        return not {"healthy", "unproven"} & set(self.expected) and self.expected != ["unjudged"]

    @property
    def well(self) -> bool:
        return "healthy" in self.expected

    @property
    def right(self) -> bool:
        return self.diagnosis.verdict in self.expected

    @property
    def told(self) -> bool:
        """Whether the first sentence of a sick run names an illness that its label names."""
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
        """One line for the list of what is wrong."""
        found = ", ".join(
            f"{f.code} {f.severity}" for f in self.diagnosis.findings if f.level >= Severity.WARNING and not f.cleared
        )
        headline = f"{self.diagnosis.headline[:200]} [{found}]"
        return f"{self.label['id']}: {self.diagnosis.verdict}, expected {self.label['expect']}: {headline}"


def labels() -> list[dict[str, str]]:
    """The rows of labels.csv."""
    with open(CORPUS / "labels.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run_named(name: str) -> Run:
    """The real run with this id."""
    return read(CORPUS / next(row["file"] for row in labels() if row["id"] == name))[0]


def families(diagnosis: Diagnosis) -> set[str]:
    """Code prefixes of the findings of warning or above that still count at the end."""
    return {f.code[:-3] for f in diagnosis.findings if f.level >= Severity.WARNING and not f.cleared}


def main() -> int:
    """Prints the figures and the list; the number of contradictions, at most 1."""
    if not CORPUS.is_dir():
        print(f"the labelled logs are not at {CORPUS}: `make corpus-fetch` brings them; GRPO_DOCTOR_CORPUS names their folder")
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
            scored.append(Scored(label, diagnoses[-1]))
    wrong += _figures(scored)
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


def _figures(scored: list[Scored]) -> list[str]:
    """Prints the acceptance figures; what is wrong, run by run."""
    sick, well = [s for s in scored if s.sick], [s for s in scored if s.well]
    plain = [s for s in well if s.expected == ["healthy"]]
    dated = [s for s in scored if s.label["id"] in ONSETS]
    for words, of, hits in (
        ("verdict within expect", scored, [s for s in scored if s.right]),
        ("sick, and the first sentence says of what", sick, [s for s in sick if s.told]),
        ("sick, called healthy", sick, [s for s in sick if s.diagnosis.verdict == "healthy"]),
        ("well, called failing", well, [s for s in well if s.diagnosis.verdict == "failing"]),
        ("labelled healthy alone, called healthy", plain, [s for s in plain if s.diagnosis.verdict == "healthy"]),
        ("onset within a tenth of the run", dated, [s for s in dated if s.dated]),
    ):
        print(f"{words:44} {_share(of, hits)}")
    lines = [s.line() for s in scored if not s.right]
    lines += [f"{s.line()} names none of {s.label['families']}" for s in sick if s.right and not s.told]
    for s in dated:
        if not s.dated:
            lines.append(f"{s.label['id']}: onset {s.diagnosis.onset_step}, by eye {ONSETS[s.label['id']]}")
    return lines


def _share(of: list[Scored], hits: list[Scored]) -> str:
    """So many of so many runs, and the mean share over repositories."""
    by_repo: dict[str, list[bool]] = defaultdict(list)
    for entry in of:
        by_repo[entry.label["repo"]].append(any(entry is hit for hit in hits))
    weighted = sum(sum(rights) / len(rights) for rights in by_repo.values()) / max(len(by_repo), 1)
    return f"{len(hits):3} of {len(of):3} runs ({len(hits) / max(len(of), 1):.0%}); {weighted:.0%} by repository"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.exit(main())
