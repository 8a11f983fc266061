"""Generates the gallery of the site: ten interactive reports of bundled runs, with every verdict and common failures.

The runs come from the project's training engine with an injected fault, and from TRL with the built-in model
(`tests.data`).
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.readers import read
from grpo_doctor.report.model import Options, markdown, render
from grpo_doctor.run import Run, RunBuilder

ROOT = Path(__file__).parents[1]


class Shown(NamedTuple):
    """A report of the gallery: its title, the file of its run, and the number of rows, or None for all rows."""

    title: str
    file: str
    rows: int | None = None


GALLERY = {
    "healthy": Shown("A run that learns", "trl/learns/trainer_state.json"),
    "reward-zero": Shown("The reward is always 0", "trl/never-pays/trainer_state.json"),
    "collapse": Shown("Collapse after every update", "engine/train-mode-generation.jsonl.gz"),
    "constant-reward": Shown("Every response scores the same", "engine/constant-reward.jsonl.gz"),
    "stale-weights": Shown("The rollout engine uses stale weights", "engine/stale-rollout-weights.jsonl.gz"),
    "learning-rate": Shown("A learning rate that is too high", "engine/lr-too-high.jsonl.gz"),
    "nan": Shown("NaN in the gradient", "engine/nan-at-step.jsonl.gz"),
    "preference": Shown("DPO: chosen responses become less likely", "trl/displaces/trainer_state.json"),
    "unproven": Shown("No evidence of learning yet", "engine/rank-advantages.jsonl.gz", 10),
    "unjudged": Shown("Too few steps to judge", "engine/two-sample-groups.jsonl.gz", 3),
}
"""Reports by the name of their page."""


@cache
def diagnosed(name: str) -> Diagnosis:
    """Return the diagnosis of a run of the gallery, with the path of its file in the repository."""
    shown = GALLERY[name]
    (run,) = read(ROOT / "tests" / "data" / shown.file)
    if shown.rows is not None:
        run = _first(run, shown.rows)
    run.source = f"tests/data/{shown.file}"
    return diagnose(run)


def _first(run: Run, rows: int) -> Run:
    """Return the first rows of a run, as in a log that is still being written."""
    begun = RunBuilder(run.source, run.format)
    for record in islice(run.records(), rows):
        begun.add(record)
    part = begun.finish()
    part.run_type, part.settings = run.run_type, run.settings
    return part


def reports() -> dict[str, str]:
    """Return the pages of the reports by their path in the site."""
    return {f"gallery/{name}.html": render("html", [diagnosed(name)], Options()) for name in GALLERY}


def page() -> str:
    """Return the page that lists the reports."""
    rows = []
    for name, shown in GALLERY.items():
        found = diagnosed(name)
        rows.append(f"| **{found.verdict}** | [{shown.title}](gallery/{name}.html) | {markdown(found.headline)} |")
    head = (
        "# Gallery\n\nThis page lists interactive reports of ten runs. In the charts of a report, hover to see values, "
        "drag to zoom, and click a step to see its log lines.\n\n"
    )
    return head + "\n".join(["| verdict | report | first sentence |", "|---|---|---|", *rows]) + "\n"
