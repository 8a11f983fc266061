"""The requirement for every input: it is read and judged, or refused in one line."""

from __future__ import annotations

import json
import math
import random
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import typer.main
from click.testing import CliRunner

from grpo_doctor import LiveDoctor, StepRecord
from grpo_doctor.cli import app
from grpo_doctor.cli.common import BROKEN, chosen
from grpo_doctor.config import ConfigError
from grpo_doctor.config import read as read_options
from grpo_doctor.diagnosis.catalogue import load, report_names
from grpo_doctor.diagnosis.check import CheckError
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.limits import OverBudgetError
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read as read_configuration
from grpo_doctor.probes.discover import adapter_for
from grpo_doctor.probes.discover import discover as functions
from grpo_doctor.probes.entry_points import AdapterError
from grpo_doctor.probes.script import Script
from grpo_doctor.readers import ReadError
from grpo_doctor.readers.input import Input
from grpo_doctor.readers.reader import read_input
from grpo_doctor.record import NUMBER_FIELDS, OBJECT_FIELDS, TEXT_FIELDS
from grpo_doctor.report.charts import panels
from grpo_doctor.report.figures import svg
from grpo_doctor.report.model import Options, render
from grpo_doctor.run import Sample
from tests.fuzz import seeds
from tests.fuzz.places import place

MOST_RUNS = 3
"""Runs of one input that are judged: a shuffled table may hold hundreds."""


def refused(error: ReadError) -> None:
    """Assert that one line names the reason."""
    assert len(str(error).splitlines()) == 1, str(error)


def reported(diagnosis: Diagnosis, rng: random.Random) -> None:
    """Render every report format, every chart of the page, and one chart as a file."""
    options = Options(verbose=True, full=rng.random() < 0.5, static=rng.random() < 0.5)
    for name in report_names():
        assert "\x1b" not in render(name, [diagnosis], options)
    if drawn := panels(diagnosis):
        svg(rng.choice(drawn))


def log(path: Path, rng: random.Random, judged: float = 1.0) -> None:
    """Read a log, and with this probability judge and report its runs."""
    try:
        runs = read_input(Input(path))
    except ReadError as error:
        refused(error)
        return
    for run in runs[:MOST_RUNS]:
        assert all(len(column) == len(run) for column in run.columns.values())
        if rng.random() < judged:
            reported(diagnose(run), rng)


def configuration(path: Path, rng: random.Random) -> None:
    """Read a configuration and judge it."""
    try:
        found = read_configuration(path)
    except ReadError as error:
        refused(error)
        return
    for one in found[:MOST_RUNS]:
        reported(judge(one, str(path), load()), rng)


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
    """Run a live session: records with unusual values under unusual settings."""
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
    reported(doctor.diagnosis(), rng)


def _value(rng: random.Random, name: str, usual: float) -> Any:
    odd = rng.choice(NUMBERS) if rng.random() < 0.15 else usual * rng.uniform(0.9, 1.1)
    if name in ("reward_components", "by_task"):
        return {key: odd if name != "by_task" else {"reward_mean": odd} for key in rng.sample("abc", rng.randrange(4))}
    if name == "group_rewards":
        return [[odd] * rng.randrange(4) for _ in range(rng.randrange(3))]
    if name in OBJECT_FIELDS:
        return [odd] * rng.randrange(6)
    return rng.choice(["k1", "group", "rank", ""]) if name in TEXT_FIELDS else odd


@cache
def _command() -> Any:
    """Return the command line, built once."""
    return typer.main.get_command(app)


def command(*words: object) -> None:
    """Run a command: any exit code except that of an internal error is accepted."""
    done = CliRunner().invoke(_command(), [str(word) for word in words], catch_exceptions=False)
    said = next((line for line in done.output.splitlines() if "bug in grpo-doctor" in line), "")
    assert not said, said
    assert done.exit_code != BROKEN
    assert "\x1b" not in done.output


def share(path: Path, rng: random.Random) -> None:
    """Anonymise a log."""
    command("share", path, "--out", path.with_suffix(".out"))


