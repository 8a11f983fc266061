"""Reads the output of a notebook, or of its HTML export: tables and console output.

Trainers in notebooks show their metrics as an HTML table with one row per logging step. The outputs of each cell are
read as a separate log, so a notebook that trains twice has two runs. An exception in a cell is the end of its log.
"""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...run import Run, RunType
from .. import before_after
from ..aliases import resolve
from ..before_after import BeforeAfter, Comparison
from ..endings import conclude
from ..input import Head, Input, NotRead
from ..phases import told_of
from ..reader import read_input
from ..settings import declared, setting_value
from ..source_code import SourceCode
from ..values import loaded
from ..views import distinct
from . import keyvalue, trl_console

FORMAT = "notebook"
_TOKEN = re.compile(r"<(/?)(table|tr|td|th|pre)\b[^<>]*>|<[^<>]*>|[^<]+|<", re.IGNORECASE)


_PAGES = ("<!doctype html", "<html")
_PROGRESS = re.compile(r"\[\s*(\d+)/(\d+) [^\[\]]{0,60}\bEpoch ([\d.]+)/\d+\]")
"""The progress bar above a table of Transformers, with the number of steps, planned steps and epochs."""


_STARTS = re.compile(r"^\s*[!%]|\bsubprocess\b|\bPopen\b|\bos\.system\b|\bsystem\(", re.MULTILINE)
"""Code of a cell that starts other programs or magics, whose errors do not end the cell with an error."""


class _Output(NamedTuple):
    """A table of a cell with the progress bar above it, or the console output of a cell, and whether the cell is known
    to have run to its end."""

    text: str
    progress: re.Match[str] | None = None
    completed: bool = False


def sniff(head: Head) -> int:
    if head.text.lstrip("\ufeff \t\r\n")[:14].lower().startswith(_PAGES):
        return 3
    if head.text.lstrip("\ufeff \t\r\n").startswith("{"):
        by_name = head.name.lower().endswith(".ipynb")
        return 3 if by_name or '"cell_type"' in head.text or '"nbformat"' in head.text else 0
    return 0


def read(file: Input) -> list[Run]:
    text = file.text().strip("\ufeff \t\r\n")
    page = text[:14].lower().startswith(_PAGES)
    said = _Said("", None, False, {})
    notebook = None if page else loaded(text)
    cells = [([_Output(part)], said) for part in _of_page(text)] if page else list(_of_cells(notebook))
    found = [(run, code.trains) for outputs, code in cells for run in _of_cell(file, outputs, code)]
    runs = [run for run, _ in found]
    comparisons = _compared(notebook)
    told, _ = distinct(_once([run for run in runs if run.run_type != "none"]))
    crashed = [run for run, trains in found if trains and run.run_type == "none" and run.ending]
    if told and crashed and all(run.run_type == "supervised" for run in told):  # the main training has no row
        crashed[-1].notes += map(told_of, told)
        return crashed[-1:]
    if told:
        told = _courses([run for run in runs if run in told])
        before_after.conclude(told, comparisons)
        return told
    nothing = Run(file.source, FORMAT, "none")
    begun = next((run for run in reversed(runs) if run.reached is not None), nothing)
    nothing.reached, nothing.settings = begun.reached, begun.settings
    conclude(nothing, next((run.ending for run in reversed(runs) if run.ending), None))
    nothing.repeated_error = next((run.repeated_error for run in reversed(runs) if run.repeated_error), None)
    if any(output.text.strip() for outputs, _ in cells for output in outputs):
        nothing.notes.append("no metric was recognised in the outputs of its cells")
    else:
        nothing.notes.append("its cells have no output; run the notebook and save it")
    before_after.conclude([nothing], comparisons)
    return [nothing]


def _compared(notebook: Any) -> list[Comparison]:
    """Return the scores before and after training, which may be printed by cells other than the training cell."""
    outputs = [output for cell in _cells(notebook) for output in _outputs(cell)]
    printed = ((_joined(output.get("text")), output.get("data")) for output in outputs)
    shown = (text or (_joined(data.get("text/plain")) if isinstance(data, dict) else "") for text, data in printed)
    compared = BeforeAfter()
    compared.see(1, "\n".join(shown).encode("utf-8", "replace"))
    return compared.found()


