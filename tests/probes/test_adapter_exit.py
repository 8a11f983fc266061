"""An adapter that ends the process does not determine the exit code of `probe`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.children import begun

GOOD = """
import torch
from grpo_doctor.probes import Adapter

def advantages(rewards, group_size=None):
    {body}
    return rewards - rewards.mean(-1, keepdim=True)

adapter = Adapter(seams={{"advantages": advantages}})
"""
ON_EXIT = "import atexit, os\natexit.register(os._exit, {code})\n"


class Done(NamedTuple):
    """Exit code and output of a command."""

    returncode: int | None
    stdout: str
    stderr: str


def probe(path: Path, text: str) -> Done:
    """Return what `probe` on an adapter with this text does; only a separate interpreter runs `atexit` hooks."""
    path.write_text(text, encoding="utf-8")
    words = ["probe", str(path), "--select", "ADV006"]
    if "atexit" in text:
        command = [sys.executable, "-m", "grpo_doctor", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        return Done(done.returncode, done.stdout, done.stderr)
    out, err = path.with_suffix(".out"), path.with_suffix(".err")
    out.touch()
    process = begun(*words, folder=path.parent, place=str(out), errors=err)
    process.join(240)
    return Done(process.exitcode, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import os\nos._exit(0)\n", 3, "ended the process (exit code 0) before the checks finished"),
        (GOOD.format(body="import os; os._exit(0)"), 3, "ended the process (exit code 0)"),
        (GOOD.format(body="import os; os.kill(os.getpid(), 11)"), 3, "ended the process (signal SIGSEGV)"),
        (ON_EXIT.format(code=0) + "raise ValueError('no')\n", 2, "raised ValueError at "),
        ("raise GeneratorExit\n", 2, "raised GeneratorExit"),
        ("class Own(BaseException): pass\nraise Own('x')\n", 2, "raised Own at "),
        ("import os\nos.closerange(3, 256)\nos._exit(0)\n", 3, "ended the process"),
    ],
)
def test_adapter_that_ends_the_process_is_not_judged(tmp_path: Path, text: str, code: int, said: str) -> None:
    done = probe(tmp_path / "adapter.py", text)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_exit_code_and_report_pass_through_the_child(tmp_path: Path) -> None:
    done = probe(tmp_path / "adapter.py", GOOD.format(body="pass"))
    assert done.returncode in (0, 1, 3)
    assert "adapter" in done.stdout
    later = GOOD.format(body="pass") + ON_EXIT.format(code=7)
    assert probe(tmp_path / "adapter.py", later).returncode == done.returncode


@pytest.mark.parametrize("body", ["raise GeneratorExit", "raise BaseException('mine')"])
def test_base_exception_of_an_entry_point_is_reported(tmp_path: Path, body: str) -> None:
    done = probe(tmp_path / "adapter.py", GOOD.format(body=body))
    assert done.returncode == 3
    assert body.split()[1].split("(")[0] in done.stdout


@pytest.mark.timeout(120)
def test_terminated_probe_ends_its_child(tmp_path: Path) -> None:
    (path := tmp_path / "adapter.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + ' ')\ntime.sleep(100)\n"
    )
    running = begun("probe", str(path), folder=tmp_path)
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text().endswith(" ")):
        time.sleep(0.05)
    assert running.pid is not None
    os.kill(running.pid, signal.SIGTERM)
    running.join(30)
    assert running.exitcode == 128 + signal.SIGTERM
    assert not Path("/proc", pid.read_text().strip()).exists()
