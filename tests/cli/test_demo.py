"""``grpo-doctor demo``, and a path in place of a command."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app, with_command


def test_the_bundled_run_is_diagnosed_and_its_report_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo.html")])
    assert done.exit_code == 0, done.output
    assert "FAILING" in done.stdout
    assert "GEN001" in done.stdout
    assert opened == [(tmp_path / "demo.html").as_uri()]
    assert "The HTML report shows evidence" in " ".join(done.stdout.split())
    assert "generation-in-train-mode" in (tmp_path / "demo.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = CliRunner().invoke(app, ["demo", "--no-browser", "--out", str(tmp_path / "file" / "demo.html")])
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


def test_a_path_alone_is_one_to_analyze(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text("x", encoding="utf-8")
    (tmp_path / "gate").mkdir()
    assert with_command(["run.log", "--verbose"]) == ["analyze", "run.log", "--verbose"]
    assert with_command(["gate", "run.log"]) == ["gate", "run.log"]
    assert with_command(["missing.log"]) == ["missing.log"]
    assert with_command([]) == []
