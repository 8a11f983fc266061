"""Generated sweeps: runs that learn or collapse, with one setting that decides and others without effect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grpo_doctor.fleet.unit import Level, Line
from grpo_doctor.record import RecordWriter, StepRecord

PLANTED = "learning_rate"


def drawn_settings(rng: np.random.Generator, seed: int) -> dict[str, Any]:
    """One setting that decides, nine without effect (words, few numbers, many numbers, a Boolean), and a seed."""
    return {
        PLANTED: float(rng.choice([1e-6, 3e-6, 1e-5])),
        "kl_coef": float(rng.choice([0.0, 0.01, 0.04])),
        "group_size": int(rng.choice([4, 8, 16])),
        "temperature": float(rng.choice([0.7, 1.0])),
        "loss_type": str(rng.choice(["grpo", "dapo", "bnpo"])),
        "epsilon": float(rng.uniform(0.1, 0.3)),
        "warmup_steps": int(rng.integers(0, 100)),
        "lora_r": int(rng.choice([8, 16, 32, 64])),
        "gradient_checkpointing": bool(rng.random() < 0.5),
        "max_grad_norm": float(rng.choice([0.1, 0.5, 1.0])),
        "seed": seed,
    }


def fails(settings: Mapping[str, Any], rng: np.random.Generator) -> bool:
    """Four of five runs with the largest learning rate fail, and one in ten of the others."""
    return bool(rng.random() < (0.8 if settings[PLANTED] == 1e-5 else 0.1))


def drawn_lines(runs: int, rng: np.random.Generator) -> list[Line]:
    """Return the lines of a sweep as a diagnosis would write them."""
    lines = []
    for seed in range(runs):
        settings = drawn_settings(rng, seed)
        failing = fails(settings, rng)
        level = Level(0.1 if failing else 0.7 + 0.05 * float(rng.standard_normal()), 0.75, 0.01, 25)
        lines.append(
            Line(
                source=f"sweep/run-{seed:04}/records.jsonl",
                unit=f"sweep/run-{seed:04}",
                verdict="failing" if failing else "healthy",
                headline="",
                run_type="rl",
                steps=100,
                first_step=1,
                last_step=100,
                cause="REW009" if failing else None,
                onset_step=int(rng.integers(20, 80)) if failing else None,
                settings=settings,
                levels={"reward_mean": level},
            )
        )
    return lines


def write_run(folder: Path, *, collapsed: bool, rng: np.random.Generator, steps: int = 24, **settings: Any) -> Path:
    """Write a run with the configuration next to it; its responses may collapse halfway."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    with RecordWriter(folder / "records.jsonl") as writer:
        for step in range(1, steps + 1):
            bad = collapsed and step > steps // 2
            reward = 0.05 if bad else 0.3 + 0.5 * step / steps
            writer.write(
                StepRecord(
                    step=step,
                    reward_mean=reward + 0.01 * float(rng.standard_normal()),
                    valid_rate=0.02 if bad else 0.97,
                    loss=float("nan") if bad else 0.1 * float(rng.random()),
                    grad_norm=0.5 + 0.1 * float(rng.random()),
                )
            )
    return folder / "records.jsonl"


def write_sweep(root: Path, runs: int, rng: np.random.Generator, names: Sequence[str] = ()) -> Path:
    """Write a folder with one folder per run; each run declares the named settings, or all of them."""
    for seed in range(runs):
        settings = drawn_settings(rng, seed)
        told = {name: settings[name] for name in names or settings}
        write_run(root / f"run-{seed:04}", collapsed=fails(settings, rng), rng=rng, **told)
    return root
