"""One JSON document: a list of rows, ``trainer_state.json`` with its ``log_history``, or columns by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..run import Run
from . import Head, Input
from .jsonl import loaded
from .rows import Rows, flat, number

FORMAT = "json"
TRAINER_STATE = "trainer-state"
WANDB_SUMMARY = "wandb-summary"
_SPACE = re.compile(r"[\ufeff\s,]*")
_whole = json.JSONDecoder()
_HISTORIES = ("log_history", "history", "metrics", "logs", "steps", "records", "trajectory", "rows", "data")


def sniff(head: Head) -> int:
    text = head.text.lstrip("\ufeff \t\r\n\0")
    if text[:1] not in ("{", "["):
        return 0
    if text[:1] == "[":
        return 3 if text[1:].lstrip()[:1] == "{" else 0
    if '"log_history"' in text:
        return 3
    first = text.split("\n", 1)[0].strip()
    if first == "{" or (len(head.lines) == 1 and isinstance(loaded(first), dict)):
        return 3
    return 1 if text[1:].lstrip()[:1] == '"' else 0


def read(file: Input) -> list[Run]:
    text = file.text()
    value = loaded(text.strip("\ufeff \t\r\n\0"))
    if not isinstance(value, dict | list) and len(documents := _documents(text)) > 1:
        value = documents
    elif not isinstance(value, dict | list):
        value = _salvaged(text)
        file.notes.append("the JSON is torn; the rows before the tear were read")
    if isinstance(value, dict) and "log_history" in value:
        return [_trainer_state(file, value)]
    rows = Rows(file, WANDB_SUMMARY if file.path.name == "wandb-summary.json" else FORMAT)
    for row in _rows(value):
        rows.add(row)
    if isinstance(value, dict):
        rows.declare({k: v for k, v in value.items() if not isinstance(v, list)})
    return [rows.run()]


def _trainer_state(file: Input, state: dict[str, Any]) -> Run:
    rows = Rows(file, TRAINER_STATE)
    history = state["log_history"]
    for row in history if isinstance(history, list) else ():
        if isinstance(row, dict) and "train_runtime" not in row:
            rows.add(row)
    rows.declare({key: state[key] for key in ("max_steps", "train_batch_size") if key in state})
    return rows.run()


def _rows(value: Any) -> list[Mapping[str, Any]]:
    """The rows of a document: of a list, of a list in it, of columns, or the one that it is."""
    if isinstance(value, list):
        return [row for row in value if isinstance(row, dict) and "train_runtime" not in row]
    for key in _HISTORIES:
        if isinstance(inner := value.get(key), list) and any(isinstance(row, dict) for row in inner):
            return _rows(inner)
        if isinstance(inner, dict) and _columns(inner):
            return _columns(inner)
    if columns := _columns(value):
        return columns
    if value and all(isinstance(row, dict) and str(key).lstrip("-").isdigit() for key, row in value.items()):
        return [{"step": int(key), **row} for key, row in value.items()]
    return [value]


def _columns(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of columns by name: lists of numbers, as long as one another."""
    held = flat(value)
    lists = {key: v for key, v in held.items() if isinstance(v, list) and v and not isinstance(v[0], list | dict)}
    lengths = [len(v) for v in lists.values() if any(number(x) is not None for x in v[:5])]
    if not lengths:
        return []
    longest = max(set(lengths), key=lengths.count)
    table = {key: v for key, v in lists.items() if len(v) == longest}
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)] if longest > 1 else []


def _documents(text: str) -> list[Any]:
    """Documents that follow each other, such as rows that are printed over several lines; a torn last one is left."""
    found: list[Any] = []
    at = 0
    while (between := _SPACE.match(text, at)) and between.end() < len(text):
        try:
            value, at = _whole.raw_decode(text, between.end())
        except (ValueError, RecursionError):
            break
        found.append(value)
    return found


def _salvaged(text: str) -> Any:
    """The whole objects of a list whose writer was stopped: everything up to the last row that ends."""
    cut = len(text)
    for _ in range(64):
        cut = text.rfind("}", 0, cut)
        if cut < 0:
            return {}
        for closing in ("]", "]}", "", "}"):
            value = loaded(text[: cut + 1].lstrip("\ufeff \t\r\n") + closing)
            if isinstance(value, dict | list):
                return value
    return {}
