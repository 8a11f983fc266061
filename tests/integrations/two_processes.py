"""TRL trainings of two processes, one after the other: ``torchrun two_processes.py FOLDER WHAT...``.

Each is done to what its word says, in a folder of that name; what its ranks say lies there as ``rank-N.txt``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from grpo_doctor import attach
from grpo_doctor.integrations.trl_record import Local
from grpo_doctor.live import LiveDoctor
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


def main(folder: Path, *whats: str) -> None:
    for what in whats:
        (folder / what).mkdir(exist_ok=True)
        said = folder / what / f"rank-{os.environ['RANK']}.txt"
        with (
            said.open("w") as file,
            redirect_stdout(file),
            redirect_stderr(file),
            pytest.MonkeyPatch.context() as patch,
        ):
            train(folder / what, what, patch)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
