"""Rows and runs that the readers find in the labelled logs: ``python -m tests.readers.rows [--all]``.

Holds what was read against ``true_rows`` and ``runs_in_file`` of ``labels.csv`` (``steps`` where nobody counted the
rows), text logs and structured ones apart, and prints how many files are wrong by kind of error.
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


class Counted(NamedTuple):
    """What one labelled file holds and what was read of it."""

    name: str
    text: bool
    rows: int
    true_rows: int
    runs: int
    true_runs: int | None
    kind: str
    true_kind: str | None
    counted: bool

    @property
    def error(self) -> str:
        """The kind of error; empty where rows, runs and type of training are right."""
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
    """The rows of one labelled file; None where nobody counted them."""
    told = _COUNT.match(label["true_rows"] or label["steps"])
    if told is None or (told[1] == "0" and not label["true_rows"]):
        return None
    try:
        runs = read(CORPUS / label["file"])
    except ReadError:
        runs = [Run(label["file"], "unknown", "none")]
    true_rows = int(told[1])
    counts = {sum(map(len, runs)), *(len(run) for run in runs)} | {sum(len(r) for r in runs if r.run_type == "rl")}
    rows = true_rows if true_rows in counts else len(runs[-1])
    return Counted(
        label["id"],
        runs[-1].format.endswith(_TEXT),
        rows,
        true_rows,
        len(runs),
        int(label["runs_in_file"]) if label["runs_in_file"] else None,
        runs[-1].run_type,
        KINDS.get(label["kind"]),
        bool(label["true_rows"]),
    )


def counted() -> list[Counted]:
    """Every labelled file whose rows somebody counted."""
    with open(CORPUS / "labels.csv", encoding="utf-8", newline="") as file:
        return [found for label in csv.DictReader(file) if (found := of_label(label)) is not None]


def table(found: list[Counted]) -> str:
    """How many files are right and how many wrong by kind of error."""
    lines = []
    for words, of in (
        ("text, rows counted by hand", [c for c in found if c.text and c.counted]),
        ("text, all", [c for c in found if c.text]),
        ("structured", [c for c in found if not c.text]),
    ):
        kinds = Counter(c.error for c in of)
        exact = sum(c.rows == c.true_rows for c in of)
        lines.append(f"{words}: {len(of)} files, rows exact in {exact} ({exact / max(len(of), 1):.0%})")
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
