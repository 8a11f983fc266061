"""The answers over the Model Context Protocol, on standard input and output. Needs the extra ``mcp``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from .. import __version__
from ..probes import AdapterError
from ..report.redaction import one_line
from . import answers

INSTRUCTIONS = """Finds out why a GRPO or RLHF run of a language model collapses, stalls or lies. Ask `analyze` with the
log (or `settings` with the launch script) before changing anything; tell the user `what_happened`, the cause and its
first remedy, and whatever is listed under `do_not`. `healthy` is shown, `unproven` means that nothing shows learning.
Paths are local; nothing is written, and only `probe` executes code of the user's."""


def _plainly(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with bad input as one line, and with what it prints on standard error: output is the protocol's."""

    @wraps(answer)
    def asked(*words: Any, **named: Any) -> Any:
        try:
            with redirect_stdout(sys.stderr):
                return answer(*words, **named)
        except (ValueError, OSError, AdapterError) as error:
            raise ToolError(one_line(str(error))) from None

    return asked


def server() -> MCPServer:
    """A server with one tool for each answer."""
    served = MCPServer("grpo-doctor", version=__version__, instructions=INSTRUCTIONS)
    for answer in (answers.analyze, answers.settings, answers.compare, answers.explain, answers.probe):
        reads_only = answer is not answers.probe
        served.tool(annotations=ToolAnnotations(read_only_hint=reads_only))(_plainly(answer))
    return served
