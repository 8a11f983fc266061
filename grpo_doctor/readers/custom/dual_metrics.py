"""Reads the step metrics of the fairness/hallucination trainer, as CSV or JSONL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import Input, NotRead, Run, RunBuilder
from ..formats.table import split
from ..values import loaded
from ..values import number as as_number
from .dual_log import FAIRNESS, HALLUCINATION, together

_FLAT = {
    "loss": "loss",
    "kl_overall": "kl",
    "clip_frac": "clip_fraction",
    "lr": "learning_rate",
    "max_new_tokens_train": "max_new_tokens",
}
_BY_TASK = {
    "kl_{}": "kl",
    "beta_{}": "kl_coef",
    "reward_{}_mean": "reward_mean",
    "reward_{}_std": "reward_std",
    "gen_len_{}_mean": "response_length_mean",
    "trunc_frac_{}": "truncated_rate",
}
_PROVIDERS = ("provider_openai", "provider_claude", "provider_heuristic")


def rows_of(file: Input) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the cells of each row of a CSV file, or each object of a JSONL file."""
    header: list[str] = []
    for number, text in file.lines():
        cells = [] if text.startswith("{") else split(text)
        if cells and not header:
            header = cells
        elif isinstance(row := loaded(text), dict):
            yield number, row
        elif header and len(cells) == len(header):
            yield number, dict(zip(header, cells, strict=True))
        elif text.strip():
            file.notes.append(NotRead(f"line {number} is incomplete and was skipped"))


def read_metrics(file: Input) -> Run:
    builder = RunBuilder(file.source, "dual-metrics")
    taken = {"step", *_FLAT, *_PROVIDERS, "nan_inf_hits"}
    taken |= {name.format(letter) for name in _BY_TASK for letter in "fh"}
    for number, row in rows_of(file):
        values = {name: figure for name, value in row.items() if (figure := as_number(value)) is not None}
        if not 0 <= values.get("step", -1) < 1e15:
            file.notes.append(NotRead(f"line {number} has no step and was skipped"))
            continue
        tasks: dict[str, dict[str, Any]] = {
            task: {
                field: values[name.format(letter)] for name, field in _BY_TASK.items() if name.format(letter) in values
            }
            for task, letter in ((FAIRNESS, "f"), (HALLUCINATION, "h"))
        }
        fields: dict[str, Any] = {field: values[name] for name, field in _FLAT.items() if name in values}
        for name in ("kl_coef", "response_length_mean", "truncated_rate"):
            if (value := together(tasks, name)) is not None:
                fields[name] = value
        if judged := sum(values.get(name, 0.0) for name in _PROVIDERS):
            fields["judge_failure_rate"] = values.get("provider_heuristic", 0.0) / judged
        if hits := values.get("nan_inf_hits"):
            builder.event(
                "log-warning", f"the trainer skipped {hits:.0f} NaN or infinite loss{'es' * (hits != 1)}", number
            )
        builder.add({"step": values["step"], **fields, "by_task": tasks}, number)
        for name in values.keys() - taken:
            builder.run.unread[name] = builder.run.unread.get(name, 0) + 1
    builder.run.notes.append("the rewards of the two tasks are normalised by the trainer's moving averages")
    return builder.finish()