def _once(runs: list[Run]) -> list[Run]:
    """Return the runs, except for tables that only repeat the loss of another run. Transformers shows a table with the
    loss next to its console output. The table contains step numbers, while the console output often does not.
    """
    left = []
    for table in runs:
        whole = next((run for run in runs if run is not table and _shows_of(table, run)), None)
        if whole is None or table in left:
            continue
        if whole.steps.tolist() == list(range(1, len(whole) + 1)):  # the rows are not numbered
            whole.steps = table.steps
        whole.settings = table.settings | whole.settings
        left.append(table)
    return [run for run in runs if run not in left]


def _shows_of(table: Run, run: Run) -> bool:
    """Return whether a table has the same loss as a run on every row, and no metric that the run lacks."""
    measured, more = (one.columns.keys() - {"epoch"} for one in (table, run))
    if len(table) != len(run) or not {"loss"} <= measured < more:
        return False
    return bool(np.allclose(table.columns["loss"], run.columns["loss"], rtol=0, atol=_ROUNDED, equal_nan=True))


_ROUNDED = 1e-4
"""Maximum difference of losses due to rounding, because consoles print at least four decimals."""


_FEW = 2
"""Maximum number of rows of an unknown console that may be sentences of completions."""


def _courses(runs: list[Run]) -> list[Run]:
    """Return the runs, except for outputs with only one or two rows, such as a summary or lines of an example."""
    whole = [run for run in runs if len(run) > (_FEW if run.format == keyvalue.FORMAT else 1)]
    left = len(runs) - len(whole)
    if not whole or not left:
        return runs
    whole[0].notes.append(NotRead(f"skipped {left} cell output{'s' * (left > 1)} with only one or two rows"))
    return whole


_UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]")
"""Backspaces and similar control characters of a redrawn progress bar, which would make a file look binary."""


def printed(file: Input, output: str, completed: bool = False) -> list[Run]:
    """Return the runs of a program's output that is embedded in another file. ``completed`` is true if the program is
    known to have run to its end."""
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(_UNPRINTED.sub("", output).encode("utf-8", "replace"))
        copy.flush()
        runs = read_input(Input(Path(copy.name), file.mapping, shown=file.source, embedded=True, completed=completed))
    for run in runs:
        run.lines[:] = 0  # these line numbers refer to the output, not to the file
        run.notes[:0] = file.notes
    return runs


def _of_cell(file: Input, outputs: Sequence[_Output], code: _Said) -> list[Run]:
    """Return the runs of a cell, with the settings from the code up to the cell. The console output of the cell shows
    how the training in its table ended."""
    read = [run for output in outputs if output.text.strip() for run in _of_output(file, output)]
    runs = [run for run in read if run.run_type != "none"]
    end = read[-1].ending if read else None
    for run in runs:
        run.repeated_error = run.repeated_error or read[-1].repeated_error
    if not runs:
        return read if code.begins and code.trainer else []
    if end is not None and runs[-1].ending is None:
        conclude(runs[-1], end)
    for run in runs:
        for key, value in code.settings.items():
            if (name := declared(key)) in (None, "max_steps"):  # the planned steps are those of the progress bar
                continue
            if (held := setting_value(name, value)) is not None:
                run.settings.setdefault(name, held)
        if code.trains and run.run_type == "supervised":
            run.run_type, lacks = code.trains, "margin" if code.trains == "preference" else "reward"
            run.notes.append(f"the notebook uses {code.trainer}, but its table has no {lacks}; log the {lacks} too")
    return runs


def _of_output(file: Input, output: _Output) -> list[Run]:
    """Return the runs of an output, with the planned steps and the epochs from the progress bar.

    The bar may round epochs down, so the epochs of the rows are a lower bound, and 0 means unknown. The rows of a table
    are numbered by step or by epoch.
    """
    runs = printed(file, output.text, output.completed)
    if output.progress is None:
        return runs
    position, planned, epochs = map(float, output.progress.groups())
    for run in runs:
        run.settings.setdefault("max_steps", int(planned))
        run.reached = int(position) if run.run_type == "none" else None
        if not (epochs and position):
            continue
        if "epoch" in run.columns:
            run.steps = np.rint(run.columns["epoch"] * (position / epochs)).astype(np.int64)
        else:
            run.columns["epoch"] = run.steps * (epochs / position)
    return runs


