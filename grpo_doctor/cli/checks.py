"""``grpo-doctor checks``: the list of checks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from . import common


def checks(
    words: Annotated[list[str] | None, typer.Argument(help="Codes, names or families to list; all by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    fields: Annotated[bool, typer.Option("--fields", help="List the record fields instead.")] = False,
    config: common.ConfigFile = None,
    trust_checks: common.TrustChecks = False,
) -> None:
    """Lists the checks with code, name, severity and what each one says."""
    from rich.console import Console
    from rich.table import Table

    from ..series.derived import MEANINGS

    with common.plain_errors():
        chosen = common.everything(config, trust_checks).select(words or [])
    rows = [
        {"code": c.code, "name": c.name, "family": c.family, "severity": str(c.severity), "title": c.title}
        for c in chosen.checks.values()
    ]
    if fields:
        rows = [{"field": name, "meaning": meaning} for name, meaning in MEANINGS.items()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = Table(*rows[0], box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)
