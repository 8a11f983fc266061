"""A folder of a run: finds the logs in it and counts no run twice.

Two files are views of one run where the same steps hold the same values: a CSV derived from the log, TensorBoard
beside the console, the trainer_state of an earlier checkpoint. The fullest view is kept, and takes over the settings
and samples of the others.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from ..fault_isolation import bug
from ..run import BESIDE, Run, RunBuilder, Sample
from .input import ReadError

_SKIPPED_FOLDERS = frozenset("__pycache__ node_modules site-packages .git .venv venv .ipynb_checkpoints".split())
_LOGS = frozenset(
    "log txt out err md ipynb jsonl json csv tsv parquet wandb gz zst db sqlite sqlite3 swanlab html".split()
) | {""}
_SURELY = frozenset("log out err jsonl ipynb parquet wandb db sqlite sqlite3 swanlab".split())
"""Endings of logs: where such a file cannot be read, something is lost. Another may be anything."""
_NO_LOGS = frozenset(
    "tokenizer.json tokenizer_config.json config.json generation_config.json special_tokens_map.json vocab.json "
    "added_tokens.json adapter_config.json preprocessor_config.json processor_config.json README.md requirements.txt "
    "package.json wandb-metadata.json samples.jsonl LICENSE license.txt merges.txt model.safetensors.index.json "
    "args.json debug.log debug-internal.log debug-core.log all_results.json train_results.json "
    "eval_results.json".split()
)
COMPARED = (
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
_TRAINING = frozenset(("rl", "supervised", "preference"))

Fate = Literal["read", "part of a run", "second view", "no log", "unreadable", "failed"]
"""What became of a file; ``failed`` is an error of grpo-doctor itself."""


class Answer(NamedTuple):
    """What became of one file of a folder, and why."""

    source: str
    fate: Fate
    why: str = ""


class Survey(NamedTuple):
    """The runs of an input, and an answer for every file of it."""

    runs: list[Run]
    answers: list[Answer]

    @property
    def unreadable(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.fate == "unreadable"]

    @property
    def failed(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.fate == "failed"]

    def words(self) -> str:
        """``5 files: 3 read, 1 second view, 1 no log``."""
        if not self.answers:
            return "no files"
        fates = Counter(answer.fate for answer in self.answers)
        told = [f"{fates[fate]} {said}" for fate in get_args(Fate) if fates[fate]
                for said in ((fate if fates[fate] == 1 else _PLURAL.get(fate, fate)),)]  # fmt: skip
        return f"{len(self.answers)} file{'s' if len(self.answers) != 1 else ''}: {', '.join(told)}"


_PLURAL = {"part of a run": "parts of a run", "second view": "second views", "no log": "no logs"}


def survey(folder: Path, read_file: Callable[[Path], list[Run]]) -> Survey:
    """The runs of a folder, each once, and an answer for every file."""
    return survey_files(candidates(folder), read_file)


def survey_files(files: Iterable[tuple[Path, str]], read_file: Callable[[Path], list[Run]]) -> Survey:
    """The runs of some files, each once; with each file why it is no log, if that is known. What cannot be read costs
    itself alone."""
    found: list[Run] = []
    answers: list[Answer] = []
    for path, why_not in files:
        if why_not:
            answers.append(no_log(path, why_not))
            continue
        runs, answer = answered(path, read_file)
        found += runs
        answers.append(answer)
    return _beside(distinct(found), answers)


def no_log(path: Path, why: str) -> Answer:
    """The answer for a file that is not asked whether it is a log: a run's records are read with what lies beside."""
    if path.name in BESIDE and path.with_name("records.jsonl").is_file():
        return Answer(str(path), "part of a run", "read with records.jsonl")
    return Answer(str(path), "no log", why)


def answered(path: Path, read_file: Callable[[Path], list[Run]]) -> tuple[list[Run], Answer]:
    """The runs of one file of a folder and what became of it."""
    try:
        runs = [run for run in read_file(path) if run.run_type != "none" or len(run)]
    except ReadError as error:
        fate: Fate = "unreadable" if _is_surely_a_log(path) else "no log"
        return [], Answer(str(path), fate, str(error).removeprefix(f"{path}: "))
    except Exception as error:  # noqa: BLE001 - what breaks the reader costs this file alone
        return [], Answer(str(path), "failed", bug(error))
    return runs, Answer(str(path), "read" if runs else "no log", "" if runs else "no training metric in it")


def _beside(told: tuple[list[Run], dict[str, str]], answers: list[Answer]) -> Survey:
    """Leaves out what lies beside runs of training and is none: evaluations, summaries, results of one row."""
    runs, second = told
    kept = [run for run in runs if is_training(run.run_type, run.format, len(run))] or runs
    sources = {_file_of(run.source) for run in kept}
    fates: list[Answer] = []
    for answer in answers:
        if answer.fate == "read" and answer.source in second:
            answer = Answer(answer.source, "second view", f"of {second[answer.source]}")
        elif answer.fate == "read" and answer.source not in sources:
            answer = Answer(answer.source, "no log", "an evaluation or a summary, no course of training")
        fates.append(answer)
    return Survey(kept, fates)


