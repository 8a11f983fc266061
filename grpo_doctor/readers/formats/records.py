"""Reads the project's own ``records.jsonl``, with ``config.json`` and ``samples.jsonl`` if they are in the same
folder."""

from __future__ import annotations

import json

import msgspec

from ...record import RecordError, StepRecord, decode
from ...run import Run, RunBuilder, Sample
from ..fast import CHUNK
from ..input import Head, Input, NotRead

FORMAT = "records"


def sniff(head: Head) -> int:
    return 3 if head.raw.lstrip().startswith(b'{"schema":1,"step":') else 0


def read(file: Input) -> list[Run]:
    builder = RunBuilder(file.source, FORMAT)
    builder.run.settings.update(_settings(file))
    samples = _samples(file)
    records: list[StepRecord] = []
    lines: list[int] = []
    first: tuple[int, str] | None = None
    damaged, torn = 0, False
    for number, line in file.lines():
        if not line.strip():
            continue
        torn = False
        try:
            records.append(decode(line))
        except RecordError as error:
            first, damaged, torn = first or (number, str(error)), damaged + 1, True
            continue
        lines.append(number)
        if len(records) == CHUNK:
            builder.add_records(records, lines)
            records, lines = [], []
    if records:
        builder.add_records(records, lines)
    run = builder.finish()
    run.samples = {row: samples[step] for row, step in enumerate(run.steps.tolist()) if step in samples}
    run.notes += _damage(first, damaged, torn)
    run.notes += file.notes
    return [run]


def _damage(first: tuple[int, str] | None, damaged: int, torn: bool) -> list[str]:
    """Return a note on lines that are not valid records. ``torn`` is true if the last line is not a valid record."""
    if first is None:
        return []
    line, why = first
    if torn and damaged == 1:
        return [NotRead(f"line {line} is incomplete and was skipped (the writer was interrupted)")]
    lost = (
        f"line {line} is not a record" if damaged == 1 else f"{damaged} lines starting at line {line} are not records"
    )
    return [NotRead(f"{lost}; skipped: {why}")]


def _settings(file: Input) -> dict[str, object]:
    path = file.path.parent / "config.json"
    if not path.is_file():
        return {}
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        file.notes.append(NotRead(f"{path.name}: not JSON, so its settings were not read: {error}"))
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _samples(file: Input) -> dict[int, list[Sample]]:
    path = file.path.parent / "samples.jsonl"
    found: dict[int, list[Sample]] = {}
    if path.is_file():
        for number, line in Input(path).lines():
            try:
                sample = msgspec.json.decode(line, type=Sample, strict=False)
            except (msgspec.DecodeError, RecursionError) as error:
                file.notes.append(NotRead(f"{path.name}:{number}: not a sample: {error}"))
                continue
            found.setdefault(sample.step, []).append(sample)
    return found
