"""``grpo-doctor agent``: a server and a skill file for coding agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..extras import install
from ..report.redaction import one_line
from . import common

SKILL = Path(__file__).parents[1] / "agents" / "SKILL.md"


SKILLS = {".claude": ".claude/skills", ".github/copilot-instructions.md": ".github/skills", ".agents": ".agents/skills"}
"""Skill folder of each coding agent, by the folder whose presence shows that the agent is in use."""


def agent(context: typer.Context) -> None:
    """For coding agents: `agent mcp` serves grpo-doctor over MCP, and `agent init` writes a skill file."""
    typer.echo(context.get_help())


def mcp(
    allow: Annotated[
        list[Path] | None,
        typer.Option("--allow", help="Additional folder that calls may read; repeatable."),
    ] = None,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Time limit per call, in seconds.", min=1)] = 300.0,
) -> None:
    """Serves analyze, preflight, compare, explain and probe to coding agents over the Model Context Protocol.

    The server uses standard input and output. Calls may read files in the current folder and in the folders of --allow.
    Each call runs in a separate process. Needs the extra mcp.
    """
    try:
        from ..agents.server import server
    except ModuleNotFoundError as error:
        common.fail(f"{error.name} is not installed; {install('mcp')}")
    for folder in allow or []:
        if not folder.is_dir():
            common.fail(f"--allow {folder}: not a folder")
    server(allow or [], time_limit).run("stdio")


def init(
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Folder of skills.", show_default="that of the agent in use, or .agents/skills"),
    ] = None,
    force: common.Force = False,
) -> None:
    """Writes a skill file that teaches coding agents to use grpo-doctor."""
    used = next((place for sign, place in SKILLS.items() if Path(sign).exists()), ".agents/skills")
    target = (folder or Path(used)) / "grpo-doctor" / "SKILL.md"
    text = SKILL.read_text(encoding="utf-8")
    with common.plain_errors():
        common.replace_file(target, text) if force else common.new_file(target, text, "--force overwrites it")
    typer.echo(one_line(f"wrote {target}; agents that read skills will use grpo-doctor to diagnose runs"))
