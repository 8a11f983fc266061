"""Runs what `arms` lists, each run into a file of its own, so that a lab that was broken off goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from ..engine.engine import Engine
from ..engine.model import load_model
from ..engine.settings import Settings
from ..engine.task import Example, load_task
from ..engine.trainer import Trainer, TrainingDied
from ..record import encode
from ..report import output
from .arms import ALONE, MENDED, TWIN, Job, mended, sick, since, treated


class Result(msgspec.Struct, kw_only=True):
    """What came of one run.

    Attributes:
        scores: of each step after ``since``, the mean that the task itself gives to what was drawn, whatever the run
            was rewarded with: what the run is worth to its user.
        died: why it ended early, None where it did not.
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


class Watched(Trainer):
    """A trainer that keeps what the task gives to what was drawn."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.scores: list[float] = []

    def rollout(self, examples: list[Example]) -> Any:
        """As the trainer's, and judged by the task on the text that the tokenizer reads."""
        rollout, engine = super().rollout(examples), self.engine
        texts = [engine.tokenizer.decode(ids, skip_special_tokens=True) for ids in rollout.drawn]
        scores = engine.task.score(examples, texts, rollout.finished)
        self.scores.append(sum(score.reward for score in scores) / len(scores))
        return rollout


def trainer(engine: type[Engine], settings: Settings) -> Watched:
    """A trainer at its first step."""
    return Watched(engine(settings, *load_model(settings), load_task(settings.task, settings.reward)))


def train(folder: Path, job: Job) -> None:
    """Runs a job and writes its result, and of a run from the first step on its records."""
    start = 0
    if job.arm in (TWIN, ALONE):
        run = trainer(*(mended(job) if job.arm == TWIN else sick(job)))
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
                settings={"inject": [job.fault] * (job.arm not in (TWIN, MENDED)), **run.settings.declared()},
                versions={name: version(name) for name in ("grpo-doctor", "torch", "transformers")},
            )
        ),
    )


def _from_the_start(run: Watched, records: Path, kept: int | None) -> str | None:
    """Trains to the end, with every record written and the state at one step kept; why it died, if it did."""
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
    """Trains on from where the sick run was; why it died, if it did. A sick run that is not there is trained first."""
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
    """Writes a file whole or not at all."""
    with output.replacing(path) as file:
        file.write(content)


def train_all(folder: Path, jobs: Iterable[Job], workers: int, done: Callable[[Job], None]) -> None:
    """Runs the jobs whose results are not there yet, ``workers`` at a time; calls ``done`` after each."""
    waiting = [job for job in jobs if not (folder / job.path).is_file()]
    if workers == 1:
        for job in waiting:
            train(folder, job)
            done(job)
        return
    with ProcessPoolExecutor(workers) as pool:
        for job in pool.map(_trained, [folder] * len(waiting), waiting):
            done(job)


def _trained(folder: Path, job: Job) -> Job:
    train(folder, job)
    return job
