"""Reads the epochs of the pointer selector of yunsoft2019/Lever-Plus, from the table that its trainer prints, or from
several runs as CSV.

An epoch is a step. ``Train Loss`` is ``PPO Loss + Beta x KL``. ``Val Loss`` is the supervised (RCE) loss, not the loss
of GRPO. ``Adv Std`` is the standard deviation of a query's advantages, and ``Adv Max`` is their largest absolute value,
both averaged over queries. Losses may be negative, NaN or infinite; the authors' own pattern skips epochs with such
losses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .. import Head, Input, NotRead, Run, RunBuilder, Table
from ..formats.table import split

FORMAT = "lever-epochs"

_FIELDS = {
    "epoch": "epoch",
    "train loss": "loss",
    "val loss": "eval_loss",
    "ppo loss": "policy_loss",
    "kl": "kl",
    "adv std": "advantage_std",
    "adv max": "advantage_max",
    "beta": "kl_coef",
    "lr": "learning_rate",
    "temperature": "temperature",
}
_GRPO = re.compile(r"^[ \t]*Epoch\s+Train Loss\s+Val Loss\s+PPO Loss\s+KL\s+Adv Std\s+Adv Max\b", re.M)
_SUPERVISED = re.compile(r"^[ \t]*Epoch\s+Train Loss\s+Val Loss\s+Temperature[ \t]*$", re.M)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)")
_NAMES = re.compile(r"\S+(?: \S+)*")
_SAME_LOSS = ("the loss of validation is the supervised (RCE) loss", "steps are epochs; values are means over queries")


def sniff(head: Head) -> int:
    if {"epoch", "ppo_loss", "adv_std"} <= set((head.lines[0] if head.lines else "").split(",")):
        return 3
    return 3 if _GRPO.search(head.text) or _SUPERVISED.search(head.text) else 0


def read(file: Input) -> list[Run]:
    lines = file.lines()
    first = next(((number, text) for number, text in lines if text.strip()), (0, ""))
    if "ppo_loss" in first[1]:
        return _read_csv(file)
    return _read_table(file)


# -- the printed table ----------------------------------------------------------------------------------------------


def _read_table(file: Input) -> list[Run]:
    supervised, names = RunBuilder(file.source, FORMAT), [""]
    grpo = RunBuilder(file.source, FORMAT)
    grpo.run.settings["rows"] = "epochs"
    builder = None
    for number, text in file.lines():
        if _GRPO.match(text) or _SUPERVISED.match(text):
            names = [name.lower() for name in _NAMES.findall(text)]
            builder = grpo if _GRPO.match(text) else supervised
            continue
        cells = text.split()
        if builder is None or not cells or not cells[0].isdigit():
            continue
        if len(cells) < len([name for name in names if name in _FIELDS]):
            file.notes.append(NotRead(f"line {number} is an incomplete table row and was skipped"))
            continue
        _add(builder, dict(zip(names, cells, strict=False)), number)
    warmed = supervised.finish()
    run = grpo.finish()
    if not len(run):
        warmed.run_type = "supervised"
        return [warmed]
    if len(warmed):
        run.tables.append(_phase(warmed))
        run.notes.append(f"{len(warmed)} epochs of a supervised phase come first and are not part of this run")
    run.notes += [*_SAME_LOSS, *file.notes]
    return [run]


def _phase(run: Run) -> Table:
    columns = [run.columns.get(name) for name in ("loss", "eval_loss", "temperature")]
    return Table(
        title="Supervised phase (RCE) before GRPO",
        head=["epoch", "train loss", "val loss", "temperature"],
        rows=[
            [str(step), *("" if column is None else f"{column[row]:.5g}" for column in columns)]
            for row, step in enumerate(run.steps.tolist())
        ],
    )


# -- several runs as CSV ---------------------------------------------------------------------------------------

_SETTINGS = {"kl_beta": "kl_coef", "lr": "learning_rate", "use_rank_env": "use_rank_env", "data": "data"}


def _read_csv(file: Input) -> list[Run]:
    lines = [(number, text) for number, text in file.lines() if text.strip()]
    header = split(lines[0][1])
    rows: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for number, text in lines[1:]:
        cells = split(text)
        if len(cells) != len(header):
            file.notes.append(
                NotRead(f"line {number} has {len(cells)} cells but the header has {len(header)}; skipped")
            )
            continue
        row = dict(zip(header, cells, strict=True))
        rows.setdefault(row.get("run", ""), []).append((number, row))
    return [_run_of(file, name, listed) for name, listed in rows.items()]


def _run_of(file: Input, name: str, rows: list[tuple[int, dict[str, str]]]) -> Run:
    builder = RunBuilder(f"{file.source} ({name})" if name else file.source, FORMAT)
    settings = builder.run.settings
    settings.update(_declared(rows[0][1]))
    settings["rows"] = "epochs"
    printed = {float(row["beta"]) for _, row in rows if _NUMBER.fullmatch(row.get("beta", ""))}
    if printed and printed != {settings.get("kl_coef")}:  # the printed value is the actual one
        declared = settings.pop("kl_coef", "none")
        builder.run.notes.append(f"KL coefficient declared as {declared}, but printed as {sorted(printed)}")
    for number, row in rows:
        _add(builder, {key.replace("_", " "): value for key, value in row.items() if key not in _SETTINGS}, number)
    run = builder.finish()
    run.notes += [*_SAME_LOSS, *file.notes]
    return run


def _declared(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in a row of a run, with numbers as floats and other values as text."""
    declared: dict[str, Any] = {}
    for key, name in _SETTINGS.items():
        if value := row.get(key, "").strip():
            number = re.match(_NUMBER.pattern + r"(?=$|\s)", value)  # for example, "0 (clip only)"
            declared[name] = float(number[0]) if number else value
    return declared


def _add(builder: RunBuilder, cells: Mapping[str, str], line: int) -> None:
    """Add one epoch. An empty cell is unknown, while ``nan`` is a printed value."""
    values = {
        field: float(cells[name])
        for name, field in _FIELDS.items()
        if name in cells and _NUMBER.fullmatch(cells[name].strip())
    }
    if not 0 <= values.get("epoch", -1) < 1e15:
        return
    coefficient = values.get("kl_coef", builder.run.settings.get("kl_coef"))
    if isinstance(coefficient, float) and "kl" in values and "policy_loss" in values:
        term = coefficient * values["kl"]
        size = abs(term) + abs(values["policy_loss"])
        values |= {"kl_loss": term} | ({"kl_loss_share": abs(term) / size} if size else {})
    builder.add({"step": values["epoch"], **values}, line)
