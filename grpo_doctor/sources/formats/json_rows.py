"""One JSON document: ``trainer_state.json`` with its ``log_history``, or the tables that it holds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from ...budget import spent
from ...run import Run
from ..aliases import resolve
from ..collect import Rows
from ..document import Table, left_out, tables
from ..input import Head, Input, NotRead
from ..values import loaded

FORMAT = "json"
TRAINER_STATE = "trainer-state"
WANDB_SUMMARY = "wandb-summary"
_CONFIGS = ("config", "args", "hparams", "hyperparameters", "params", "settings")
_SPACE = re.compile(r"[\ufeff\s,]*")
_LIST = re.compile(r"""\[\s*(?:\[\s*"[^"\n]*"\s*,|(?:-?\d[\d.eE+-]*\s*,\s*){2})""")
"""A list of numbers, or of rows below a row of names."""
_whole = json.JSONDecoder()


def sniff(head: Head) -> int:
    text = head.text.lstrip("\ufeff \t\r\n\0")
    if text[:1] not in ("{", "["):
        return 0
    if text[:1] == "[":
        return 3 if text[1:].lstrip()[:1] == "{" else 2 if _LIST.match(text) else 0
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
        file.notes.append(NotRead("the JSON is torn; the rows before the tear were read"))
    if isinstance(value, dict) and "log_history" in value:
        return [_trainer_state(file, value)]
    format = WANDB_SUMMARY if file.path.name == "wandb-summary.json" else FORMAT
    found = tables(value, file.path.stem)
    runs = [_run(file, format, table, value, len(found) > 1) for table in found]
    trained = [run for run in runs if run.run_type not in ("evaluation", "none")]
    return trained or runs


def _run(file: Input, format: str, table: Table, value: Any, several: bool) -> Run:
    rows = Rows(replace(file, shown=f"{file.source} ({table.name})") if several else file, format)
    for row in table.rows:
        rows.add(row)
    if isinstance(value, dict):
        own = {k: v for k, v in value.items() if not isinstance(v, list)}
        if any(row is value for row in table.rows):  # what a schedule has come to is not what was declared
            own = {k: v for k, v in own.items() if "learning_rate" not in {alias.field for alias in resolve(k)}}
        rows.declare({k: v for k, v in own.items() if k in _CONFIGS or not (several and isinstance(v, dict))})
        if table.series and not several:
            rows.unread.update(left_out(value, table.rows))
    return rows.run()


def _trainer_state(file: Input, state: dict[str, Any]) -> Run:
    rows = Rows(file, TRAINER_STATE)
    history = state["log_history"]
    for row in history if isinstance(history, list) else ():
        if isinstance(row, dict) and "train_runtime" not in row:
            rows.add(row)
    rows.declare({key: state[key] for key in ("max_steps", "train_batch_size") if key in state})
    return rows.run()


def _documents(text: str) -> list[Any]:
    """Documents that follow each other, such as rows that are printed over several lines; a torn last one is left."""
    found: list[Any] = []
    at = 0
    while (between := _SPACE.match(text, at)) and between.end() < len(text):
        spent()
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
            spent()
            value = loaded(text[: cut + 1].lstrip("\ufeff \t\r\n") + closing)
            if isinstance(value, dict | list):
                return value
    return {}
