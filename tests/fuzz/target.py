"""What is asked of an input: that it is read and judged or refused in one line, and never anything else."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import msgspec

from grpo_doctor import LiveDoctor, StepRecord
from grpo_doctor.budget import OverBudgetError
from grpo_doctor.catalogue import load
from grpo_doctor.examine import diagnose
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read as read_configuration
from grpo_doctor.record import NUMBER_FIELDS, OBJECT_FIELDS, TEXT_FIELDS
from grpo_doctor.report import Options, render
from grpo_doctor.run import Sample
from grpo_doctor.sources import ReadError
from grpo_doctor.sources.input import Input
from grpo_doctor.sources.reader import read_input

FORMATS = ("text", "json", "html", "markdown", "sarif", "junit", "github", "gitlab")
MOST_RUNS = 3
"""Runs of one input that are judged: a shuffled table may hold hundreds."""


def refused(error: ReadError) -> None:
    """One line says why."""
    assert len(str(error).splitlines()) == 1, str(error)


def log(path: Path, rng: random.Random, judged: float = 1.0) -> None:
    """Reads a log, and with this chance judges and reports what it holds."""
    try:
        runs = read_input(Input(path))
    except ReadError as error:
        refused(error)
        return
    for run in runs[:MOST_RUNS]:
        assert all(len(column) == len(run) for column in run.columns.values())
        if rng.random() < judged:
            diagnosis = diagnose(run)
            assert "\x1b" not in render(rng.choice(FORMATS), [diagnosis], Options(verbose=True))


def configuration(path: Path, rng: random.Random) -> None:
    """Reads a configuration and judges it."""
    try:
        found = read_configuration(path)
    except ReadError as error:
        refused(error)
        return
    for one in found[:MOST_RUNS]:
        render(rng.choice(FORMATS), [judge(one, str(path), load())], Options())


SETTINGS = ("num_iterations", "beta", "group_size", "learning_rate", "temperature", "max_new_tokens", "epsilon", "rows",
            "loss_type", "scale_rewards", "adapter", "framework", "max_steps", "top_p", "kl_coef", "gpus")  # fmt: skip
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    0.5,
    1e-9,
    1e9,
    1e19,
    1e154,
    1e308,
    -1e308,
    math.nan,
    math.inf,
    -math.inf,
    2**53,
    1e-320,
]
WORDS: list[Any] = ["auto", "", "nan", "1e-6", "none", "group", "rank", None, True, [1], {"a": 1}, "x" * 99]


def live(rng: random.Random) -> None:
    """A session of a live doctor: records with odd values under odd settings."""
    doctor = LiveDoctor({name: rng.choice([*NUMBERS, *WORDS]) for name in rng.sample(SETTINGS, rng.randrange(6))})
    fields = rng.sample((*NUMBER_FIELDS, *OBJECT_FIELDS, *TEXT_FIELDS), rng.randrange(2, 16))
    usual = {name: rng.choice([0.1, 0.5, 2.0, 100.0]) for name in fields}
    step = rng.choice([0, 1, -5, 2**61])
    for _ in range(rng.randrange(2, 24)):
        values = {name: _value(rng, name, usual[name]) for name in fields if rng.random() < 0.9}
        try:
            record = msgspec.convert({"step": step, **values}, StepRecord, strict=False)
        except msgspec.ValidationError:
            continue
        sample = Sample(
            step=step,
            prompt="a",
            response=rng.choice(["", "b", "\x1b[1m" * 9]),
            reward=rng.choice([0.0, math.nan, 1e308]),
        )
        doctor.push(record, [sample] if rng.random() < 0.2 else None)
        step += rng.choice([1, 1, 1, 1, 0, 10, -3])
    render(rng.choice(FORMATS), [doctor.diagnosis()], Options())


def _value(rng: random.Random, name: str, usual: float) -> Any:
    odd = rng.choice(NUMBERS) if rng.random() < 0.15 else usual * rng.uniform(0.9, 1.1)
    if name in ("reward_components", "by_task"):
        return {key: odd if name != "by_task" else {"reward_mean": odd} for key in rng.sample("abc", rng.randrange(4))}
    if name == "group_rewards":
        return [[odd] * rng.randrange(4) for _ in range(rng.randrange(3))]
    if name in OBJECT_FIELDS:
        return [odd] * rng.randrange(6)
    return rng.choice(["k1", "group", "rank", ""]) if name in TEXT_FIELDS else odd


def one(name: str, content: bytes, folder: Path, seed: int, judged: float = 1.0) -> None:
    """One input by its name: a log, a configuration, or the seed of a live session."""
    rng = random.Random(seed)
    if name == "live":
        live(random.Random(json.loads(content)))
        return
    kind, _, file = name.partition("/")
    path = folder / file
    path.write_bytes(content)
    try:
        log(path, rng, judged) if kind == "log" else configuration(path, rng)
    except OverBudgetError as error:
        raise AssertionError(f"over its budget: {error}") from error
    finally:
        path.unlink()