_DOCUMENTS = ("json", "wandb-summary", "csv", "completions")


def is_training(run_type: str, format: str, rows: int) -> bool:
    """Whether it is the course of a training: no evaluation, no summary, no results of one row."""
    return run_type in _TRAINING and (rows > 1 or format not in _DOCUMENTS)


def _file_of(source: str) -> str:
    """The file of a run that is named ``FILE (name)`` because its file holds several."""
    return source[: source.rindex(" (")] if source.endswith(")") and " (" in source else source


def _is_surely_a_log(path: Path) -> bool:
    suffixes = [suffix[1:].lower() for suffix in path.suffixes[-2:]]
    return bool(_SURELY & set(suffixes)) or "tfevents" in path.name


def candidates(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file of a folder in the order that a reader would give them, and why it is no log, if its name says so."""
    seen: set[tuple[int, int]] = set()
    for parent, folders, files in os.walk(folder):
        if (aim := _aim(Path(parent))) is not None:
            yield aim, ""
        if Path(parent).name == _AIM:
            folders[:], files = [], []
        folders[:] = sorted((f for f in folders if not is_passed_over(f)), key=_natural)
        if "ranks" in folders and "records.jsonl" in files:
            folders.remove("ranks")  # each rank's share of the records beside it
        if _is_mlflow(Path(parent)):
            yield next(iter(metrics(Path(parent)))), ""
            folders[:], files = [], []
        for name in sorted(files, key=_natural):
            path = Path(parent) / name
            yield path, _no_log(path, seen)


def _no_log(path: Path, seen: set[tuple[int, int]]) -> str:
    """Why a file is not read; empty where it is."""
    if not has_name_of_log(path.name):
        return NO_NAME
    try:
        known = path.stat()  # of what a link leads to
    except OSError as error:
        return f"a link that leads nowhere ({error.strerror})"
    if not stat.S_ISREG(known.st_mode):
        return "not a regular file"
    if (known.st_dev, known.st_ino) in seen:
        return "the same file as another of this folder"
    seen.add((known.st_dev, known.st_ino))
    return ""


NO_NAME = "not the name of a log"


def has_name_of_log(name: str) -> bool:
    """Whether a file of this name may be a log."""
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    return name not in _NO_LOGS and (suffix in _LOGS or "tfevents" in name)


def is_passed_over(folder: str) -> bool:
    """Whether a folder of this name holds no logs: hidden ones, packages, caches."""
    return folder in _SKIPPED_FOLDERS or folder.startswith(".")


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """The order of names in which 2 comes before 10."""
    parts = re.split(r"(\d{1,18})", name)
    return [(part.isdigit() and part.isascii(), int(part) if part.isascii() and part.isdigit() else 0, part)
            for part in parts]  # fmt: skip


_AIM = ".aim"


def _aim(folder: Path) -> Path | None:
    """The file that stands for the repository of Aim which this folder is or holds, hidden as it is."""
    found = (folder if folder.name == _AIM else folder / _AIM) / "run_metadata.sqlite"
    return found if found.is_file() else None


def _is_mlflow(folder: Path) -> bool:
    """Whether the files of a folder are the metrics of one run."""
    beside = folder.parent / "meta.yaml"
    return folder.name == "metrics" and beside.is_file() and bool(metrics(folder))


def metrics(folder: Path) -> list[Path]:
    """The files of a folder of metrics, those of slash keys in folders of their own."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def distinct(runs: list[Run]) -> tuple[list[Run], dict[str, str]]:
    """The runs without second views, each with the samples and settings of all its views; and view to what it shows."""
    told, second = _told(runs)
    kept: list[Run] = []
    alike = Alike()
    for run in sorted(told, key=_fullness, reverse=True):
        near = kept if run.format == "completions" else [kept[i] for i in alike.of(run)]
        same = next((other for other in near if same_run(other, run)), None)
        if same is None and (half := next((other for other in kept if _halves(other, run)), None)) is not None:
            half.columns |= {name: column for name, column in run.columns.items() if name not in half.columns}
            half.mapping |= run.mapping
            half.unread |= run.unread
            half.run_type = "rl"
            half.notes.append(f"{run.source} holds the other half of this run: rollouts and updates are logged apart")
            second[_file_of(run.source)] = half.source
            continue
        if same is None:
            alike.add(run, len(kept))
            kept.append(run)
            continue
        same.notes.append(f"{run.source} is another view of this run and was not counted again")
        second[_file_of(run.source)] = same.source
        for name, value in run.settings.items():
            same.settings.setdefault(name, value)
        if same.run_type == "supervised" and run.run_type in _TRAINING:
            same.run_type = run.run_type  # it holds what the other view leaves out
        if run.format == "completions":
            _adopt(same, run)
    kept.sort(key=lambda run: _natural(run.source))
    return kept, second


_ROLLED = frozenset("reward_mean success_rate response_length_mean truncated_rate".split())
_UPDATED = frozenset("loss policy_loss grad_norm learning_rate".split())


def _halves(run: Run, other: Run) -> bool:
    """Whether two files of one folder are the rollouts and the updates of one run: the same steps, nothing twice."""
    if Path(_file_of(run.source)).parent != Path(_file_of(other.source)).parent or len(run) < _ENOUGH:
        return False
    if not np.array_equal(run.steps, other.steps) or run.columns.keys() & other.columns.keys() & (_ROLLED | _UPDATED):
        return False
    rolled = [bool(one.columns.keys() & _ROLLED) for one in (run, other)]
    updated = [bool(one.columns.keys() & _UPDATED) for one in (run, other)]
    return rolled == [not held for held in updated] and rolled[0] != rolled[1]


class Alike:
    """Finds runs that may be views of one: three figures at the same steps, or at the same rows, to three digits.

    Comparing each with each would take a folder of thousands of runs an hour.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, int, str], list[int]] = {}

    def add(self, run: Run, place: int) -> None:
        for key in self._keys(run):
            self._places.setdefault(key, []).append(place)

    def of(self, run: Run) -> list[int]:
        found = (self._places.get(key, []) for key in self._keys(run))
        shared = Counter(place for places in found if len(places) <= _MOST_ALIKE for place in places)
        return sorted(place for place, times in shared.items() if times >= _ENOUGH)

    @staticmethod
    def _keys(run: Run) -> Iterator[tuple[str, int, str]]:
        steps = run.steps.tolist()
        rows = view_rows(run)
        for name in COMPARED:
            if name in run.columns:
                values = run.columns[name]
                for row in rows:
                    if math.isfinite(values[row]) and values[row] != 0:
                        yield name, steps[row], f"{values[row]:.3g}"
                        if row < _ENOUGH:
                            yield name, -1 - len(steps) * _ENOUGH - row, f"{values[row]:.3g}"


def view_rows(run: Run) -> list[int]:
    """The rows by which views of one run are found: the first ones, and those of round steps."""
    round_steps = np.flatnonzero(run.steps[_ANCHORS:] % _ROUND == 0) + _ANCHORS
    return [*range(min(_ANCHORS, len(run))), *round_steps[: 3 * _ANCHORS].tolist()]


_ANCHORS = 64
_ROUND = 50
_MOST_ALIKE = 20
"""Runs that may share a figure before it tells none from another."""


def _told(runs: list[Run]) -> tuple[list[Run], dict[str, str]]:
    """Files of TensorBoard or of completions in one folder are one run, unless they tell the same steps otherwise."""
    out: list[Run] = []
    groups: dict[tuple[str, str], list[list[Run]]] = {}
    for run in runs:
        if run.format not in ("tensorboard", "completions"):
            out.append(run)
            continue
        parts = groups.setdefault((run.format, str(Path(run.source).parent)), [])
        group = next((group for group in parts if not any(_contradict(other, run) for other in group)), None)
        if group is None:
            parts.append([run])
        else:
            group.append(run)
    parts = [group for found in groups.values() for group in found]
    part_of = {run.source: group[0].source for group in parts for run in group[1:]}
    return out + [joined(group) for group in parts], part_of


def _contradict(one: Run, other: Run) -> bool:
    """Whether two files hold other figures at the same steps, and neither goes on where the other ends."""
    if one.format == "completions":
        return False
    steps, here, there = np.intersect1d(one.steps, other.steps, return_indices=True)
    if len(steps) <= 0.5 * min(len(one), len(other)):
        return False
    shared = [name for name in one.columns.keys() & other.columns.keys() if one.columns[name].dtype != object]
    a = np.array([one.columns[name][here] for name in shared])
    b = np.array([other.columns[name][there] for name in shared])
    both = np.isfinite(a) & np.isfinite(b)
    return bool(both.any() and not np.isclose(a[both], b[both], rtol=1e-3).all())


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
    for name in COMPARED:
        if name not in one.columns or name not in other.columns:
            continue
        a, b = one.columns[name][here], other.columns[name][there]
        if _broke(one, name, here, b) or _broke(other, name, there, a):
            return False
        known = np.isfinite(a) & np.isfinite(b)
        if known.sum() < _ENOUGH:
            continue
        a, b = a[known], b[known]
        if np.mean(np.isclose(a, b, rtol=2e-3, atol=6e-4)) < 0.95:
            return False
        telling += len(np.unique(a)) if np.ptp(a) > 2e-3 else 0
    return telling >= _ENOUGH


def _broke(run: Run, name: str, rows: np.ndarray, others: np.ndarray) -> bool:
    """Whether a run broke off into NaN where another one goes on with numbers: a twin that fell, no second view."""
    broken = {row for row, field in run.not_finite() if field == name}
    return bool(broken) and bool((np.isin(rows, list(broken)) & np.isfinite(others)).any())
