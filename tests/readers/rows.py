"""Rows and runs that the readers find in the labelled logs: ``python -m tests.readers.rows [--all]``.

Compares the result with ``true_rows`` and ``runs_in_file`` of ``labels.csv`` (``steps`` if the rows were not counted;
`CORRECTED` if the label is wrong), separately for text logs and structured ones, and prints how many files are wrong by
kind of error. ``--all`` also lists the files.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from typing import NamedTuple

from grpo_doctor.readers import ReadError, read
from grpo_doctor.run import Run

from ..corpus_path import CORPUS

_COUNT = re.compile(r"(\d+)(?![\d+])")
_TEXT = ("console", "aflow", "dual", "lever", "unknown")
KINDS = {"rl": "rl", "sft": "supervised", "dpo": "preference"}
_OF_CONTROL = (
    ("preference", re.compile(r"\b(?:D|OR)PO\b(?!.*GRPO)")),
    ("supervised", re.compile(r"(?:TRL |\()SFT\b(?!.*GRPO)")),
)
"""Framework column of control runs, which the ``kind`` column calls ``rl``."""
CORRECTED = {
    "R139": (207, "207 lines '[step N] rewards=[...]', 38 of them with an update"),
    "R210": (60, "steps 1 to 60, one mapping each"),
    "R211": (45, "45 lines 'Percentage of correct examples' of training, iterations 0 to 44, and 9 of evaluations"),
    "R213": (113, "113 rows of training; the last line of the first run, step 50, is its final validation alone"),
    "R215": (29, "29 rows of training; step 30 is the final validation alone"),
    "R227": (149, "149 rows of training; step 0 is the first validation alone"),
    "R228": (17, "iterations 1 to 17 have metrics; the log ends in the validation of the last"),
    "R229": (2, "two rows, at steps 9 and 13, the second within the summary of the training"),
    "R239": (215, "214 rows of GRPO and its summary, which has the metrics since; 17 more are supervised"),
    "R240": (215, "214 rows of GRPO and its summary, which has the metrics since; 17 more are supervised"),
    "R244": (55, "steps 1 to 55, each printed by two loggers"),
    "R283": (187, "187 rewards in the console and 186 losses in the table, which lacks the last step"),
    "R315": (6, "the label itself says that it has 2 to 4 rows of metrics; 132 rows are of the system"),
    "R320": (2331, "the bar is at 0 to 2331 of 3200: 2331 updates, each printed before and after the bar moves"),
    "R325": (100, "steps 1 to 100 are named; 37 of the 137 batches with a reward are of validations"),
    "R350": (33, "33 steps, each with 8 lines of advantages and ratios"),
    "R404": (31, "iterations 0 to 30: the label's own note says 31"),
    "R405": (21, "steps 0 to 500 by 25, below a first line of settings"),
    "R406": (7, "steps 0 to 120 by 20: the label's own note says 7 rows"),
    "R407": (11, "steps 0 to 500 by 50, below a first line of settings"),
}
"""Rows of files whose label is wrong, with the evidence."""


class Counted(NamedTuple):
    """The content of one labelled file, and the runs read from it."""

    name: str
    text: bool
    rows: int
    true_rows: int
    runs: int
    true_runs: int | None
    kind: str
    true_kind: str | None
    counted: bool
    as_labelled: bool

    @property
    def error(self) -> str:
        """Return the kind of error; empty if rows, runs and type of training are correct."""
        if self.rows != self.true_rows:
            if self.rows == 0:
                return "nothing read"
            if abs(self.rows - self.true_rows) == 1:
                return "one row more or less"
            return "rows lost" if self.rows < self.true_rows else "rows too many"
        if self.true_runs is not None and self.runs != self.true_runs:
            return "runs merged" if self.runs < self.true_runs else "runs split"
        return "type of training" if self.rows and self.true_kind and self.kind != self.true_kind else ""


def of_label(label: dict[str, str]) -> Counted | None:
    """Return the rows of one labelled file; None if they were not counted."""
    told = _COUNT.match(label["true_rows"] or label["steps"])
    if told is None or (told[1] == "0" and not label["true_rows"]):
        return None
    labelled = int(told[1])
    true_rows, _ = CORRECTED.get(label["id"], (labelled, ""))
    try:
        runs = read(CORPUS / label["file"])
    except ReadError:
        runs = [Run(label["file"], "unknown", "none")]
    counts = {sum(map(len, runs)), *(len(run) for run in runs)} | {sum(len(r) for r in runs if r.run_type == "rl")}
    rows = true_rows if true_rows in counts else len(runs[-1])
    control = next((kind for kind, of in _OF_CONTROL if of.search(label["framework"])), KINDS.get(label["kind"]))
    return Counted(
        label["id"],
        runs[-1].format.endswith(_TEXT),
        rows,
        true_rows,
        len(runs),
        int(label["runs_in_file"]) if label["runs_in_file"] else None,
        runs[-1].run_type,
        control,
        bool(label["true_rows"]),
        labelled in counts,
    )


def counted() -> list[Counted]:
    """Return every labelled file whose rows were counted."""
    with open(CORPUS / "labels.csv", encoding="utf-8", newline="") as file:
        return [found for label in csv.DictReader(file) if (found := of_label(label)) is not None]


def table(found: list[Counted]) -> str:
    """Count correct files, and wrong files by kind of error."""
    lines = []
    for words, of in (
        ("text, rows counted by hand", [c for c in found if c.text and c.counted]),
        ("text, all", [c for c in found if c.text]),
        ("structured", [c for c in found if not c.text]),
    ):
        kinds = Counter(c.error for c in of)
        exact = sum(c.rows == c.true_rows for c in of)
        labelled = sum(c.as_labelled for c in of)
        lines.append(
            f"{words}: {len(of)} files, rows exact in {exact} ({exact / max(len(of), 1):.0%}); "
            f"in {labelled} by the labels as they are"
        )
        of_runs = [c for c in of if c.true_runs is not None]
        if of_runs:
            lines.append(f"    runs exact in {sum(c.runs == c.true_runs for c in of_runs)} of {len(of_runs)}")
        lines += [f"    {count:4} {kind}" for kind, count in kinds.most_common() if kind]
    return "\n".join(lines)


def main() -> int:
    """Prints the table, and with ``--all`` every file that is wrong."""
    if not CORPUS.is_dir():
        print(f"the corpus of real logs is not at {CORPUS}; set GRPO_DOCTOR_CORPUS")
        return 2
    found = counted()
    if "--all" in sys.argv:
        for c in found:
            if c.error:
                print(f"{c.name}: {c.error}: {c.rows} of {c.true_rows} rows, {c.runs} of {c.true_runs} runs, {c.kind}")
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
