"""Makes the logs of this folder: ``python -m tests.data LAB``, LAB being where ``grpo-doctor lab --out LAB`` wrote.

The engine's logs are those of the lab, left alone, packed. TRL's are written by its own trainer and by transformers'
TensorBoard callback: one whose reward is the share of words of the first half of the alphabet, one that never pays.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.data import DATA
from tests.integrations.tiny_trl import constant, make_trainer

FAULTS = (
    "constant-reward",
    "flipped-entropy",
    "kl-dominates",
    "lr-too-high",
    "nan-at-step",
    "rank-advantages",
    "stale-rollout-weights",
    "train-mode-generation",
    "truncation",
    "two-sample-groups",
)


def early(completions: list[Any], **_: Any) -> list[float]:
    """Share of the words that begin with a letter before n."""
    texts = [c[0]["content"].lower().split() for c in completions]
    return [sum(word < "n" for word in text) / max(len(text), 1) for text in texts]


def engine(lab: Path) -> None:
    """Packs the records of the lab's runs; without a time of packing, so that the same run is the same file."""
    for fault in FAULTS:
        records = (lab / fault / "0" / "left-alone.jsonl").read_bytes()
        (DATA / "engine" / f"{fault}.jsonl.gz").write_bytes(gzip.compress(records, mtime=0))


def trl(name: str, steps: int, **changes: Any) -> None:
    """Trains the tiny model and keeps what the trainer printed and wrote."""
    folder, console = DATA / "trl" / name, io.StringIO()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as room:
        os.environ["TENSORBOARD_LOGGING_DIR"] = f"{room}/tensorboard"
        trainer = make_trainer(Path(room, "out"), max_steps=steps, report_to="tensorboard", run_name=name, **changes)
        with contextlib.redirect_stdout(console):
            trainer.train()
        (events,) = Path(room, "tensorboard").rglob("events.out.tfevents.*")
        (folder / "events.out.tfevents.0").write_bytes(events.read_bytes())
    (folder / "train.log").write_text(console.getvalue(), encoding="utf-8")
    trainer.state.save_to_json(str(folder / "trainer_state.json"))


if __name__ == "__main__":
    (DATA / "engine").mkdir(exist_ok=True)
    engine(Path(sys.argv[1]))
    trl("learns", 40, rewards=early, learning_rate=1e-2, per_device_train_batch_size=16)
    trl("never-pays", 24, rewards=constant)
