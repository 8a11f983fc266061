"""Completions with their rewards, one a row: TRL's parquet and JSONL, ms-swift's JSONL, verl's rollouts.

They become samples, and the statistics of the step that only they can tell: rewards, groups, advantages, repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...limits import spent
from ...run import Run, RunBuilder, Sample
from ..input import Head, Input, NotRead, ReadError
from ..row_buffer import Rows
from ..values import loaded, number, whole

FORMAT = "completions"
_TEXTS = (
    "completion", "response", "output", "generated_text", "generation", "answer_text", "completion_text",
    "response_text", "output_text",
)  # fmt: skip
_PROMPTS = ("prompt", "input", "question", "instruction")
_REWARDS = ("reward", "score", "rewards", "total_reward", "reward_total", "scalar_reward", "reward_scores")
_STEPS = ("step", "global_step", "gen_step", "checkpoint_step")
_PARQUET = b"PAR1"
_HEADERS = 2
"""Rows of another type at most that stand before the first completion, such as one of the settings."""
_MOST = 200_000
_AT_ONCE = 4_096
"""Rows of Parquet that are read at once."""
_LISTED = 256
"""Values of a list in each of them; rows with longer lists are read fewer at once."""
_ROOM = 1 << 28
"""Bytes that the texts of these rows may take."""
_VALUE = 5
"""Bytes of a document that take as much memory as a value in a list."""
_EQUAL = 1e-6


def sniff(head: Head) -> int:
    if head.raw.startswith(_PARQUET):
        return 3
    lines = [line for line in head.lines[: 2 * _HEADERS] if line.strip()][: 1 + _HEADERS]
    rows = [loaded(line) for line in lines if line.lstrip().startswith("{")]
    held = next((row for row in rows if isinstance(row, dict) and _first(row, _TEXTS) is not None), None)
    if held is None or not (held is rows[0] or "type" in held):
        return 0
    return 3 if _first(held, _PROMPTS) is not None or _reward(held) is not None else 0


def read(file: Input) -> list[Run]:
    if file.head().raw.startswith(_PARQUET) and not set(_names(file)) & set(_TEXTS):
        return _table(file)
    steps: dict[int, list[Mapping[str, Any]]] = {}
    for taken, row in enumerate(_rows(file)):
        if taken == _MOST:
            file.notes.append(NotRead(f"only the first {_MOST} completions were read"))
            break
        step = whole(next((row[key] for key in _STEPS if key in row), None))
        steps.setdefault(step, []).append(row)
    builder = RunBuilder(file.source, FORMAT)
    for step in sorted(steps):
        rows = steps[step]
        builder.add({"step": step, **_statistics(rows)})
        for row in rows:
            text, prompt = _first(row, _TEXTS), _first(row, _PROMPTS)
            builder.sample(Sample(step=step, response=_text(text), prompt=_text(prompt), reward=_reward(row)))
    run = builder.finish()
    run.run_type = "rl" if "reward_mean" in run.columns or "advantage_std" in run.columns else "evaluation"
    run.mapping["reward"] = "reward_mean"
    run.notes += file.notes
    return [run]


def _table(file: Input) -> list[Run]:
    """A table of metrics, or the history of a run as Weights & Biases exports it."""
    rows = Rows(file, "parquet")
    for row in _parquet(file):
        rows.add({key: value for key, value in row.items() if value is not None})
    return rows.runs()


def _rows(file: Input) -> Iterator[Mapping[str, Any]]:
    if file.head().raw.startswith(_PARQUET):
        yield from _parquet(file)
        return
    for line, text in file.lines():
        row = loaded(text) if text.strip() else None
        if isinstance(row, dict):
            if _first(row, _TEXTS) is not None or "type" not in row:
                yield from _single(row)
        elif row is not None:
            file.notes.append(NotRead(f"line {line} is not a row and was skipped"))


def _single(row: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The rows of a batch that is logged as columns: ``{"completion": [...], "reward": [...]}``."""
    texts = _first(row, _TEXTS)
    if not (isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)):
        yield row
        return
    for i in range(len(texts)):
        yield {k: v[i] if isinstance(v, list) and len(v) == len(texts) else v for k, v in row.items()}


