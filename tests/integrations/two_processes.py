"""TRL trainings of two processes, one after another.

Each word selects a training, in a folder of that name; the output of its ranks is ``rank-N.txt``. The processes get
their addresses as from ``torchrun``, and are forked from one that has loaded TRL for both.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import socket
import sys
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from grpo_doctor import attach
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.integrations.trl_record import Local
from tests.integrations.tiny_trl import fails_at, make_trainer, poisoned


def train(folder: Path, what: str, patch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(folder / "out", max_steps=4, per_device_train_batch_size=4)
    rank = trainer.accelerator.process_index
    if what == "nan":
        poisoned(trainer, 3)
    if what != "alone":
        attach(trainer, out=folder / "run", on="critical=skip-update" if what == "veto" else "error=stop")
    if what in ("rank 1 fails", "veto") and rank == 1:
        patch.setattr(Local, "batch", fails_at(2, Local.batch))
    if what == "rank 0 fails" and rank == 0:
        patch.setattr(LiveDoctor, "push", fails_at(2, LiveDoctor.push))
    trainer.train()
    if what == "twice":
        trainer.train()
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in trainer.model.parameters()))
    print(f"ended at {trainer.state.global_step} with {weights.hexdigest()}")


def trainings(rank: int, port: int, folder: Path, whats: list[str]) -> None:
    """All that one of the two processes does."""
    os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
    for what in whats:
        (folder / what).mkdir(exist_ok=True)
        with (
            (folder / what / f"rank-{rank}.txt").open("w") as file,
            redirect_stdout(file),
            redirect_stderr(file),
            pytest.MonkeyPatch.context() as patch,
        ):
            train(folder / what, what, patch)


def main(folder: str, *whats: str) -> None:
    """Exit with 0 if both processes completed; if one fails, the other is stopped too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gc.freeze()  # TRL collects garbage after each training
    forked = multiprocessing.get_context("fork")
    ranks = [forked.Process(target=trainings, args=(rank, port, Path(folder), [*whats])) for rank in (0, 1)]
    for process in ranks:
        process.start()
    while alive := [process for process in ranks if process.is_alive()]:  # looked at once: to wait for none has no end
        wait([process.sentinel for process in alive])
        if any(process.exitcode for process in ranks):
            for process in ranks:
                process.kill()
    sys.exit(int(any(process.exitcode for process in ranks)))
