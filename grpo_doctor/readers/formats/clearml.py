"""Reads ClearML's offline sessions. ``metrics.jsonl`` has a list of points on each line, and ``task.json`` contains the
settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...run import Run
from ..input import Head, Input
from ..row_buffer import Rows
from ..row_kinds import EVAL
from ..steps import gathered
from ..values import loaded, number, whole

FORMAT = "clearml"
_SCALAR = "training_stats_scalar"
_SIDES = frozenset(("train", "test", *EVAL))
"""Variants under which Transformers reports a metric of training or evaluation."""


def sniff(head: Head) -> int:
    return 3 if head.text.startswith("[{") and f'"{_SCALAR}"' in head.text else 0


def read(file: Input) -> list[Run]:
    rows = Rows(file, FORMAT)
    zeros = 0
    for step, row in gathered(_points(file, rows)):
        zeros += list(row.values()).count(0.0)
        rows.add(row, step=step)
    _settings(file, rows)
    if zeros:
        rows.notes.append(f"{zeros} of its values are 0, which is also how ClearML stores NaN by default")
    return [rows.run()]


def _points(file: Input, rows: Rows) -> Iterator[tuple[int, str, float]]:
    """Yield the step, key and value of every scalar, in order."""
    for line, text in file.lines():
        events = loaded(text)
        if not isinstance(events, list):
            rows.unreadable(line)
            continue
        for event in events:
            if isinstance(event, dict) and event.get("type") == _SCALAR:
                value = number(event.get("value"))
                if value is not None:
                    yield whole(event.get("iter")), _key(event), value


def _key(event: dict[str, Any]) -> str:
    """Return the name of the metric: title and series, or only the title if the series is ``train`` or repeats the
    title."""
    title, series = str(event.get("metric")), str(event.get("variant"))
    if series == "train" or series == title:
        return title
    return f"{series}/{title}" if series in _SIDES else f"{title}/{series}"


def _settings(file: Input, rows: Rows) -> None:
    path = file.path.with_name("task.json")
    task = loaded(Input(path).text()) if path.is_file() else None
    sections = task.get("hyperparams") if isinstance(task, dict) else None
    for section in sections.values() if isinstance(sections, dict) else ():
        if isinstance(section, dict):
            rows.declare({k: item.get("value") for k, item in section.items() if isinstance(item, dict)})
