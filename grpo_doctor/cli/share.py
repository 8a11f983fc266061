"""``grpo-doctor share``: a log that can be attached to an issue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import common


def share(
    log: Annotated[Path, typer.Argument(help="The log; a text file.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where it goes.", show_default="LOG.shared beside it")
    ] = None,
) -> None:
    """Writes a log without its texts: keys and numbers stay, words and secrets go. Read it before you share it."""
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
    common.say(f"{target}: keys and numbers of {log}; read it before you share it")
