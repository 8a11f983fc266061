"""``python -m benchmarks.corpus.board [--tool NAME] [--bin FOLDER]``: the labelled logs through several tools.

Each tool gets its default settings and one run at a time: those labelled only failing, and those only healthy.
``FOLDER`` holds the programs of the other tools (``pip install`` the versions of `board.toml` into an environment).
Answers are stored in ``board.csv``, one row per tool and run; the table in ``docs/evidence/board.md`` is made from it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.corpus_path import CORPUS

from . import tables
from .fetch import wanted

HERE = Path(__file__).parent
STORED, PAGE = HERE / "board.csv", HERE.parents[1] / "docs" / "evidence" / "board.md"
COLUMNS = ("tool", "version", "date", "id", "labelled", "outcome", "cpu_seconds")
TIME_LIMIT = 120.0
"""Seconds after which an answer counts as none."""
HEAD = """# Other tools on the labelled logs

`python -m benchmarks.corpus.board` generates this page from `benchmarks/corpus/board.csv`. Do not edit the page.

Each tool ran with its default settings on the runs of `benchmarks/corpus/manifest.csv` that have only one label:
{failing} failing runs and {healthy} healthy runs. *Severe* means that the tool reports its highest severity. The rules
of grpo-doctor were written with knowledge of these logs, but the rules of the other tools were not. Most of the other
tools serve another purpose. The table shows what each tool reports to a user and does not rate the authors of the
tools.

"""


def tools() -> list[dict[str, Any]]:
    """The tools of `board.toml`."""
    return list(tomllib.loads((HERE / "board.toml").read_text(encoding="utf-8"))["tool"])


def labelled() -> Iterator[tuple[dict[str, str], str]]:
    """Rows of the manifest whose label leaves no doubt, with ``failing`` or ``healthy``."""
    for row in wanted():
        if row["expect"] in ("failing", "healthy") and row["label_confidence"] != "low":
            yield row, row["expect"]


def values(found: object, path: list[str]) -> list[str]:
    """The values at a dotted path; ``*`` takes every item of a list. Empty if the answer has no such path."""
    if not path:
        return [str(found)]
    if path[0] == "*":
        return [value for item in (found if isinstance(found, list) else ()) for value in values(item, path[1:])]
    return values(found[path[0]], path[1:]) if isinstance(found, dict) and path[0] in found else []


def outcome(tool: dict[str, Any], answer: str) -> str:
    """``severe``, ``quiet``, or ``unreadable`` where the tool gives no answer about the run."""
    try:
        found = json.loads(answer)
    except ValueError:
        return "unreadable"
    if not values(found, tool["opened"].split(".")):
        return "unreadable"
    return "severe" if set(values(found, tool["levels"].split("."))) & set(tool["severe"]) else "quiet"


def answered(tool: dict[str, Any], log: Path, records: Path, folder: Path) -> tuple[str, float]:
    """Return the result of one tool on one run, and the CPU seconds that it took."""
    words = tool["command"].format(
        python=sys.executable, log=shlex.quote(str(log)), records=shlex.quote(str(records)), here=HERE
    )
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    before = os.times()
    try:
        done = subprocess.run(
            shlex.split(words), capture_output=True, text=True, timeout=TIME_LIMIT, check=False,
            env=os.environ | {"PATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "unreadable", TIME_LIMIT
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return outcome(tool, done.stdout), round(spent, 2)


def measured(tool: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """One row for each labelled run."""
    with tempfile.TemporaryDirectory() as scratch:
        for row, label in labelled():
            log, records = CORPUS / row["file"], Path(scratch, "records.jsonl")
            records.unlink(missing_ok=True)
            if "{records}" in tool["command"]:
                convert = [sys.executable, "-m", "grpo_doctor", "convert", str(log), str(records)]
                subprocess.run(convert, capture_output=True, check=False)
            said, seconds = answered(tool, log, records, folder)
            yield {
                "tool": tool["name"], "version": tool["version"], "date": datetime.date.today().isoformat(),
                "id": row["id"], "labelled": label, "outcome": said, "cpu_seconds": seconds,
            }  # fmt: skip


def page(rows: list[dict[str, str]]) -> str:
    """The table: per tool what it opened, severe answers on either side, and seconds."""
    of = {label: len({row["id"] for row in rows if row["labelled"] == label}) for label in ("failing", "healthy")}
    lines = [
        "| tool | made for | logs read | severe on failing | severe on healthy (false) | CPU s per run | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    for tool in tools():
        own = [row for row in rows if row["tool"] == tool["name"]]
        if not own:
            continue
        opens = sum(row["outcome"] != "unreadable" for row in own)
        severe = {label: sum(r["outcome"] == "severe" and r["labelled"] == label for r in own) for label in of}
        seconds = statistics.median(float(row["cpu_seconds"]) for row in own)
        lines.append(
            f"| {tool['name']} {own[0]['version']} | {tool['purpose']} | {opens} of {len(own)} "
            f"| {severe['failing']} of {of['failing']} | {severe['healthy']} of {of['healthy']} | {seconds:.1f} "
            f"| {own[0]['date']} |"
        )
    return HEAD.format(**of) + "\n".join(lines) + "\n"


def main() -> None:
    """Measures the tools asked for, stores the answers and writes the page again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", action="append", help="only this tool; repeatable; none measures nothing")
    parser.add_argument("--bin", type=Path, default=Path(".venv-peers/bin"), help="where the programs of the peers are")
    chosen = parser.parse_args()
    rows = tables.read(STORED)
    for tool in tools():
        if chosen.tool is None or tool["name"] in chosen.tool:
            rows = [row for row in rows if row["tool"] != tool["name"]] + list(measured(tool, chosen.bin))
            tables.write(STORED, COLUMNS, rows)
    PAGE.write_text(page(tables.read(STORED)), encoding="utf-8")


if __name__ == "__main__":
    main()
