"""Executes the runs of `arms`, with one file per run, so that the experiments resume after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import torch

from ..engine.engine import Engine
from ..engine.model import load_model
from ..engine.settings import Settings
from ..engine.task import Example, load_task
from ..engine.trainer import Trainer, TrainingDied
from ..record import encode
from ..report import output
from .arms import ALONE, FIXED, REFERENCE, Job, faulty, fixed, since, treated


class Result(msgspec.Struct, kw_only=True):
    """The result of one run.

    Attributes:
        scores: mean task score of the responses at each step after ``since``, regardless of the reward that is used for
            training.
        died: why the run ended early, or None if it did not.
        weights: number of trained weights.
        date, device: date and device of the training; "" in results older than these fields.
    """

    fault: str
    arm: str
    seed: int
    since: int
    steps: int
    scores: list[float]
    died: str | None
    settings: dict[str, Any]
    versions: dict[str, str]
    weights: int | None = None
    date: str = ""
    device: str = ""


class Watched(Trainer):
    """A trainer that also stores the task scores of the responses."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.scores: list[float] = []

    def rollout(self, examples: list[Example]) -> Any:
        """Return the rollout of the trainer, and store the task's scores of the decoded texts."""
        rollout, engine = super().rollout(examples), self.engine
        texts = [engine.tokenizer.decode(ids, skip_special_tokens=True) for ids in rollout.drawn]
        scores = engine.task.score(examples, texts, rollout.finished)
        self.scores.append(sum(score.reward for score in scores) / len(scores))
        return rollout


def trainer(engine: type[Engine], settings: Settings) -> Watched:
    """Return a trainer at its first step."""
    return Watched(engine(settings, *load_model(settings), load_task(settings.task, settings.reward)))


def train(folder: Path, job: Job) -> None:
    """Execute a job and write its result. A run that starts at the first step also writes its records."""
    start = 0
    if job.arm in (REFERENCE, ALONE):
        run = trainer(*(fixed(job) if job.arm == REFERENCE else faulty(job)))
        state = since(job.fault, run.settings.max_steps) if job.arm == ALONE else None
        died = _from_the_start(run, (folder / job.path).with_suffix(".jsonl"), state)
    else:
        run = trainer(*treated(job))
        start = since(job.fault, run.settings.max_steps)
        died = _from_state(run, folder, job)
    _write(
        folder / job.path,
        msgspec.json.encode(
            Result(
                fault=job.fault,
                arm=job.arm,
                seed=job.seed,
                since=start,
                steps=run.settings.max_steps,
                scores=run.scores,
                died=died,
                settings={"inject": [job.fault] * (job.arm not in (REFERENCE, FIXED)), **run.settings.declared()},
                versions={name: version(name) for name in ("grpo-doctor", "torch", "transformers")},
                weights=sum(p.numel() for p in run.engine.parameters),
                date=date.today().isoformat(),
                device=torch.cuda.get_device_name() if run.engine.device.type == "cuda" else run.engine.device.type,
            )
        ),
    )


def _from_the_start(run: Watched, records: Path, kept: int | None) -> str | None:
    """Train to the end, and write every record and the state at one step. Return why the run ended early, if it did."""
    lines: list[bytes] = []
    died = None
    try:
        for record, _ in run.run():
            lines.append(encode(record))
            if record.step == kept:
                run.save(_state(records.parent))
    except TrainingDied as error:
        died = str(error)
    _write(records, b"\n".join([*lines, b""]))
    return died


def _from_state(run: Watched, folder: Path, job: Job) -> str | None:
    """Continue from the state of the failing run. Return why the new run ended early, if it did. A missing failing run
    is trained first."""
    state = _state((folder / job.path).parent)
    if not state.is_file():
        train(folder, job._replace(arm=ALONE))
    run.load(state)
    try:
        for _ in run.run():
            pass
    except TrainingDied as error:
        return str(error)
    return None


def _state(folder: Path) -> Path:
    return folder / "state.pt"


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with output.replacing(path) as file:
        file.write(content)


def train_all(folder: Path, jobs: Iterable[Job], workers: int, done: Callable[[Job], None]) -> None:
    """Execute the jobs that have no result, ``workers`` at a time, and call ``done`` after each. With several workers,
    an error in a job is raised only after the other jobs have ended."""
    waiting = [job for job in jobs if not (folder / job.path).is_file()]
    if workers == 1:
        for job in waiting:
            train(folder, job)
            done(job)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:  # a fork cannot use CUDA
        running = {pool.submit(train, folder, job): job for job in waiting}
        for future in as_completed(running):
            future.result()
            done(running[future])
