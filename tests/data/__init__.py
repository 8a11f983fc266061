"""Small logs written by the project's engine and by TRL, for tests that must not need third-party logs."""

from pathlib import Path

DATA = Path(__file__).parent
ENGINE = {path.name.removesuffix(".jsonl.gz"): path for path in sorted(DATA.glob("engine/*.jsonl.gz"))}
"""Runs of the engine with seed 0, by the fault that was injected."""
TRL = {path.name: path for path in sorted(DATA.glob("trl/*")) if path.is_dir()}
"""Runs of a tiny model in TRL: a folder each, with its console, its trainer_state.json and its TensorBoard events."""
MADE_FAILING = {"never-pays": "REW001", "overfits": "SUP002", "saturates": "PRF001", "displaces": "PRF003"}
"""Of those the ill ones, and the check that tells it."""
