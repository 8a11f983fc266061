"""Reads one JSON document: the ``log_history`` of ``trainer_state.json``, or the tables in another document."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from ...limits import spent
from ...run import Run
from ..aliases import resolve
from ..document import Table, labelled, left_out, tables
from ..input import Head, Input, Torn
from ..row_buffer import Rows
from ..row_kinds import flat
from ..settings import declared
from ..values import as_json, loaded, number
from ..views import same_run

FORMAT = "json"
TRAINER_STATE = "trainer-state"
WANDB_SUMMARY = "wandb-summary"
_CONFIGS = ("config", "args", "hparams", "hyperparameters", "params", "settings")
_SPACE = re.compile(r"[\ufeff\s,]*")
_LIST = re.compile(r"""\[\s*(?:\[\s*(?:"[^"\n]*"|-?\d[\d.eE+-]*)\s*,|(?:-?\d[\d.eE+-]*\s*,\s*){2})""")
"""Start of a list of numbers, or of rows below a row of names."""
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
    if not isinstance(value, dict | list):
        text = as_json(text)  # for ``print(trainer.state.log_history)``
        value = loaded(text.strip("\ufeff \t\r\n\0"))
    if not isinstance(value, dict | list) and len(documents := _documents(text)) > 1:
        value = documents
    elif not isinstance(value, dict | list):
        value = salvaged(text)
        file.notes.append(Torn("the JSON is incomplete; the rows before the end were read"))
    value = labelled(value)
    if isinstance(value, dict) and "log_history" in value:
        return [_trainer_state(file, value)]
    format = WANDB_SUMMARY if file.path.name == "wandb-summary.json" else FORMAT
    found = tables(value, file.path.stem)
    runs = [_run(file, format, table, value, len(found) > 1) for table in found]
    trained = [run for run in runs if run.run_type not in ("evaluation", "none")]
    parts = [run for run in trained if any(run.columns.keys() < o.columns.keys() and same_run(o, run) for o in trained)]
    return [run for run in trained if run not in parts] or runs


def _run(file: Input, format: str, table: Table, value: Any, several: bool) -> Run:
    rows = Rows(replace(file, shown=f"{file.source} ({table.name})") if several else file, format)
    for row in table.rows:
        rows.add(row)
    if isinstance(value, dict):
        own = {k: v for k, v in value.items() if not isinstance(v, list)}
        if any(row is value for row in table.rows):  # the current rate of a schedule is not a setting
            own = {k: v for k, v in own.items() if "learning_rate" not in {alias.field for alias in resolve(k)}}
        rows.declare({k: v for k, v in own.items() if k in _CONFIGS or not (several and isinstance(v, dict))})
        if not several:
            rows.unread.update(left_out(value, table.rows) if table.series else {})
            rows.unread.update(_passed_over(value, rows))
    return rows.run()


def _passed_over(document: dict[str, Any], rows: Rows) -> dict[str, int]:
    """Return the unused keys of a document, and the number of values of each key."""
    told = rows.seen | rows.unread.keys()
    left: dict[str, int] = {}
    for key, value in document.items():
        if key in told or key in _CONFIGS or declared(key):
            continue
        inside = flat({key: value}) if isinstance(value, dict) else {}
        of_rows = value[0].keys() if isinstance(value, list) and value and isinstance(value[0], dict) else ()
        if not told.isdisjoint(of_rows) or not (rows.seen - rows.unread.keys()).isdisjoint(inside):
            continue
        if inside and not (inside := {name: v for name, v in inside.items() if name not in told}):
            continue
        lists = {name: len(v) for name, v in inside.items() if isinstance(v, list)}
        figures = lists | {name: 1 for name, v in inside.items() if number(v) is not None}
        if inside and len(figures) <= _FEW:
            left.update(figures)
        elif isinstance(value, list | dict) or number(value) is not None:
            left[key] = len(value) if isinstance(value, list | dict) else 1
    return left


_FEW = 20
"""Maximum number of keys at which the keys of an unused part of a document are listed. For a larger part, only its name
is listed."""


def _trainer_state(file: Input, state: dict[str, Any]) -> Run:
    rows = Rows(file, TRAINER_STATE)
    history = state["log_history"]
    for row in history if isinstance(history, list) else ():
        if isinstance(row, dict):
            rows.add(row)
    rows.declare({key: state[key] for key in ("max_steps", "train_batch_size") if key in state})
    return rows.run()


def _documents(text: str) -> list[Any]:
    """Return consecutive JSON documents, such as rows that are printed over several lines. An incomplete last document
    is omitted."""
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


def salvaged(text: str) -> Any:
    """Return the complete objects of a JSON list whose writer was interrupted."""
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
