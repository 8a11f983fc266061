"""MCP server on standard input and output. Needs the extra ``mcp``.

Every call runs in a separate process (see `worker`), which ends with the call, its time limit or its cancellation.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import msgspec
from anyio.abc import Process
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from .. import __version__
from . import answers
from .worker import Answer, Call

TIME_LIMIT = 300.0
"""Time limit per call, in seconds."""
AT_ONCE = 4
"""Maximum number of parallel calls."""

INSTRUCTIONS = """Explains why a GRPO or RLHF run of a language model collapses, stalls or reports misleading metrics.
Call `analyze` with the log (or `preflight` with the launch script) before you change anything. Report `what_happened`,
the cause with its first remedy, and everything under `do_not`. `healthy` means that there is evidence of learning;
`unproven` means that no problem was found but there is no such evidence. Paths must be in the workspace. Nothing is
written, and only `probe` executes user code."""


def server(folders: Sequence[Path] = (), time_limit: float = TIME_LIMIT) -> MCPServer:
    """Return a server with one tool per kind of answer. Its calls may read files in the current folder and in
    ``folders``."""
    served = MCPServer("grpo-doctor", version=__version__, instructions=INSTRUCTIONS)
    allowed = [str(folder.resolve()) for folder in (Path.cwd(), *folders)]
    at_once = anyio.Semaphore(AT_ONCE)

    def tool(answer: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(answer)
        async def asked(**arguments: Any) -> Any:
            async with at_once:
                return await _result(Call(answer.__name__, arguments, allowed), time_limit)

        return asked

    for answer in (answers.analyze, answers.preflight, answers.compare, answers.explain, answers.probe):
        reads_only = answer is not answers.probe
        served.tool(annotations=ToolAnnotations(read_only_hint=reads_only))(tool(answer))
    return served


async def _result(call: Call, time_limit: float) -> Any:
    """Run a call in a separate process. Raises `ToolError` with one line."""
    begin = f"import sys; sys.path[:] = {sys.path!r}; from grpo_doctor.agents.worker import main; main()"
    command = [sys.executable, "-P", "-c", begin]  # -P: no import from the analysed workspace
    process = await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=None, start_new_session=True)
    try:
        with anyio.fail_after(time_limit):
            written = await _exchange(process, msgspec.json.encode(call) + b"\n")
            if not written.endswith(b"\n"):
                code = await process.wait()
    except TimeoutError:
        raise ToolError(f"{call.name}: no answer within {time_limit:g} s; the call was stopped") from None
    finally:
        _end(process)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    if not written.endswith(b"\n"):
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise ToolError(f"{call.name}: the worker process ended without an answer ({how})")
    answer = msgspec.json.decode(written, type=Answer)
    if answer.error:
        raise ToolError(answer.error)
    return answer.result


async def _exchange(process: Process, call: bytes) -> bytes:
    """Send the call; return the answer line, which is incomplete if the process ended early."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(anyio.BrokenResourceError):  # the process ended early: its exit code shows why
        await process.stdin.send(call)
    written = b""
    async for chunk in process.stdout:
        written += chunk
        if written.endswith(b"\n"):
            break
    return written


def _end(process: Process) -> None:
    """Kill the process and its children if they are still running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
