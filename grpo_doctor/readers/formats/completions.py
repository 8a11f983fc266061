"""Reads rollouts, one or several per row, from Parquet, JSONL and JSON of any framework, and from Inspect logs.

``rollouts/names.csv`` maps the keys to their meanings. Rollouts are converted to samples and to statistics of their
step, such as rewards, groups, tool calls and loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ...extras import install
from ...limits import spent
from ...mismatch import BatchError, examined, read_batch
from ...mismatch.batch import is_token_batch
from ...record import StepRecord
from ...rollouts import Steps, meaning, rollouts_of, step_of
from ...rollouts.words import NAMES
from ...run import Run, RunBuilder, Sample
from ..archive import inspect_samples, is_inspect_log
from ..document import labelled
from ..input import Head, Input, NotRead, ReadError
from ..row_buffer import Rows
from ..values import loaded
from ..views import TRAINING
from . import json_rows

FORMAT = "completions"
_PARQUET = b"PAR1"
_HEADERS = 2
"""Maximum number of other rows, such as settings, before the first completion."""
_MOST = 8
"""Maximum number of rollouts per row that are inspected to recognise the format."""
_LOOK = 64
"""Number of rows between checks of the budget."""
_ENOUGH = 30
"""Minimum number of responses in a single row at which the row is judged on its own."""
_AT_ONCE = 4_096
"""Maximum number of Parquet rows to read at once."""
_LISTED = 256
"""Maximum mean number of list values per row at which `_AT_ONCE` rows are read at once. Rows with longer lists are read
in smaller batches."""
_ROOM = 1 << 28
"""Maximum size in bytes of the texts in the rows that are read at once."""
_VALUE = 5
"""Number of bytes of a document that take as much memory as one value of a list."""
_HELD_OUT = re.compile(r"(?i)(?:^|[^a-z])(?:val|validation|evals?|evaluation)(?:[^a-z]|$)")
"""Words in the names of files and folders that contain responses of an evaluation."""
_ENDED = {*NAMES["reward"], *NAMES["success"], *NAMES["advantage"], *NAMES["finish"]}
"""Names that occur in rollouts but not in a dataset of texts."""
_TASK = {"prompt", "turns", "group", "reference", "reward"}
"""Fields of which a rollout must have at least one."""
_TALK = re.compile(r'"(?:role|from)"\s*:\s*"(?:assistant|gpt)"')
_COLUMNS = re.compile(r'"columns"\s*:\s*\[([^\]]*)\]')
_NAMES = re.compile(r'"([A-Za-z ]{1,40}?)(?:_\d+)?"')
"""Names of the columns of a table, without the number at the end."""
_KEYS = re.compile(r'"(\w{1,40})"\s*:')


def sniff(head: Head) -> int:
    if head.raw.startswith(_PARQUET) or is_inspect_log(head.raw):
        return 3
    text = _start(head)
    if text[:1] == "[" or (text[:1] == "{" and not isinstance(loaded(text.split("\n", 1)[0]), dict)):
        return _sniff_names(text)
    lines = [line for line in head.lines[: 2 * _HEADERS] if line.strip()][: 1 + _HEADERS]
    rows = [row for line in lines if line.lstrip().startswith("{") for row in islice(_document(loaded(line)), 1)]
    held = next((row for row in rows if _rollouts(row)), None)
    if held is None or not (held is rows[0] or "type" in held):
        return 0
    return 3 if any(s.prompt or s.group or s.reference or s.reward is not None for s in _rollouts(held)) else 0


def _start(head: Head) -> str:
    return head.text.lstrip("\ufeff \t\r\n")


def _sniff_names(text: str) -> int:
    """Return 3 if a document or a long row contains rollouts, judged by the names at its start, and 0 otherwise. The
    reward may come after the texts and therefore be missing from the start."""
    columns = _COLUMNS.search(text)
    keys = {key.lower() for key in (*_KEYS.findall(text), *_NAMES.findall(columns[1] if columns else ""))}
    ended = {*keys, *(key.rpartition("_")[2] for key in keys)} & _ENDED or "\n" not in text
    fields = _fields(keys)
    said = "response" in fields and not fields.isdisjoint(_TASK)
    return 3 if ended and (said or _TALK.search(text)) else 0


def _fields(keys: Iterable[str]) -> set[str]:
    """Return the fields of a rollout to which these keys refer."""
    return {known[0] for key in keys if (known := meaning(key)) is not None}


def _rollouts(row: Mapping[str, Any]) -> list[Sample]:
    return list(islice(rollouts_of(row), _MOST))


def read(file: Input) -> list[Run]:
    if file.head().raw.startswith(_PARQUET):
        names = _names(file)
        if is_token_batch(names):
            return [_of_batch(file)]
        if not _fields(names) & {"response", "messages"}:
            return _table(file)
    if _start(file.head())[:1] == "{" and _is_document(file.head()):
        logs = [run for run in json_rows.read(file) if run.run_type in TRAINING and len(run) > 1]
        if logs:  # the document also has the rows of the training
            return logs
    return _of_rollouts(file)


def _of_rollouts(file: Input) -> list[Run]:
    path = file.path
    step = step_of(path.name, path.parent.name)
    steps = file.resumed(Steps)
    for taken, row in enumerate(_rows(file)):
        for sample in rollouts_of(row, step):
            steps.add(sample)
        if taken % _LOOK == 0:
            spent()
    if not _is_document(file.head()):
        file.keep(steps)
    elif not steps:
        return json_rows.read(file)
    builder = RunBuilder(file.source, FORMAT)
    for fields, shown in steps.fields():
        builder.add(fields)
        for sample in shown:
            builder.sample(sample)
    run = builder.finish()
    run.run_type = "rl" if _is_training(run, f"{path.parent.name}/{path.stem}") else "evaluation"
    run.mapping["reward"] = "reward_mean"
    if run.run_type == "evaluation" and len(run) == 1 and steps.responses >= _ENOUGH:
        run.settings["responses"] = steps.responses
    run.notes += file.notes + ([note] if (note := steps.note()) is not None else [])
    return [run]


def _is_training(run: Run, name: str) -> bool:
    """Return whether rollouts come from training and not from an evaluation. Rollouts from training have advantages, or
    rewards and step numbers."""
    counted = "reward_mean" in run.columns and bool(run.steps.any())
    return (counted or "advantage_std" in run.columns) and _HELD_OUT.search(name) is None


def _of_batch(file: Input) -> Run:
    """Return a run with one row: the step of a token batch."""
    try:
        batch = read_batch(file.path)
    except BatchError as error:
        raise ReadError(str(error)) from None
    builder = RunBuilder(file.source, "token batch")
    builder.add(examined(StepRecord(step=batch.step), batch))
    run = builder.finish()
    run.settings.update(batch.settings)
    return run


def _table(file: Input) -> list[Run]:
    """Read a table of metrics, or the history of a run exported from Weights & Biases."""
    rows = Rows(file, "parquet")
    for row in _parquet(file):
        rows.add({key: value for key, value in row.items() if value is not None})
    return rows.runs()


def _rows(file: Input) -> Iterator[Mapping[str, Any]]:
    head = file.head()
    if head.raw.startswith(_PARQUET):
        yield from _parquet(file)
    elif is_inspect_log(head.raw):
        for sample in inspect_samples(file.path):
            spent(len(sample), "a sample")
            yield from _document(loaded(sample.decode("utf-8", "replace")))
    elif _is_document(head):
        yield from _document(loaded(file.text().strip("\ufeff \t\r\n")))
    else:
        for line, text in file.lines():
            row = loaded(text) if text.strip() else None
            if isinstance(row, dict):
                yield from _document(row)
            elif row is not None:
                file.notes.append(NotRead(f"line {line} is not a row and was skipped"))


def _is_document(head: Head) -> bool:
    """Return whether a file is one JSON value that spans several lines, or a list. An object on one line is read as a
    row."""
    first, ended, _ = _start(head).partition("\n")
    return first[:1] == "[" or (first[:1] == "{" and bool(ended) and not isinstance(loaded(first), dict))


def _document(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a document: a list of rows, a table with columns and data, or a row that may contain other
    rows."""
    value = labelled(value)
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        yield from (row for row in value if isinstance(row, dict))


