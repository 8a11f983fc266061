"""Logs the same failing run with a real library: ``python tests/readers/made/write.py LIBRARY FOLDER``.

The small files next to this script were written by it with trackio 0.43, SwanLab 0.10.3, MLflow 3.17, ClearML 2.1,
wandb 0.31, lightning-fabric 2.6, torch 2.13 and transformers 5.23, which are not dependencies of the tests: install the
library to write its file again.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONFIG = {"num_generations": 8, "learning_rate": 1e-6, "beta": 0.0, "temperature": 1.0}


def rows() -> Iterator[tuple[int, dict[str, float]]]:
    """A reward that falls from 0.58 to 0.05, and one KL that is NaN."""
    for step in range(1, 31):
        yield (
            step,
            {
                "train/reward": max(0.05, 0.6 - 0.02 * step),
                "train/loss": 0.1 + step / 100,
                "train/grad_norm": 1.0 + step / 50,
                "train/kl": math.nan if step == 13 else 0.001 * step,
            },
        )


def trackio(folder: Path) -> None:
    os.environ |= {"TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    import trackio as library

    library.init(project="trackio", name="r1", config=CONFIG)
    for step, row in rows():
        library.log(row, step=step)
    library.finish()


def swanlab(folder: Path) -> None:
    import swanlab as library

    library.init(project="p", config=CONFIG, mode="offline", logdir=str(folder))
    for step, row in rows():
        library.log(row, step=step)
    library.finish()


def mlflow(folder: Path) -> None:
    import mlflow as library

    library.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    library.set_experiment("e")
    with library.start_run():
        library.log_params(CONFIG)
        for step, row in rows():
            library.log_metrics(row, step=step)


def clearml(folder: Path) -> None:
    os.environ |= {"CLEARML_OFFLINE_MODE": "1", "CLEARML_CACHE_DIR": str(folder)}
    from clearml import Logger, Task

    Task.set_offline(offline_mode=True)
    Logger.set_reporting_nan_value(math.nan)
    task = Task.init(
        "p", "n", auto_connect_frameworks=False, auto_connect_arg_parser=False, auto_resource_monitoring=False
    )
    task.connect(CONFIG, name="args")
    for step, row in rows():
        for key, value in row.items():
            task.get_logger().report_scalar(key.removeprefix("train/"), "train", value, step)
    task.close()
    session = next(folder.glob("offline/*/task.json"))
    kept = {k: v for k, v in json.loads(session.read_text()).items() if k != "script"}  # the diff of this checkout
    session.write_text(json.dumps(kept))


def wandb(folder: Path) -> None:
    import wandb as library

    quiet: dict[str, Any] = {"x_disable_meta": True, "x_disable_stats": True, "x_disable_machine_info": True}
    settings = library.Settings(console="off", save_code=False, disable_git=True, host="host", **quiet)
    run = library.init(project="p", config=CONFIG, mode="offline", dir=str(folder), settings=settings)
    for step, row in rows():
        run.log({**row, "train/global_step": step})
    run.finish()


def lightning(folder: Path) -> None:
    from lightning_fabric.loggers import CSVLogger

    logger = CSVLogger(str(folder), name="", version="")
    for step, row in rows():
        logger.log_metrics(row, step=step)
    logger.finalize("success")


def tensorboard(folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder)
    writer.add_text("args", json.dumps(CONFIG))
    for step, row in rows():
        for key, value in row.items():
            writer.add_scalar(key, value, step)
    writer.close()


def transformers(folder: Path) -> None:
    """As the Trainer writes it: names without ``train/``, each row with its step, saved by the library."""
    from transformers import TrainerState

    state = TrainerState(global_step=30, max_steps=30)
    for step, row in rows():
        state.log_history.append({key.removeprefix("train/"): value for key, value in row.items()} | {"step": step})
    state.save_to_json(str(folder / "trainer_state.json"))


WRITERS = {f.__name__: f for f in (trackio, swanlab, mlflow, clearml, wandb, lightning, tensorboard, transformers)}

if __name__ == "__main__":
    WRITERS[sys.argv[1]](Path(sys.argv[2]).resolve())