class _Said(NamedTuple):
    """The trainer (or the class of its arguments) and the settings in the code up to a cell."""

    trainer: str
    trains: RunType | None
    begins: bool
    settings: dict[str, Any]


def _of_cells(notebook: Any) -> Iterator[tuple[list[_Output], _Said]]:
    """Yield the tables and the console output of each cell, with the trainer and settings from the code so far."""
    code = SourceCode()
    for cell in _cells(notebook):
        if cell.get("cell_type") == "code":
            code.see(_joined(cell.get("source")))
        said = _Said(code.trainer or code.arguments, code.trains, code.begins, dict(code.settings))
        outputs = _outputs(cell)
        tables: list[_Output] = []
        console, raised = [], bool(outputs) and outputs[-1].get("output_type") == "error"
        for output in outputs:
            console.append(_joined(output.get("text")))
            if raised and output is outputs[-1]:  # not a callback's error
                console.append(f"\nTraceback (most recent call last):\n{output.get('ename')}: {output.get('evalue')}\n")
            data = output.get("data")
            if isinstance(data, dict):
                page = _joined(data.get("text/html"))
                *drawn, text = _of_page(page)
                tables += [_Output(table, _PROGRESS.search(page)) for table in drawn]
                plain = _joined(data.get("text/plain"))
                console.append(plain if trl_console.TRAINED.match(plain) else text)  # rich shows one element per output
        completed = not (raised or _STARTS.search(_joined(cell.get("source"))))
        yield [*tables, _Output("".join(console), completed=completed)], said


def _cells(notebook: Any) -> list[dict[str, Any]]:
    return _mappings(notebook.get("cells") if isinstance(notebook, dict) else None)


def _outputs(cell: dict[str, Any]) -> list[dict[str, Any]]:
    return _mappings(cell.get("outputs"))


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else text if isinstance(text, str) else ""


def _fields_of(name: str) -> list[str]:
    return [alias.field for alias in resolve(name)]


def _titles(row: list[str]) -> list[str]:
    """Return the column titles with ``eval_`` before the scores of an evaluation.

    If a table has a validation loss, its capitalised titles are the metrics of ``Trainer.evaluate`` without their
    prefix (Transformers, ``NotebookProgressCallback.on_evaluate``). Unsloth's titles, in lower case, are training
    metrics.
    """
    if "Validation Loss" not in row:
        return row
    scores = {title for title in row if title[:1].isupper() and "eval_score" in _fields_of(f"eval_{title}")}
    return [f"eval_{title}" if title in scores else title for title in row]


def _of_page(page: str) -> Iterator[str]:
    """Yield every table of a page, with cells separated by tabs, and then the preformatted text of the page. For an
    incomplete table, the complete rows are kept.
    """
    lines: list[str] = []
    cells: list[str] = []
    printed: list[str] = []
    inside = ""
    for match in _TOKEN.finditer(page):
        closing, tag = match[1], (match[2] or "").lower()
        if tag in ("td", "th", "pre"):
            inside = "" if closing else tag
            if inside in ("td", "th"):
                cells.append("")
        elif tag == "tr":
            if closing:
                row = [" ".join(cell.split()) for cell in cells]
                lines.append("\t".join(row if lines else _titles(row)))
            cells = []
        elif tag == "table":
            if closing:
                yield "\n".join(lines)
            lines = []
        elif inside == "pre":
            printed.append(html.unescape(match[0]) if match[0][0] != "<" else "")
        elif inside and cells and match[0][0] != "<":
            cells[-1] += html.unescape(match[0]).replace('"', "'")
    if len(lines) > 1:
        yield "\n".join(lines)  # the page is truncated inside the table
    yield "".join(printed)
