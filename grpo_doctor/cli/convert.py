"""``grpo-doctor convert``: whatever log there is, as records in JSONL, CSV or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..report.redaction import cleaned, redact, visible_json
from . import common

if TYPE_CHECKING:
    from ..run import Run

FORMATS = ("jsonl", "csv", "parquet")

Source = Annotated[Path, typer.Argument(help="A log, or the folder of a run; - reads standard input.")]
Target = Annotated[Path, typer.Argument(help="A .jsonl, .csv or .parquet; - writes JSONL to the terminal.")]


def convert(
    source: Source,
    target: Target = Path("-"),
    to: Annotated[str | None, typer.Option("--to", help="jsonl, csv or parquet, if not by the suffix.")] = None,
    map_: Annotated[
        list[str] | None, typer.Option("--map", help="KEY=FIELD: read a key of the log as this field; repeatable.")
    ] = None,
    run_: Annotated[int | None, typer.Option("--run", help="Which run, from 1, where there are several.")] = None,
    config: common.ConfigFile = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what was mapped and unread, on stderr.")
    ] = False,
) -> None:
    """Turns a log into records, one a step, under the names and units that the checks use.

    Records in JSONL keep NaN and infinity as strings, and the settings of the log stand beside them in config.json.
    """
    from ..readers import read

    kind = to or target.suffix.lstrip(".").lower() or "jsonl"
    if kind not in FORMATS:
        common.fail(f"{target}: write to a file that ends in .jsonl, .csv or .parquet, or name the format with --to")
    with common.plain_errors():
        settings = common.settings(config, None, None, map_, None, None)
        run = _chosen(read(source, settings.map), source, run_)
        if not len(run):
            common.fail(f"{source}: {'; '.join(run.notes) or 'no training metric was found'}")
        if verbose:
            _explain(run)
        draft = target if str(target) == "-" else target.with_name(target.name + ".part")
        try:
            {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[kind](run, draft)
            if draft != target:
                draft.replace(target)
        except OSError as error:
            common.fail(f"{target}: cannot be written: {error.strerror}")


def _chosen(runs: list[Run], source: Path, number: int | None) -> Run:
    if number is None and len(runs) > 1:
        names = ", ".join(f"{i} {run.source}" for i, run in enumerate(runs, 1))
        common.fail(f"{source}: holds {len(runs)} runs; choose one with --run: {names}")
    return common.numbered(runs, source, number or 1)


def _explain(run: Run) -> None:
    common.say(f"{run.source}: {run.format}, {run.run_type}, {len(run)} steps", err=True)
    for key, name in run.mapping.items():
        common.say(f"  {key} → {name}", err=True)
    common.say(f"  unread: {', '.join(run.unread) or 'nothing'}", err=True)


def _jsonl(run: Run, target: Path) -> None:
    from ..record import encode

    def lines() -> Iterator[str]:
        for record in run.records():
            yield visible_json(redact(encode(record).decode())) + "\n"

    if str(target) == "-":
        for line in lines():
            typer.echo(line, nl=False)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.writelines(lines())
    if run.settings:
        known = {k: v for k, v in run.settings.items() if isinstance(v, str | int | float | bool)}
        config = target.with_name("config.json")
        if not config.exists():
            config.write_text(json.dumps(cleaned(known), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _flat(run: Run) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns of plain numbers; lists and mappings as JSON text."""
    table = []
    for values in run.rows():
        table.append({k: v if isinstance(v, int | float) else redact(json.dumps(v)) for k, v in values.items()})
    return ["step", *run.columns], table


def _csv(run: Run, target: Path) -> None:
    names, table = _flat(run)
    out = typer.get_text_stream("stdout") if str(target) == "-" else open(target, "w", encoding="utf-8", newline="")  # noqa: SIM115
    try:
        writer = csv.DictWriter(out, names, restval="")
        writer.writeheader()
        writer.writerows(table)
    finally:
        if str(target) != "-":
            out.close()


def _parquet(run: Run, target: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        common.fail("writing parquet needs pyarrow: pip install 'grpo-doctor[parquet]'")
    if str(target) == "-":
        common.fail("parquet is written to a file; name one that ends in .parquet")
    names, table = _flat(run)
    columns = {name: [row.get(name) for row in table] for name in names}
    pyarrow.parquet.write_table(pyarrow.table(columns), target)
