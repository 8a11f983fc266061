"""``grpo-doctor share``: writes an anonymised log for an issue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import common


def share(
    log: Annotated[Path, typer.Argument(help="Log file (text).", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Output file.", show_default="LOG.shared")] = None,
) -> None:
    """Write an anonymised copy of a log: keep keys and numbers, remove texts and secrets. Review it before sharing."""
    from ..report.anonymize import shared

    target = out or log.with_name(log.name + ".shared")
    with common.plain_errors():
        try:
            text = log.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            common.fail(f"{log}: not a text file; `grpo-doctor convert {log} records.jsonl` writes its numbers")
        except OSError as error:
            common.fail(f"{log}: cannot be read: {error.strerror}")
        common.refuse_inputs([target], [log])
        common.replace_file(target, shared(text), named=out is not None)
    common.say(f"wrote {target}: keys and numbers of {log}; review it before sharing")
