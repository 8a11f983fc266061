"""Runs of the engine with and without each fault: ``python -m tests.pairs`` compares each faulty run with the same run
without the fault.

Prints the outcome of the fault's finding and of its remedies, the verdict, and how many pairs of healthy seeds differ.
Not part of the suite. ``--keep FOLDER`` keeps the runs; existing ones are not trained again.
"""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

from grpo_doctor import diagnose
from grpo_doctor.compare import Arm, arms_of, compare
from grpo_doctor.engine.faults import FAULTS, faulty_engine
from grpo_doctor.engine.faults.generation import P30
from grpo_doctor.engine.model import load_model
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import load_task
from grpo_doctor.engine.trainer import Trainer, TrainingDied
from grpo_doctor.readers import read
from grpo_doctor.record import RecordWriter

STEPS = 40
TWINS: dict[str, dict[str, Any]] = {"train-mode-generation": {**P30, "gradient_checkpointing": True}}
"""Settings of the run without the fault, for faults with another length; the others use seed 0 of the defaults."""
NAMES = (
    *("nan-at-step", "lr-too-high", "truncation", "kl-dominates", "constant-reward", "min-new-tokens"),
    *("entropy-coefficient-huge", "train-mode-generation"),
)


def train(folder: Path, faults: list[str], settings: dict[str, Any]) -> None:
    """Train a run and write its records and settings to the folder."""
    kind, of_fault = faulty_engine(faults)
    chosen = settings_of({**of_fault, **settings}, "pairs")
    trainer = Trainer(kind(chosen, *load_model(chosen), load_task(chosen.task, chosen.reward)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**chosen.declared(), "inject": faults}), encoding="utf-8")
    with RecordWriter(folder / "records.jsonl") as writer, suppress(TrainingDied):
        for record, _ in trainer.run():
            writer.write(record)
    (folder / "done").touch()


def side(keep: Path, name: str, faults: list[str], seed: int, settings: dict[str, Any]) -> Arm:
    """Return the run of this name; train it if it is not stored."""
    folder = keep / name
    if not (folder / "done").exists():
        train(folder, faults, {"seed": seed, **settings})
    (arm,) = arms_of([diagnose(run) for run in read(folder)])
    return arm


def main() -> None:
    """Prints one line for each fault, and one for the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    healthy = [side(options.keep, f"healthy-{i}", [], i, {"max_steps": STEPS}) for i in range(options.seeds)]
    for name in NAMES:
        twin = healthy[0]
        if name in TWINS:
            twin = side(options.keep, f"{name}-healed", [], 0, TWINS[name])
        faulty = side(options.keep, name, [name], 0, {} if name in TWINS else {"max_steps": STEPS})
        found = compare(faulty, twin)
        own = [f for f in found.fared if f.code in FAULTS[name].named_by]
        told = ", ".join(f"{f.code} {f.fate}" + (f", {f.judgement}" if f.judgement else "") for f in own)
        print(f"{name:26} {found.verdict:14} {told or 'not named in the faulty run'}", flush=True)
    verdicts = [compare(one, other).verdict for one, other in combinations(healthy, 2)]
    print(f"two seeds: no difference in {verdicts.count('no difference')} of {len(verdicts)} pairs")


if __name__ == "__main__":
    main()
