"""The command line: one command a file. Heavy imports stand inside the functions."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .agent import init, mcp
from .analyze import analyze
from .checks import checks
from .common import BROKEN, plain_errors, report_bug
from .compare import compare
from .convert import convert
from .demo import demo
from .explain import explain
from .fleet import fleet
from .gate import gate
from .lab import lab
from .new_check import new_check
from .preflight import settings
from .probe import new_adapter, probe
from .run import faults, run
from .share import share
from .trust import trust
from .watch import watch

app = typer.Typer(
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Finds out why a GRPO run of a language model collapses, stalls or lies, and says what to change."""
    if version:
        from .. import __version__

        typer.echo(f"grpo-doctor {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


app.command()(demo)
app.command()(analyze)
app.command()(fleet)
app.command()(compare)
app.command()(convert)
app.command()(share)
app.command()(gate)
app.command()(watch)
app.command()(settings)
app.command()(explain)
app.command()(checks)
app.command("new-check")(new_check)
app.command()(trust)
app.command()(run)
app.command()(faults)
app.command()(lab)
app.command()(probe)
app.command("new-adapter")(new_adapter)
app.command()(mcp)
app.command()(init)


def main() -> None:
    """Entry point of ``grpo-doctor``."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever called: what is said goes nowhere, and the exit code tells the rest
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it is open to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        with plain_errors():
            app(with_command(sys.argv[1:]))
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:  # noqa: BLE001 - the last boundary: told as our own error, never as a finding
        report_bug(error, " ".join(sys.argv[1:2]) or "grpo-doctor")
        sys.exit(BROKEN)


def with_command(words: list[str]) -> list[str]:
    """The words of a command line; a path alone, such as ``grpo-doctor run.log``, is one to analyze."""
    known = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    return ["analyze", *words] if words and words[0] not in known and Path(words[0]).exists() else words
