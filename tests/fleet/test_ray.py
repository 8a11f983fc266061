"""The map over a fleet on a real Ray: a head and two worker processes on this machine. ``make test-hooks`` runs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.config import Config
from grpo_doctor.fleet import workers
from grpo_doctor.fleet.locations import Unit, stamp
from grpo_doctor.fleet.unit import Job, decode, encode, judge
from tests.fleet.sweeps import write_run

pytest.importorskip("ray", reason="ray is not installed; make test-hooks installs it")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A head with two workers, started as on a cluster and stopped by its own process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(sys.executable).parent / "ray"
    program = [str(script)] if script.exists() else [sys.executable, "-m", "ray.scripts.scripts"]
    options = ["--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "disabled")  # Ray 2.59 and later ask clusters of one machine for a token
    head = subprocess.Popen(
        [*program, "start", "--head", "--block", f"--port={port}", *options], stdout=subprocess.DEVNULL
    )
    for _ in range(120):
        with socket.socket() as reached:
            if reached.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.5)
    yield f"127.0.0.1:{port}"
    head.terminate()
    head.wait(60)
    patch.undo()


def dies(unit: Unit, job: Job) -> bytes:
    """A worker that one unit kills every time, and another unit only the first time."""
    mark = Path(unit.name).parent / "met"
    if "always" in unit.name or ("once" in unit.name and not mark.exists()):
        mark.touch()
        os._exit(9)
    return encode(judge(unit, job))


def test_a_fleet_on_ray_is_what_it_is_here(address: str, tmp_path: Path) -> None:
    for number in range(6):
        write_run(tmp_path / f"run{number}", collapsed=number < 2, rng=np.random.default_rng(number), seed=number)
    here = CliRunner().invoke(app, ["fleet", str(tmp_path), "-j", "1", "-f", "json"])
    there = CliRunner().invoke(app, ["fleet", str(tmp_path), "--ray", address, "-f", "json"])
    assert there.exit_code == here.exit_code, there.output
    assert json.loads(there.stdout) == json.loads(here.stdout)


def test_a_worker_of_ray_that_dies_loses_no_run(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("always", "once", "good1", "good2")
    for name in names:
        write_run(tmp_path / name, collapsed=False, rng=np.random.default_rng(0), steps=12)
    monkeypatch.setattr(workers, "work", dies)
    units = [Unit(str(tmp_path / name), [stamp(tmp_path / name / "records.jsonl")], []) for name in names]
    lines = {Path(u.name).name: decode(d).lines for u, d in workers.mapped(units, Job(Config()), ray=address)}
    assert sorted(lines) == sorted(names)
    assert [(line.verdict, line.headline) for line in lines.pop("always")] == [
        ("broken", "the worker that read it died twice: WorkerCrashedError")
    ]
    assert {line.verdict for told in lines.values() for line in told}.isdisjoint({"broken", "unreadable"})


def test_an_address_without_a_cluster_is_one_line(tmp_path: Path) -> None:
    write_run(tmp_path / "run", collapsed=False, rng=np.random.default_rng(0))
    result = CliRunner().invoke(app, ["fleet", str(tmp_path), "--ray", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert "--ray 127.0.0.1:1: no cluster can be reached there" in result.stderr
