"""``python -m benchmarks.corpus.first_sight LABELS FOLDER``: judges logs that no rule was written with, and stores it.

LABELS is a table that was completed before grpo-doctor read any of the logs: file, repository, path, commit, framework,
kind, accepted_verdicts; ``commit`` is ``issue`` for excerpts from a thread, whose address is ``path``. Its logs are in
FOLDER. One row for each is added to ``first_sight.csv``: facts, the worst verdict on a run of the file (on its first
run before revision aa9e38a5), and the revision that gave it. The rows of a set are never judged again, because rules
are changed by its errors afterwards.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import ReadError, read

from . import tables

STORED = Path(__file__).with_name("first_sight.csv")
COLUMNS = (
    "judged", "revision", "id", "file", "repo", "path", "commit", "framework", "kind", "expect", "verdict", "bytes",
    "sha256", "read_true", "read_right", "read_useful",
)  # fmt: skip
"""The last three are empty until a second person has read the first paragraph beside the log: whether it is true, about
the right thing, and useful."""


WORST = ("failing", "suspect", "healthy", "unproven", "unjudged")
"""The answer to a file with several runs is that of the worst, as its exit code is."""


def stored() -> list[dict[str, str]]:
    """The rows of all sets, in the order in which they were judged."""
    return tables.read(STORED)


def verdict(log: Path) -> str:
    """The worst verdict on a run of a log; ``unread`` if it cannot be read, also because of a bug."""
    try:
        return min((diagnose(run).verdict for run in read(log)), key=WORST.index)
    except (ReadError, RuntimeError):
        return "unread"


def judged(labels: Path, folder: Path, start: int) -> Iterator[dict[str, str | int]]:
    """One row for each label, numbered from ``start``."""
    revision = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    for number, label in enumerate(tables.read(labels), start):
        content = (folder / label["file"]).read_bytes()
        yield {
            "judged": date.today().isoformat(),
            "revision": revision.stdout.strip(),
            "id": f"F{number:03d}",
            "file": f"first-sight/{label['file']}",
            "repo": label["repository"],
            "expect": label["accepted_verdicts"],
            "verdict": verdict(folder / label["file"]),
            "bytes": len(content),
            "sha256": "" if label["commit"] == "issue" else hashlib.sha256(content).hexdigest(),
            **{name: label[name] for name in ("path", "commit", "framework", "kind")},
        }


def table(rows: list[dict[str, str]]) -> str:
    """The verdicts on each set: how many the label allows, and the two errors that cost most."""
    lines = [
        "| judged | at revision | logs | repositories | verdict matches the label | failing run called healthy "
        "| healthy run called failing | true, main fact, next step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (day, revision), group in groupby(rows, key=itemgetter("judged", "revision")):
        logs = list(group)
        counts = " | ".join(_counts(logs))
        lines.append(f"| {day} | {revision} | {len(logs)} | {_repositories(logs)} | {counts} | {_read(logs)} |")
    return "\n".join(lines)


def summary(rows: list[dict[str, str]]) -> str:
    """The verdicts on all sets together, as the README shows them."""
    days = [row["judged"] for row in rows]
    allowed, missed, flagged = _counts(rows)
    return (
        f"| on logs that were not used to write the checks, judged on {' to '.join(sorted({min(days), max(days)}))} "
        f"| {len(rows)} logs of {_repositories(rows)} repositories |\n|---|---|\n"
        f"| verdict matches the label | {allowed} |\n"
        f"| failing run called healthy | {missed} |\n"
        f"| healthy run called failing | {flagged} |"
    )


def _repositories(logs: list[dict[str, str]]) -> int:
    return len({log["repo"] for log in logs})


def _counts(logs: list[dict[str, str]]) -> tuple[str, str, str]:
    """How many verdicts the label allows, and how many are each of the two errors that cost most."""
    expected = [set(log["expect"].split("|")) for log in logs]
    allowed = sum(log["verdict"] in known for log, known in zip(logs, expected, strict=True))
    missed = [log["verdict"] == "healthy" for log, known in zip(logs, expected, strict=True) if is_faulty(known)]
    flagged = [log["verdict"] == "failing" for log, known in zip(logs, expected, strict=True) if "healthy" in known]
    return (
        f"{allowed} of {len(logs)} ({allowed / len(logs):.0%})",
        f"{sum(missed)} of {len(missed)}",
        f"{sum(flagged)} of {len(flagged)}",
    )


def _read(logs: list[dict[str, str]]) -> str:
    """How many first paragraphs a second person found true, right and useful."""
    known = [[log[name] for log in logs if log[name]] for name in COLUMNS[-3:]]
    return ", ".join(f"{share.count('yes')} of {len(share)}" for share in known) if known[0] else "not read"


def is_faulty(expected: set[str]) -> bool:
    """Whether a label means that something is wrong and that the file shows it."""
    return not {"healthy", "unproven", "unjudged"} & expected


def main() -> None:
    """Adds a set to the stored rows and prints the table."""
    labels, folder = map(Path, sys.argv[1:3])
    tables.write(STORED, COLUMNS, [*stored(), *judged(labels, folder, len(stored()) + 1)])
    print(table(stored()))


if __name__ == "__main__":
    main()
