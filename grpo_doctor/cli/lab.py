"""``grpo-doctor lab``: repeats the experiments that the check pages cite."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..config import ConfigError
from ..diagnosis.wording import counted
from ..extras import install, lacking
from . import common

if TYPE_CHECKING:
    from ..lab.arms import Job
    from ..lab.judge import Row

RUNS, CORES = Path("runs/lab"), os.cpu_count() or 1

Faults: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        help="Train only with this fault (`grpo-doctor lab faults` lists them); repeatable.",
        show_default="all",
    ),
]
Model: TypeAlias = Annotated[
    str,
    typer.Option(
        "--model",
        help="embedded-small; embedded-large: the most severe faults and their fixes with 46 million weights, on "
        "a GPU; or smollm2: the same on a real model with LoRA.",
    ),
]
Seeds: TypeAlias = Annotated[
    int | None,
    typer.Option("--seeds", min=1, help="Number of seeds per experiment.", show_default="3"),
]
Jobs: TypeAlias = Annotated[
    int, typer.Option("--jobs", min=0, help="Number of parallel runs; 0 evaluates existing runs without training.")
]
Evidence: TypeAlias = Annotated[
    Path | None,
    typer.Option("--evidence", help="Write lab.parquet, its page, its figures and measured.json to this folder."),
]


def lab(
    fault: Faults = None,
    model: Model = "embedded-small",
    seeds: Seeds = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs; existing runs are reused.")] = RUNS,
    jobs: Jobs = CORES,
    yes: Annotated[bool, typer.Option("--yes", help="Train with all faults if no --fault is given.")] = False,
    evidence: Evidence = None,
) -> None:
    """Trains a model with every fault of the engine, with and without remedies (editable install only).

    Each run is a separate file, so `lab` resumes after an interruption. One fault takes a few minutes; all faults with
    all remedies on three seeds take about one core-hour. Runs of other models are stored in a subfolder with the name
    of the model; a run of smollm2 takes at least one core-minute.

    Exit codes: 0 done, 1 a wrong cause was named with high confidence, 2 wrong usage.
    """
    with common.plain_errors():
        try:
            from ..engine.faults import faulty_engine
            from ..lab import arms, judge
            from ..lab import evidence as written
        except ImportError as error:
            if error.name == "grpo_doctor.lab":
                raise ConfigError("the lab is not in the wheel; in a checkout: pip install -e '.[train]'") from None
            raise ConfigError(f"lab: {lacking(error)}; {install('train')}") from None

        faulty_engine(fault or [])  # raises an error for unknown names
        if model not in arms.SCALES:
            raise ConfigError(f"--model {model}: choose {' or '.join(arms.SCALES)}")
        faults, folder = fault or arms.SCALES[model].faults, out if model == arms.TINY else out / model
        if jobs:
            _train(folder, faults, model, range(seeds or arms.SEEDS), jobs, confirmed=yes or bool(fault))
        rows = judge.rows(folder, faults)
        if evidence is not None and not rows:
            raise ConfigError(f"--out {out}: contains no run to evaluate; omit --jobs to train them")
        _show(rows)
        if evidence is not None:
            written.write(evidence, model, rows, folder)
    if any(word.endswith(" high") for row in rows for word in row.wrong):
        raise typer.Exit(common.FINDINGS)


def _train(folder: Path, faults: Sequence[str], model: str, seeds: range, jobs: int, *, confirmed: bool) -> None:
    """Train with all faults without a remedy, and then with the harmful faults and every remedy."""
    from ..lab import arms, judge, train

    observed = [job for seed in seeds for job in arms.observed(faults, seed, model)]
    if not confirmed:
        raise ConfigError(
            f"lab trains {counted(len(observed), 'run')} of {counted(len(faults), 'fault')}, and then all "
            "treatments: name faults with --fault (`grpo-doctor lab faults` lists them), or confirm with --yes"
        )
    train.train_all(folder, observed, jobs, _tell)
    harmed = ((judge.harmed(folder, faults, seed), seed) for seed in seeds)
    train.train_all(folder, [job for those, seed in harmed for job in arms.treatments(those, seed, model)], jobs, _tell)


def _tell(job: Job) -> None:
    common.say(f"{job.fault}, {job.arm}, seed {job.seed}", err=True)


def _show(rows: list[Row]) -> None:
    """Print the result of each remedy, the check that found the fault, and the step at which the check found it."""
    from rich.console import Console
    from rich.table import Table

    head = "fault arm seed end twin recovered verdict named at reward cause wrong".split()
    table = Table(*head, box=None, padding=(0, 1))
    for row in rows:
        named = [row.named, row.named_step, row.reward_step, row.cause, " ".join(row.wrong)]
        cells = [row.fault, row.arm, row.seed, f"{row.end:.2f}", f"{row.twin:.2f}", row.recovered, row.verdict, *named]
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    screen = Console()
    (screen if screen.is_terminal else Console(width=200)).print(table)
