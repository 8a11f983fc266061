"""The command line, with one command per file. Modules that are slow to import are imported inside functions."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup, TyperOption

from .child_process import in_a_child
from .common import BROKEN, WRONG, fail, plain_errors, report_bug

MAIN, TRY, MORE = "Commands", "Try it", "More"


class Command(NamedTuple):
    """A command: its module, its function, and its panel in ``--help``."""

    place: str
    panel: str = MORE
    hidden: bool = False


COMMANDS = {
    "analyze": Command("analyze:analyze", MAIN),
    "watch": Command("watch:watch", MAIN),
    "compare": Command("compare:compare", MAIN),
    "fleet": Command("fleet:fleet", MAIN),
    "preflight": Command("preflight:preflight", MAIN),
    "settings": Command("preflight:preflight", hidden=True),
    "probe": Command("probe:probe", MAIN),
    "gate": Command("gate:gate", MAIN),
    "run": Command("run:run", TRY),
    "demo": Command("demo:demo", TRY),
    "checks": Command("checks:checks"),
    "advisories": Command("advisories:advisories"),
    "convert": Command("convert:convert"),
    "agent": Command("agent:agent"),
    "lab": Command("lab:lab"),
    "trust": Command("trust:trust"),
    "explain": Command("explain:explain", hidden=True),
    "new-check": Command("new_check:new_check", hidden=True),
    "new-adapter": Command("probe:new_adapter", hidden=True),
    "share": Command("share:share", hidden=True),
    "faults": Command("run:faults", hidden=True),
    "mcp": Command("agent:mcp", hidden=True),
    "init": Command("agent:init", hidden=True),
}
"""Every command by name, in the order of ``--help``. Hidden commands are parts or former names of other commands."""

PARTS = {
    ("checks", "explain"): ["explain"],
    ("checks", "new"): ["new-check"],
    ("agent", "mcp"): ["mcp"],
    ("agent", "init"): ["init"],
    ("lab", "faults"): ["faults"],
}
"""Commands of two words, and the hidden command that implements each."""

PANELS = {
    "Input": "map_ set_ run_ model task data engine trl discover init by weights base against probe resume inject",
    "Judgement": "select ignore preview fail_on baseline write_baseline strict require min_steps on kill_after",
    "Output": "output_format output_file report figures gpu_cost full static samples color verbose out db sql notify "
    "keep as_json fields settings fix browser anonymize",
    "Advanced": "config trust_checks seconds megabytes time_limit device jobs ray interval idle heartbeat debug seed "
    "record_every record_tokens skip_others plan",
}
"""The panels of ``--help``, in order, each with the parameter names of its options."""

COLLECT_AT = 100_000
"""Number of new objects after which Python runs a garbage collection. With Python's default number, imports and checks
take a tenth longer."""

PIPE_CLOSED = 128 + 13
"""Exit code if the reader of the output closes the pipe. A process that SIGPIPE ends has the same exit code."""


def spelled(words: list[str]) -> list[str]:
    """Replace a command of two words by the hidden command that implements it."""
    return PARTS[words[0], words[1]] + words[2:] if tuple(words[:2]) in PARTS else words


class Commands(TyperGroup):
    """Shows options in panels, and exits without an error message if the reader of the output closes the pipe, as in
    ``| head``."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        panels = {name: panel for panel, names in PANELS.items() for name in names.split()}
        for parameter in command.params:
            if isinstance(parameter, TyperOption):
                parameter.rich_help_panel = panels.get(parameter.name or "")
        if parts := [" ".join(words) for words in PARTS if words[0] == cmd_name]:
            command.epilog = f"Parts, each with its own --help: {', '.join(f'grpo-doctor {words}' for words in parts)}"
        command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
        order = [None, *PANELS]
        command.params.sort(key=lambda p: order.index(getattr(p, "rich_help_panel", None)))
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, spelled(args))
        return next((" ".join(words) for words, place in PARTS.items() if place == [name]), name), command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            for stream in (sys.stdout, sys.stderr):  # avoids a second failure during the flush at exit
                with suppress(OSError, ValueError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            raise typer.Exit(PIPE_CLOSED) from None


def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Explains why a GRPO run of a language model collapses, stalls or reports misleading metrics, and what to
    change."""
    if version:
        from .. import __version__

        typer.echo(f"grpo-doctor {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def app_of(names: Iterable[str]) -> typer.Typer:
    """Build a command line with these commands, importing only their modules."""
    made = typer.Typer(
        cls=Commands,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(about)
    for name in names:
        command = COMMANDS[name]
        module, _, function = command.place.partition(":")
        found = getattr(import_module(f".{module}", __name__), function)
        made.command(name, rich_help_panel=command.panel, hidden=command.hidden)(found)
    return made


def __getattr__(name: str) -> Any:
    """Build ``app``, the whole command line, on first use."""
    if name != "app":
        raise AttributeError(name)
    globals()["app"] = whole = app_of(COMMANDS)
    return whole


def main() -> None:
    """Run ``grpo-doctor``."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller closed stdout: the output is lost, but the exit code still reports the result
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - stays open until exit
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    gc.set_threshold(COLLECT_AT)
    atexit.register(gc.freeze)  # avoids another garbage collection at exit
    words = with_command(sys.argv[1:])
    if words[:1] != ["probe"] or not hasattr(os, "fork"):
        _run(words)
        return
    report = in_a_child(" ".join(words[:2]))
    try:
        _run(words)
    except SystemExit as stop:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        report(stop.code if isinstance(stop.code, int) else WRONG)
        raise


def _run(words: list[str]) -> None:
    """Run a command line. Raises SystemExit with the exit code of the command."""
    try:
        with plain_errors():
            words = spelled(words)
            _refuse_unknown(words)
            app_of(words[:1] if words and words[0] in COMMANDS else COMMANDS)(words)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:  # noqa: BLE001 - the last boundary: an internal error, never a finding
        report_bug(error, " ".join(words[:1]) or "grpo-doctor")
        sys.exit(BROKEN)


def _refuse_unknown(words: list[str]) -> None:
    """Exit with a one-line error if the first word is not a command. Usually, the word names a log that does not
    exist."""
    if not words or words[0].startswith("-") or words[0] in COMMANDS:
        return
    name = words[0]
    if Path(name).suffix or "/" in name or "\\" in name:
        fail(f"{name}: no such file")
    near = get_close_matches(name, [n for n, c in COMMANDS.items() if c.panel == MAIN and not c.hidden], 1)
    hint = f"did you mean `grpo-doctor {near[0]}`?" if near else "`grpo-doctor --help` lists the commands"
    fail(f"{name}: no such file or command; {hint}")


def with_command(words: list[str]) -> list[str]:
    """Insert ``analyze`` before a path: ``grpo-doctor run.log``."""
    return ["analyze", *words] if words and words[0] not in COMMANDS and Path(words[0]).exists() else words
