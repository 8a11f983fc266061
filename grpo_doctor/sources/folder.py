"""A folder of runs: finds the logs in it, and answers for every file of it."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from ..boundary import bug
from ..run import BESIDE, Run
from .input import ReadError
from .views import TRAINING, distinct, file_of, natural

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
    sources = {file_of(run.source) for run in kept}
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
    return run_type in TRAINING and (rows > 1 or format not in _DOCUMENTS)


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
        folders[:] = sorted((f for f in folders if not is_passed_over(f)), key=natural)
        if "ranks" in folders and "records.jsonl" in files:
            folders.remove("ranks")  # each rank's share of the records beside it
        if _is_mlflow(Path(parent)):
            yield next(iter(metrics(Path(parent)))), ""
            folders[:], files = [], []
        for name in sorted(files, key=natural):
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
