"""``grpo-doctor checks``: lists the checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from . import common


def checks(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Codes, names or families to list; all by default.", autocompletion=common.codes),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    fields: Annotated[bool, typer.Option("--fields", help="List the record fields instead.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="List the settings that rules use.")] = False,
    debug: Annotated[
        Path | None,
        typer.Option(
            "--debug", metavar="LOG", help="Run one check eagerly on this log, so that print and breakpoints work."
        ),
    ] = None,
    config: common.ConfigFile = None,
    trust_checks: common.TrustChecks = False,
) -> None:
    """Lists the checks. `checks explain CODE` prints a check's page; `checks new CODE NAME FAMILY` creates a check."""
    from rich.console import Console
    from rich.table import Table

    from ..readers.settings import meanings
    from ..series.derived import MEANINGS

    if debug is not None:
        _debug(words or [], debug, config, trust_checks)
        return
    with common.plain_errors():
        chosen = common.everything(config, trust_checks).select(words or [])
    rows = [
        {"code": c.code, "name": c.name, "family": c.family, "severity": str(c.severity), "title": c.title}
        for c in chosen.checks.values()
    ]
    if fields:
        rows = [{"field": name, "meaning": meaning} for name, meaning in MEANINGS.items()]
    if settings:
        rows = [{"setting": name, "meaning": words} for table in meanings().values() for name, words in table.items()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table(*rows[0], box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)


def _debug(words: list[str], log: Path, config: Path | None, trust_checks: bool) -> None:
    """Run one check eagerly on every run of a log. Show its findings and the rows on which its conditions are true."""
    from ..diagnosis.catalogue import Catalogue
    from ..diagnosis.eager import diagnose_eagerly
    from ..readers import read

    if len(words) != 1:
        common.fail("--debug needs exactly one check, for example `grpo-doctor checks ENT001 --debug run.log`")
    with common.plain_errors():
        check = common.everything(config, trust_checks, compiled=False).find(words[0])
        runs = read(log)
    if check is None or check.predicate is None:
        common.fail(f"unknown check {words[0]!r}; `grpo-doctor checks` lists all checks")
    for run in runs:
        diagnosis, plans = diagnose_eagerly(run, Catalogue([check], preview=True, compiled=False))
        typer.echo(f"{run.source}: {len(run)} rows, {check.code} {check.name}")
        for level, held in (condition for plan in plans for condition in plan.held):
            rows = held.nonzero()[0]
            since = f", first on row {rows[0] + 1} (step {run.steps[rows[0]]})" if len(rows) else ""
            typer.echo(f"  {level}: the condition holds on {len(rows)} of {len(held)} rows{since}")
        found = diagnosis.finding(check.code)
        missing = [f"  skipped: needs {', '.join(entry['needs'])}" for entry in diagnosis.coverage.skipped]
        typer.echo(
            f"  {found.severity} at step {found.onset_step}: {found.message}"
            if found
            else "\n".join(missing or ["  no finding"])
        )
