"""``grpo-doctor lab``: repeats the experiments that the pages quote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import ConfigError
from . import common

if TYPE_CHECKING:
    from ..lab.arms import Job
    from ..lab.judge import Row

RUNS = Path("runs/lab")


def lab(
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", help="This fault only (`grpo-doctor faults`); repeatable.", show_default="all"),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", help="embedded-small, or smollm2: the gravest faults on a real model with LoRA, left alone."
        ),
    ] = "embedded-small",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each kind.")] = 3,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs; those that lie there are kept.")] = RUNS,
    jobs: Annotated[
        int, typer.Option("--jobs", min=0, help="Runs at a time; 0 judges what there is and trains nothing.")
    ] = os.cpu_count() or 1,
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", help="Write lab.parquet, its page and its pictures here, and measured.json."),
    ] = None,
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Labelled logs with labels.csv: how often their causes are right.")
    ] = None,
) -> None:
    """Trains every fault of the engine: as it is, fixed in place, and with common advice; `lab faults` lists them.

    Each run is a file of its own, so that a lab that was broken off goes on where it was. A fault takes some minutes,
    all of them with every treatment on three seeds about an hour of one core. What smollm2 trains lies in a folder of
    that name below, and takes a minute or more of a quiet core a run.

    Exit codes: 0 it is done, 1 a cause that is not the fault's was named with high confidence, 2 wrong use.
    """
    with common.plain_errors():
        try:
            from ..engine.faults import FAULTS, sick_engine
        except ImportError as error:
            raise ConfigError(f"training needs {error.name}: pip install 'grpo-doctor[train]'") from None
        from ..lab import arms, judge, train
        from ..lab import evidence as written

        sick_engine(fault or [])  # says which name is unknown
        if model not in arms.MODELS:
            raise ConfigError(f"--model {model}: the lab trains {' or '.join(arms.MODELS)}")
        small = model == arms.MODELS[0]
        faults, folder = fault or list(FAULTS if small else arms.GRAVEST), out if small else out / model
        for seed in range(seeds) if jobs else ():
            train.train_all(folder, arms.observed(faults, seed, model), jobs, _tell)
            if small:
                train.train_all(folder, arms.treatments(judge.harmed(folder, faults, seed), seed), jobs, _tell)
        rows = judge.rows(folder, faults)
        if evidence is not None and not rows:
            raise ConfigError(f"--out {out}: no run to judge lies there; leave --jobs out to train them")
        _show(rows)
        if evidence is not None and small:
            written.write(evidence, rows, logs, folder)
        elif evidence is not None:
            written.write_real(evidence, rows)
    if any(word.endswith(" high") for row in rows for word in row.wrong):
        raise typer.Exit(common.FINDINGS)


def _tell(job: Job) -> None:
    common.say(f"{job.fault}, {job.arm}, seed {job.seed}", err=True)


def _show(rows: list[Row]) -> None:
    """Prints what each treatment came to, and who named the fault when."""
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
