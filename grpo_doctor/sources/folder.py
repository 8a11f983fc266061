"""A folder of a run: finds the logs in it and counts no run twice.

Two files are views of one run where the same steps hold the same values: a CSV derived from the log, TensorBoard
beside the console, the trainer_state of an earlier checkpoint. The fullest view is kept, and takes over the settings
and samples of the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..run import Run, RunBuilder, Sample
from . import mlflow

_SKIPPED_FOLDERS = frozenset("__pycache__ node_modules site-packages .git .venv venv .ipynb_checkpoints".split())
_LOGS = frozenset("log txt out err md ipynb jsonl json csv tsv parquet wandb gz zst".split()) | {""}
_NO_LOGS = frozenset(
    "tokenizer.json tokenizer_config.json config.json generation_config.json special_tokens_map.json vocab.json "
    "added_tokens.json adapter_config.json preprocessor_config.json processor_config.json README.md requirements.txt "
    "package.json wandb-metadata.json samples.jsonl LICENSE license.txt merges.txt model.safetensors.index.json".split()
)
_MOST_FILES = 2000
_COMPARED = (
    "reward_mean",
    "loss",
    "grad_norm",
    "entropy_mean",
    "kl",
    "response_length_mean",
    "policy_loss",
    "eval_score",
)
_ENOUGH = 3


def candidates(folder: Path) -> Iterator[Path]:
    """Files that may be logs, in the order of their names."""
    found = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS and not f.startswith("."))
        if "ranks" in folders and "records.jsonl" in files:
            folders.remove("ranks")  # each rank's share of the records beside it
        if _is_mlflow(Path(parent)):
            yield next(iter(mlflow.metrics(Path(parent))))
            folders[:], files = [], []
        for name in sorted(files):
            suffix = name.rpartition(".")[2].lower() if "." in name else ""
            if name in _NO_LOGS or not (suffix in _LOGS or "tfevents" in name):
                continue
            found += 1
            if found > _MOST_FILES:
                return
            yield Path(parent) / name


def _is_mlflow(folder: Path) -> bool:
    """Whether the files of a folder are the metrics of one run."""
    beside = folder.parent / "meta.yaml"
    return folder.name == "metrics" and beside.is_file() and bool(mlflow.metrics(folder))


def distinct(runs: list[Run]) -> list[Run]:
    """The runs without second views of the same one, each with the samples and settings of all its views."""
    told = _told(runs)
    kept: list[Run] = []
    for run in sorted(told, key=_fullness, reverse=True):
        same = next((other for other in kept if same_run(other, run)), None)
        if same is None:
            kept.append(run)
            continue
        same.notes.append(f"{run.source} is another view of this run and was not counted again")
        for name, value in run.settings.items():
            same.settings.setdefault(name, value)
        if run.format == "completions":
            _adopt(same, run)
    kept.sort(key=lambda run: run.source)
    return kept


def _told(runs: list[Run]) -> list[Run]:
    """Files of TensorBoard or of completions in one folder are one run."""
    out: list[Run] = []
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.format in ("tensorboard", "completions"):
            groups.setdefault((run.format, str(Path(run.source).parent)), []).append(run)
        else:
            out.append(run)
    return out + [joined(group) for group in groups.values()]


def joined(runs: list[Run]) -> Run:
    """Runs that are parts of one, in the order of their files."""
    if len(runs) == 1:
        return runs[0]
    builder = RunBuilder(runs[0].source, runs[0].format)
    samples: dict[int, list[Sample]] = {}
    for run in runs:
        for row, held in run.samples.items():
            samples.setdefault(int(run.steps[row]), []).extend(held)
        builder.extend(run.steps, run.columns, run.lines, None, run.events)
    whole = builder.finish()
    whole.run_type = max(runs, key=len).run_type
    for run in runs:
        whole.mapping |= run.mapping
        whole.settings = {**run.settings, **whole.settings}
        whole.notes += run.notes
        for key, count in run.unread.items():
            whole.unread[key] = whole.unread.get(key, 0) + count
    for row, step in enumerate(whole.steps.tolist()):
        if step in samples:
            whole.samples[row] = samples.pop(step)
    return whole


def _adopt(run: Run, completions: Run) -> None:
    """Samples, and the columns that only completions tell."""
    rows = {step: row for row, step in enumerate(run.steps.tolist())}
    pairs = [(rows[step], row) for row, step in enumerate(completions.steps.tolist()) if step in rows]
    for here, there in pairs:
        run.samples.setdefault(here, []).extend(completions.samples.get(there, []))
    for name, column in completions.columns.items():
        if name not in run.columns and pairs:
            run.columns[name] = np.full(len(run), None if column.dtype == object else np.nan, column.dtype)
            for here, there in pairs:
                run.columns[name][here] = column[there]


def _fullness(run: Run) -> tuple[bool, int]:
    known = sum(int((~np.isnan(c)).sum()) for c in run.columns.values() if c.dtype != object)
    return run.format != "completions", known


def same_run(one: Run, other: Run) -> bool:
    """Whether the same steps hold the same values, or the same rows where one of them has no steps."""
    if not len(one) or not len(other):
        return False
    steps, here, there = np.intersect1d(one.steps, other.steps, return_indices=True)
    if other.format == "completions":
        folder = os.path.commonpath([os.path.abspath(one.source), os.path.abspath(other.source)])
        return len(steps) > 0 and folder == str(Path(os.path.abspath(one.source)).parent)
    if len(steps) >= max(_ENOUGH, 0.5 * min(len(one), len(other))) and _agree(one, other, here, there):
        return True
    rows = np.arange(len(one))
    return len(one) == len(other) >= _ENOUGH and _agree(one, other, rows, rows)


def _agree(one: Run, other: Run, here: np.ndarray, there: np.ndarray) -> bool:
    """Whether shared fields that move hold the same values, as far as they are printed."""
    telling = 0
    for name in _COMPARED:
        if name not in one.columns or name not in other.columns:
            continue
        a, b = one.columns[name][here], other.columns[name][there]
        known = np.isfinite(a) & np.isfinite(b)
        if known.sum() < _ENOUGH:
            continue
        a, b = a[known], b[known]
        if np.mean(np.isclose(a, b, rtol=2e-3, atol=6e-4)) < 0.95:
            return False
        telling += len(np.unique(a)) if np.ptp(a) > 2e-3 else 0
    return telling >= _ENOUGH
