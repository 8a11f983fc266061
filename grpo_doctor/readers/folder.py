"""Reads a folder of runs: finds its logs, and reports the outcome for every file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, get_args

from ..fault_isolation import bug
from ..run import Run
from .archive import unpacked
from .input import ArchiveError, NotRead, ReadError, Torn, UnreadableError
from .log_names import holds_data, is_surely_a_log, promises_a_log
from .views import TRAINING, distinct, file_of
from .walk import Answer, Candidate, Fate, candidates

NO_METRIC = "no training metric"


class Survey(NamedTuple):
    """The runs of an input, and the outcome for every file."""

    runs: list[Run]
    answers: list[Answer]

    @property
    def unreadable(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.fate == "unreadable"]

    @property
    def not_read(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.fate == "not read"]

    @property
    def failed(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.fate == "failed"]

    def words(self) -> str:
        return outcomes(Counter(answer.fate for answer in self.answers))

    def named(self) -> list[str]:
        """Return one line for every file that may be a log but was not read."""
        lost = [f"{a.source}: {a.fate}: {a.why}" for a in (*self.unreadable, *self.not_read)]
        silent = [a for a in self.answers if a.fate == "no log" and a.why == NO_METRIC]
        return lost + [f"{a.source}: {a.why}" for a in silent if is_surely_a_log(os.path.basename(a.source))]


_SHOWN = {
    "read": ("log", "logs"),
    "part of a run": ("that belongs to a run", "that belong to runs"),
    "second view": ("duplicate", "duplicates"),
    "no log": ("ignored", "ignored"),
}
"""Singular and plural of each outcome in messages."""


def outcomes(fates: Mapping[Fate, int]) -> str:
    """Summarise the outcomes, as in ``5 files: 3 logs, 1 duplicate, 1 ignored``."""
    files = sum(fates.values())
    told = [f"{n} {_SHOWN.get(fate, (fate, fate))[n > 1]}" for fate in get_args(Fate) if (n := fates.get(fate))]
    return f"{files} file{'s' if files != 1 else ''}: {', '.join(told)}" if files else "no files"


ReadFile = Callable[[Path], list[Run]]


def survey(folder: Path, read_file: ReadFile) -> Survey:
    """Return the distinct runs of a folder, and the outcome for every file."""
    return survey_files(candidates(folder), read_file)


def survey_files(files: Iterable[Candidate], read_file: ReadFile) -> Survey:
    """Return the distinct runs of files, and the outcome for every file. If the outcome of a file is already known, the
    file is not read. A file that cannot be read does not affect the others."""
    found: list[Run] = []
    answers: list[Answer] = []
    for path, known in files:
        runs, told = ([], [known]) if known is not None else answered(path, read_file)
        found += runs
        answers += told
    return _beside(distinct(found), answers)


def answered(path: Path, read_file: ReadFile) -> tuple[list[Run], list[Answer]]:
    """Return the runs and the outcome of one file in a folder, or of the files in an archive."""
    try:
        return _read(path, read_file)
    except ReadError as error:
        lost = isinstance(error, UnreadableError) or is_surely_a_log(path.name)
        not_read = promises_a_log(path.name) or holds_data(path.name)
        fate: Fate = "unreadable" if lost else "not read" if not_read else "no log"
        return [], [Answer(str(path), fate, str(error).removeprefix(f"{path}: "))]
    except Exception as error:  # noqa: BLE001 - an error of the reader must not affect other files
        return [], [Answer(str(path), "failed", bug(error))]


def _read(path: Path, read_file: ReadFile) -> tuple[list[Run], list[Answer]]:
    """Return the runs and the outcome of one file, as in `answered`. Raises `ReadError`."""
    try:
        runs = read_file(path)
    except ArchiveError:
        return of_archive(path, read_file)
    if kept := [run for run in runs if run.run_type != "none" or len(run)]:
        return kept, [Answer(str(path), "read")]
    refuse_torn(path, runs)
    left_out = next((note for run in runs for note in run.notes if isinstance(note, NotRead)), "")
    not_read = left_out or (holds_data(path.name) and promises_a_log(path.name))
    return [], [Answer(str(path), "not read" if not_read else "no log", left_out or NO_METRIC)]


def refuse_torn(path: Path, runs: Iterable[Run]) -> None:
    """Raise `UnreadableError` for an incomplete file from which no row was read."""
    torn = next((note for run in runs if not len(run) for note in run.notes if isinstance(note, Torn)), None)
    if torn is not None:
        raise UnreadableError(f"{path}: {torn}")


def of_archive(path: Path, read_file: ReadFile) -> tuple[list[Run], list[Answer]]:
    """Return the runs and outcomes of the files in an archive, with names as in a folder. Raises `UnreadableError`."""
    with unpacked(path) as folder:

        def read_member(member: Path) -> list[Run]:
            try:
                return read_file(member)
            except ArchiveError as error:
                raise ReadError(str(error)) from None

        found = renamed(survey(folder, read_member), lambda text: text.replace(str(folder), str(path)), path)
        return found.runs, found.answers or [Answer(str(path), "no log", "an archive without a possible log file")]


def renamed(found: Survey, named: Callable[[str], str], path: Path) -> Survey:
    """Replace the names of copied files with the original names in runs, notes and outcomes."""
    for run in found.runs:
        run.source, run.path = named(run.source), path
        run.notes = [type(note)(named(note)) for note in run.notes]
    return Survey(
        found.runs, [Answer(named(answer.source), answer.fate, named(answer.why)) for answer in found.answers]
    )


def _beside(told: tuple[list[Run], dict[str, str]], answers: list[Answer]) -> Survey:
    """If there are training runs, drop all other runs: evaluations, summaries, and single-row results."""
    runs, second = told
    kept = [run for run in runs if is_training(run.run_type, run.format, len(run))] or runs
    sources = {file_of(run.source) for run in kept}
    fates: list[Answer] = []
    for answer in answers:
        if answer.fate == "read" and answer.source in second:
            answer = Answer(answer.source, "second view", f"of {second[answer.source]}")
        elif answer.fate == "read" and answer.source not in sources:
            answer = Answer(answer.source, "no log", "an evaluation or a summary, not a training log")
        fates.append(answer)
    return Survey(kept, fates)


_DOCUMENTS = ("json", "wandb-summary", "csv", "completions")


def is_training(run_type: str, format: str, rows: int) -> bool:
    """Return whether a run records training and is not an evaluation, a summary, or a single-row result."""
    return run_type in TRAINING and (rows > 1 or format not in _DOCUMENTS)
