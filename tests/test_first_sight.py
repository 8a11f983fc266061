"""New logs are labelled first, judged once, and their figures are stored."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from benchmarks.corpus.first_sight import judged, stored, summary, table

LABEL = {
    "file": "someone+trainer__log.jsonl", "repository": "someone/trainer", "path": "log.jsonl", "commit": "a" * 40,
    "framework": "own loop", "kind": "jsonl", "accepted_verdicts": "failing|suspect",
}  # fmt: skip
REDACTED = {"YeZiyi1998/OpenRLHF-new"}
"""Repositories whose published logs contain keys, which were replaced before they were read."""


def log(repo: str, expect: str, verdict: str, read: str = "") -> dict[str, str]:
    said = {f"read_{what}": read for what in ("true", "right", "useful")}
    return {"judged": "2026-01-02", "revision": "abc", "repo": repo, "expect": expect, "verdict": verdict, **said}


def test_a_set_is_judged_with_its_place_and_checksum(tmp_path: Path) -> None:
    rows = [json.dumps({"step": step, "reward": 0.0, "reward_std": 0.0}) for step in range(1, 41)]
    (tmp_path / LABEL["file"]).write_text("\n".join(rows) + "\n", encoding="utf-8")
    with (tmp_path / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, LABEL)
        writer.writeheader()
        writer.writerow(LABEL)
    (row,) = judged(tmp_path / "labels.csv", tmp_path, 89)
    assert (row["id"], row["file"], row["verdict"]) == ("F089", "first-sight/someone+trainer__log.jsonl", "failing")
    assert (row["repo"], row["expect"], row["bytes"]) == (
        "someone/trainer",
        "failing|suspect",
        len("\n".join(rows)) + 1,
    )


def test_table_counts_what_labels_allow_and_the_two_grave_errors() -> None:
    logs = [
        log("a/a", "failing", "healthy"),
        log("a/a", "failing|suspect", "suspect"),
        log("b/b", "healthy", "failing"),
        log("c/c", "unproven|unjudged", "unproven"),
    ]
    assert table(logs).splitlines()[-1] == "| 2026-01-02 | abc | 4 | 3 | 2 of 4 (50%) | 1 of 2 | 1 of 1 | not read |"
    read = table([*logs, log("c/c", "healthy", "healthy", "yes"), log("c/c", "healthy", "healthy", "no")])
    assert read.splitlines()[-1].endswith("| 1 of 2, 1 of 2, 1 of 2 |")
    assert summary(logs).splitlines() == [
        "| on logs that were not used to write the checks, judged on 2026-01-02 | 4 logs of 3 repositories |",
        "|---|---|",
        "| verdict matches the label | 2 of 4 (50%) |",
        "| failing run called healthy | 1 of 2 |",
        "| healthy run called failing | 1 of 1 |",
    ]


def test_stored_rows_name_each_log_once() -> None:
    rows = stored()
    assert [row["id"] for row in rows] == [f"F{number:03d}" for number in range(1, len(rows) + 1)]
    assert len({row["file"] for row in rows}) == len(rows)
    assert all(row["repo"] and row["path"] and (row["commit"] == "issue" or len(row["commit"]) == 40) for row in rows)
    assert {len(row["sha256"]) for row in rows if row["commit"] == "issue"} == {0}
    assert {len(row["sha256"]) for row in rows if row["repo"] not in REDACTED and row["commit"] != "issue"} == {64}
