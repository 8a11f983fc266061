"""The server under calls that exit, hang, are cancelled, or name forbidden paths; and threads that load the checks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import psutil
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from grpo_doctor.agents.server import AT_ONCE, server
from grpo_doctor.agents.worker import Call, answered
from tests.cli.runs import write_run

ROOT = Path(__file__).parents[1]
T = TypeVar("T")


def over_stdio(use: Callable[[Client], Awaitable[T]], *options: str, cwd: Path = ROOT) -> T:
    """Return the result of ``use`` on a client of a new server."""

    async def served() -> T:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "grpo_doctor", "mcp", *options],
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        async with Client(stdio_client(command)) as client:
            return await use(client)

    return anyio.run(served)


def asked(workspace: Path, time_limit: float, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return what a client in this process gets for successive calls."""

    async def ask() -> list[Any]:
        async with Client(server([workspace], time_limit)) as client:
            return [await client.call_tool(name, words) for name, words in calls]

    return anyio.run(ask)


def assert_one_line(error: str, says: str) -> None:
    assert says in error
    assert error
    assert "\n" not in error


def line_of(result: Any) -> str:
    """The text of a call that failed."""
    assert result.is_error
    (text,) = [content.text for content in result.content]
    return str(text)


def test_eight_threads_load_the_checks_at_once(tmp_path: Path) -> None:
    log = write_run(tmp_path / "a.jsonl", collapsed=True)
    code = (
        "import sys, threading\nfrom concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        "from grpo_doctor.diagnosis.examine import diagnose\nfrom grpo_doctor.readers import read\n"
        "sys.setswitchinterval(1e-5)\nbarrier = threading.Barrier(8)\n"
        "def first(n):\n    run, = read(Path(sys.argv[1]))\n    barrier.wait()\n    return diagnose(run).verdict\n"
        "with ThreadPoolExecutor(8) as pool:\n    print(*pool.map(first, range(8)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["failing"] * 8, done.stderr[-2000:]


def test_a_fresh_server_answers_more_calls_at_once_than_it_runs(tmp_path: Path) -> None:
    log = write_run(tmp_path / "a.jsonl", collapsed=True)

    async def use(client: Client) -> list[Any]:
        results: list[Any] = [None] * (AT_ONCE + 1)

        async def one(place: int) -> None:
            results[place] = await client.call_tool("analyze", {"path": str(log)})

        async with anyio.create_task_group() as group:
            for place in range(AT_ONCE + 1):
                group.start_soon(one, place)
        return results

    results = over_stdio(use, cwd=tmp_path)
    assert [result.is_error for result in results] == [False] * (AT_ONCE + 1)
    assert {result.structured_content["runs"][0]["verdict"] for result in results} == {"failing"}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys\nsys.exit(0)", "raised SystemExit at"),
        ("raise BaseException('left')", "raised BaseException at"),
        ("class Own(BaseException): pass\nraise Own('left')", "raised Own at"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_an_adapter_that_raises_anything_is_one_line(tmp_path: Path, code: str, says: str) -> None:
    (adapter := tmp_path / "adapter.py").write_text(code)
    assert_one_line(answered(Call("probe", {"adapter": str(adapter)}, [str(tmp_path)])).error, says)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os\nos._exit(0)", "ended without an answer (exit code 0)"),
        ("import os\nos.kill(os.getpid(), 11)", "ended without an answer (signal SIGSEGV)"),
        ("import os\nos.write(1, b'{}')\nprint('{}')\ninput()", "raised EOFError at"),
        ("while True: pass", "no answer within 3 s"),
    ],
)
def test_an_adapter_that_leaves_or_hangs_is_one_line_and_the_server_goes_on(
    tmp_path: Path, code: str, says: str
) -> None:
    (adapter := tmp_path / "adapter.py").write_text(code)
    time_limit = 3 if "while True" in code else 300
    first, second = asked(tmp_path, time_limit, ("probe", {"adapter": str(adapter)}), ("explain", {"code": "GEN001"}))
    assert_one_line(line_of(first), says)
    assert second.content[0].text.startswith("## GEN001")


def test_a_cancelled_call_ends_the_process_that_works_on_it_and_what_it_started(tmp_path: Path) -> None:
    adapter, begun = tmp_path / "adapter.py", tmp_path / "begun"
    adapter.write_text(
        "import os, pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time\\nwhile True: time.sleep(1)'])\n"
        f"pathlib.Path({str(begun)!r}).with_suffix('.new').write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(begun) + '.new'!r}, {str(begun)!r})\nwhile True: pass\n"
    )

    async def use(client: Client) -> list[psutil.Process]:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "probe", {"adapter": str(adapter)})
            with anyio.fail_after(60):
                while not begun.exists():
                    await anyio.sleep(0.05)
            processes = [psutil.Process(int(pid)) for pid in begun.read_text().split()]
            group.cancel_scope.cancel()
        with anyio.fail_after(60):
            while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
                await anyio.sleep(0.05)
        assert (await client.call_tool("explain", {"code": "GEN001"})).is_error is False
        return processes

    assert len(over_stdio(use, cwd=tmp_path)) == 2


@pytest.mark.parametrize("name", ["path", "base"])
def test_a_path_outside_the_workspace_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "link").symlink_to("/etc")
    words = {
        "": "'' is not a path",
        " ": "' ' is not a path",
        "\0": "is not a path",
        "~": "~ is not expanded",
        "~/run.jsonl": "~ is not expanded",
        "pipe": "pipe is a pipe, a socket or a device",
        "-": "no such file or folder",
        "nowhere": "no such file or folder",
        "/etc/passwd": "outside the workspace",
        "../x": "outside the workspace",
        "link/passwd": "outside the workspace",
        "a" * 5000: "",
    }
    tool, more = ("analyze", {}) if name == "path" else ("compare", {"new": "pipe"})
    for word, said in words.items():
        assert_one_line(answered(Call(tool, {name: word, **more}, [str(tmp_path)])).error, said)


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"mine": "reward_meen"}, "'reward_meen' is not a record field (did you mean 'reward_mean'?)"),
        ({"nobody": "reward_mean"}, "no log has this key"),
        ({"mine": 3}, "mapping"),
    ],
)
def test_a_mapping_is_checked(tmp_path: Path, mapping: dict[str, Any], says: str) -> None:
    log = write_run(tmp_path / "a.jsonl", collapsed=False)
    (result,) = asked(tmp_path, 60, ("analyze", {"path": str(log), "mapping": mapping}))
    assert result.is_error
    assert says in result.content[0].text


def test_a_folder_may_be_allowed_that_is_outside_the_workspace(tmp_path: Path) -> None:
    log = write_run(tmp_path / "a.jsonl", collapsed=True)
    (empty := tmp_path / "empty").mkdir()
    ask = lambda client: client.call_tool("analyze", {"path": str(log)})
    answer = over_stdio(ask, "--allow", str(tmp_path), cwd=empty)
    assert answer.structured_content["runs"][0]["verdict"] == "failing"


def test_nothing_is_imported_from_the_workspace(tmp_path: Path) -> None:
    log, planted = write_run(tmp_path / "a.jsonl", collapsed=True), tmp_path / "planted"
    for name in ("msgspec", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(planted)!r}, 'w').close()")
    code = (
        "import sys, anyio; from mcp.client import Client; from grpo_doctor.agents.server import server\n"
        "async def ask():\n    async with Client(server()) as client:\n"
        "        return await client.call_tool('analyze', {'path': sys.argv[1]})\n"
        "print(anyio.run(ask).is_error)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(log)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), planted.exists()) == ("False", False), done.stderr[-2000:]
