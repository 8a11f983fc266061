"""``grpo-doctor convert``: converts any readable log to records in JSONL, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..extras import install
from ..report import output
from ..report.redaction import cleaned, csv_cell, redact, visible_json
from . import common
from .share import share

if TYPE_CHECKING:
    from ..run import Run

FORMATS = ("jsonl", "csv", "parquet")

Source = Annotated[Path, typer.Argument(help="A log, or the folder of a run; - reads standard input.")]
Target = Annotated[Path, typer.Argument(help="A .jsonl, .csv or .parquet file; - prints JSONL.")]


def convert(
    source: Source,
    target: Target = Path("-"),
    to: Annotated[str | None, typer.Option("--to", help="jsonl, csv or parquet; by default, as the suffix.")] = None,
    map_: common.Mapped = None,
    run_: common.Picked = None,
    anonymize: Annotated[
        bool,
        typer.Option(
            "--anonymize", help="Keep the log's format; remove texts and secrets. Without TARGET it writes LOG.shared."
        ),
    ] = False,
    config: common.ConfigFile = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the mapped and the unused keys to stderr.")
    ] = False,
) -> None:
    """Converts a log to records, one per step, with the field names and units that the checks use.

    Records in JSONL keep NaN and infinity as strings. The settings of the log are written to config.json in the same
    folder.
    """
    from ..readers import read

    if anonymize:
        share(source, None if str(target) == "-" else target)
        return
    kind = to or target.suffix.lstrip(".").lower() or "jsonl"
    if kind not in FORMATS:
        common.fail(f"{target}: write to a file that ends in .jsonl, .csv or .parquet, or name the format with --to")
    with common.plain_errors():
        settings = common.settings(config=config, map_=map_)
        runs = read(source, settings.map)
        if len(picked := common.picked(runs, run_)) != 1:
            raise common.not_picked(run_, [run.source for run in runs])
        run = picked[0]
        if not len(run):
            common.fail(f"{source}: {'; '.join(run.notes) or 'no training metric was found'}")
        if verbose:
            _explain(run)
        made = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[kind](run)
        if str(target) == "-":
            _print(kind, made)
            return
        common.refuse_inputs([target], [source, *([] if run.path is None else [run.path])])
        with common.plain_writing(target):
            with output.replacing(target) as file:
                file.writelines(made)
            if kind == "jsonl":
                _write_settings(run, target.with_name("config.json"))


def _explain(run: Run) -> None:
    common.say(f"{run.source}: {run.format}, {run.run_type}, {len(run)} steps", err=True)
    for key, name in run.mapping.items():
        common.say(f"  {key} → {name}", err=True)
    common.say(f"  unread: {', '.join(run.unread) or 'nothing'}", err=True)


def _print(kind: str, made: Iterable[bytes]) -> None:
    if kind == "parquet":
        common.fail("parquet is written to a file; name one that ends in .parquet")
    for piece in made:
        typer.echo(piece, nl=False)


def _jsonl(run: Run) -> Iterator[bytes]:
    from ..record import encode

    for record in run.records():
        yield f"{visible_json(redact(encode(record).decode()))}\n".encode()


def _write_settings(run: Run, path: Path) -> None:
    """Write the settings of the log next to its records, unless the file exists."""
    known = {k: v for k, v in run.settings.items() if isinstance(v, str | int | float | bool)}
    if known:
        with suppress(FileExistsError):
            output.create(path, json.dumps(cleaned(known), indent=2, ensure_ascii=False) + "\n")


def _flat(run: Run) -> tuple[list[str], list[dict[str, Any]]]:
    """Return columns of plain values: lists and mappings become JSON text."""
    table = []
    for values in run.rows():
        table.append({k: v if isinstance(v, int | float) else redact(json.dumps(v)) for k, v in values.items()})
    return ["step", *run.columns], table


def _csv(run: Run) -> Iterator[bytes]:
    names, table = _flat(run)
    line = io.StringIO()
    writer = csv.writer(line)
    for row in (names, *([row.get(name, "") for name in names] for row in table)):
        writer.writerow(map(csv_cell, row))
        yield line.getvalue().encode("utf-8", "replace")
        line.seek(0)
        line.truncate()


def _parquet(run: Run) -> Iterator[bytes]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        common.fail(f"writing parquet needs pyarrow; {install('parquet')}")
    names, table = _flat(run)
    columns = {name: [row.get(name) for row in table] for name in names}
    whole = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), whole)
    yield whole.getvalue()