def _parquet(file: Input) -> Iterator[Mapping[str, Any]]:
    with _opened(file) as parquet:
        names = parquet.schema_arrow.names
        for number in range(parquet.num_row_groups):
            size = _rows_at_once(file, parquet.metadata.row_group(number), number)
            for batch in _ahead(parquet.iter_batches(size, row_groups=[number], use_threads=False)):
                spent(batch.nbytes, "a batch of rows")
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield dict(zip(names, values, strict=True))


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches while another thread decodes the next batch."""
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = other.submit(next, batches, None)
            yield batch


def _rows_at_once(file: Input, group: Any, number: int) -> int:
    """Return how many rows of a row group to read at once, according to its metadata. Raises `OverBudgetError`.

    A few bytes can encode very long lists, or the same long text many times. One row may contain all values of a list
    column, and each row may contain the longest text of a dictionary.
    """
    columns = [group.column(place) for place in range(group.num_columns)]
    values = max((column.num_values for column in columns), default=0)
    spent(_VALUE * (values - group.num_rows), "a column of lists")
    texts = {c.path_in_schema: c for c in columns if c.physical_type.endswith("BYTE_ARRAY")}
    longest = max((column.total_uncompressed_size for column in texts.values()), default=1)
    if longest * _AT_ONCE > _ROOM:
        shared = _shared(file, number, [name for name in texts if "." not in name])
        longest = max(
            max(shared[name], column.total_uncompressed_size // group.num_rows)
            if name in shared
            else column.total_uncompressed_size
            for name, column in texts.items()
        )
    by_lists = _AT_ONCE * _LISTED * group.num_rows // max(1, values)
    return max(1, int(min(_AT_ONCE, by_lists, _ROOM // max(1, longest))))


def _shared(file: Input, number: int, names: list[str]) -> dict[str, int]:
    """Return the size in bytes of the longest text in the dictionary of each column, or 0 without a dictionary.

    Dictionaries are read together with the first row. A column is omitted if its dictionary cannot be read with the
    first row.
    """
    import pyarrow.compute

    with _opened(file, names) as parquet:
        group = parquet.metadata.row_group(number)
        whole = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
        row = next(parquet.iter_batches(1, row_groups=[number], columns=names, use_threads=False))
        spent(row.nbytes, "a dictionary of texts")
        held = {
            n: column.dictionary for n, column in zip(names, row.columns, strict=True) if hasattr(column, "dictionary")
        }
    found = {name: 0 for name in held if not whole[name].has_dictionary_page}
    lengths = {name: pyarrow.compute.binary_length(texts) for name, texts in held.items() if len(texts) > 1}
    return found | {name: pyarrow.compute.max(length).as_py() for name, length in lengths.items() if name not in found}


def _names(file: Input) -> list[str]:
    """Return the columns of a Parquet file."""
    with _opened(file) as parquet:
        return list(parquet.schema_arrow.names)


@contextmanager
def _opened(file: Input, dictionaries: list[str] | None = None) -> Iterator[Any]:
    """Open a Parquet file. The columns named in ``dictionaries`` are read as dictionaries."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ReadError(f"{file.path}: reading Parquet needs pyarrow; {install('parquet')}") from None
    try:
        with file.open() as stream:
            yield pyarrow.parquet.ParquetFile(stream, read_dictionary=dictionaries)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{file.path}: not a complete Parquet file: {' '.join(str(error).split())}") from None