def convert(path: Path, rng: random.Random) -> None:
    """Convert a log to records, which must be read back in the same number."""
    suffix = rng.choice(["jsonl", "jsonl", "csv", "parquet"])
    out = path.with_suffix(f".out.{suffix}")
    command("convert", path, out, "--run", 1)
    if suffix == "jsonl" and out.exists():
        (before, *_), (after,) = read_input(Input(path)), read_input(Input(out))
        assert len(before) == len(after), f"{len(before)} rows became {len(after)}"


def compare(path: Path, rng: random.Random) -> None:
    """Compare a log with the one from which it was made."""
    reports = [f"--report={kind}={path.with_suffix(f'.out-{kind}')}" for kind in ("json", "html", "markdown")]
    command("compare", _made(path), path, *reports, *rng.choice([[], ["--by", "tokens"]]))


def fleet(path: Path, rng: random.Random) -> None:
    """Judge a log in a folder of runs, or a configuration next to one."""
    told = path.name.endswith(tuple(seeds.configurations()))
    kept = (_made(path), path) if not told else (_made(path.with_name("metrics.jsonl")), path)
    with tempfile.TemporaryDirectory(dir=path.parent) as room:
        for place, file in enumerate(kept):
            name = f"config{file.suffix}" if told and file == path else file.name
            folder = Path(room, "both" if told else f"{place}")
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(file.read_bytes())
        reports = [f"--report={kind}={path.with_suffix(f'.out-{kind}')}" for kind in ("html", "json", "csv", "parquet")]
        command("fleet", room, "--jobs", 1, *reports)


def gate(path: Path, rng: random.Random) -> None:
    """Run the gate with a baseline of known findings."""
    reports = [f"--report={kind}={path.with_suffix(f'.out-{kind}')}" for kind in report_names()]
    command("gate", _made(path.with_name("metrics.jsonl")), "--baseline", path, *reports)


def options(path: Path, rng: random.Random) -> None:
    """Read the user's settings."""
    with suppress(ConfigError, CheckError):
        chosen(read_options(path))


def discover(path: Path, rng: random.Random) -> None:
    """Search a trainer's file for functions that look like entry points."""
    try:
        script = Script(path)
    except AdapterError:
        return
    compile(adapter_for(script, functions(script)), str(path), "exec")


def _made(path: Path) -> Path:
    """Return the generated log with this name, or with this ending, unchanged in a separate folder."""
    made = path.parent / "made" / path.name
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        made.write_bytes(next(log for name, log in seeds.logs().items() if path.name.endswith(name)))
    return made


OF_FILES: dict[str, Callable[[Path, random.Random], None]] = {
    "config": configuration, "share": share, "convert": convert, "compare": compare, "fleet": fleet, "gate": gate,
    "options": options, "discover": discover,
}  # fmt: skip
"""Operations on a file, by the kind of the input; a log may be judged or only read."""
SEEDED = ("live", "probe", "place")
"""Kinds whose inputs are made from a number."""


def one(name: str, content: bytes, folder: Path, seed: int, judged: float = 1.0) -> None:
    """Process one input by its name: a kind and a file name, or only a kind, whose content is a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # numpy's warnings about odd numbers are not for users
        _one(name, content, folder, seed, judged)


def _one(name: str, content: bytes, folder: Path, seed: int, judged: float) -> None:
    kind, _, file = name.partition("/")
    rng = random.Random(json.loads(content) if kind in SEEDED else seed)
    if kind == "live":
        live(rng)
        return
    if kind == "probe":
        from .adapters import probe  # torch, which nothing else here needs

        probe(rng, reported)
        return
    if kind == "place":
        place(rng, folder)
        return
    path = folder / file
    path.write_bytes(content)
    try:
        log(path, rng, judged) if kind == "log" else OF_FILES[kind](path, rng)
    except OverBudgetError as error:
        raise AssertionError(f"over its budget: {error}") from error
    finally:
        for left in folder.iterdir():
            if left.is_file():
                left.unlink()