def _parquet(file: Input) -> Iterator[Mapping[str, Any]]:
    with _opened(file) as parquet:
        for number in range(parquet.num_row_groups):
            size = _rows_at_once(parquet.metadata.row_group(number))
            for batch in parquet.iter_batches(size, row_groups=[number], use_threads=False):
                spent(batch.nbytes, "a batch of rows")
                yield from batch.to_pylist()


def _rows_at_once(group: Any) -> int:
    """How many rows of a row group are read at once, by what its head says of it. Raises `OverBudgetError`.

    A few bytes can hold very long lists, and a long text again and again: one row may hold all the values of a list
    column, and each row the longest text of a column.
    """
    columns = [group.column(place) for place in range(group.num_columns)]
    values = max((column.num_values for column in columns), default=0)
    spent(_VALUE * (values - group.num_rows), "a column of lists")
    texts = [column.total_uncompressed_size for column in columns if column.physical_type.endswith("BYTE_ARRAY")]
    by_lists = _AT_ONCE * _LISTED * group.num_rows // max(1, values)
    return max(1, int(min(_AT_ONCE, by_lists, _ROOM // max(1, *texts, 1))))


def _names(file: Input) -> list[str]:
    """The columns of a Parquet file."""
    with _opened(file) as parquet:
        return list(parquet.schema_arrow.names)


@contextmanager
def _opened(file: Input) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ReadError(f"{file.path}: reading Parquet needs pyarrow: pip install 'grpo-doctor[parquet]'") from None
    try:
        with file.open() as stream:
            yield pyarrow.parquet.ParquetFile(stream)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{file.path}: not a complete Parquet file: {' '.join(str(error).split())}") from None


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _text(value: Any) -> str:
    """Text of a message, of a list of messages, or of what else there is."""
    if isinstance(value, list):
        return "\n".join(_text(part) for part in value)
    if isinstance(value, dict):
        return _text(value.get("content", value.get("text", "")))
    return "" if value is None else str(value)


def _reward(row: Mapping[str, Any]) -> float | None:
    """The reward of a row; where there is none by name, the one function's."""
    for name in _REWARDS:
        held = row.get(name)
        if isinstance(held, dict):  # the whole beside its parts, or the one function's
            held = _first(held, _REWARDS) if len(held) > 1 else next(iter(held.values()), None)
        if not isinstance(held, list) and (value := number(held)) is not None:
            return value
    known = (*_STEPS, "advantage", "advantages")
    others = [v for k, v in row.items() if k not in known and isinstance(v, float) and not isinstance(v, bool)]
    return others[0] if len(others) == 1 else None


def _statistics(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    texts = Counter(_text(_first(row, _TEXTS)) for row in rows)
    found: dict[str, Any] = {
        "unique_rate": len(texts) / len(rows),
        "top_pattern_share": max(texts.values()) / len(rows),
    }
    rewards = [_reward(row) for row in rows]
    known = np.array([r for r in rewards if r is not None], float)
    if len(known):
        found |= {"reward_mean": known.mean(), "reward_std": known.std()}
        found |= {"reward_min": known.min(), "reward_max": known.max()}
    groups = _groups(rows, rewards)
    if groups:
        dead = sum(max(group) - min(group) < _EQUAL for group in groups)
        found |= {"groups": len(groups), "zero_variance_groups": dead, "live_groups": len(groups) - dead}
        found |= {"group_size": len(groups[0]), "group_rewards": groups}
    advantages = [v for row in rows if (v := number(row.get("advantage"))) is not None]
    if advantages:
        distinct = sorted({round(abs(v), 6) for v in advantages if abs(v) > _EQUAL})
        found |= {"advantage_mean": float(np.mean(advantages)), "advantage_std": float(np.std(advantages))}
        found |= {"advantage_min": min(advantages), "advantage_max": max(advantages)}
        found["advantage_abs_values"] = distinct[:8]
    return found


def _groups(rows: list[Mapping[str, Any]], rewards: list[float | None]) -> list[list[float]]:
    """Rewards of neighbours with one prompt; empty unless all groups are of one size above 1."""
    groups: list[list[float]] = []
    last: str | None = None
    for row, reward in zip(rows, rewards, strict=True):
        prompt = _text(_first(row, _PROMPTS))
        if reward is None or not prompt:
            return []
        if prompt != last:
            groups.append([])
        groups[-1].append(reward)
        last = prompt
    sizes = {len(group) for group in groups}
    return groups if len(sizes) == 1 and min(sizes) > 1 else []
