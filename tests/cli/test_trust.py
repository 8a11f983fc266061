"""Folders of a user's own checks are executed only if the user trusts them, and foreign configuration files are
refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from grpo_doctor import config
from grpo_doctor.cli import app
from grpo_doctor.config import ConfigError
from grpo_doctor.diagnosis.trust import digest, store
from tests.cli.runs import write_run
from tests.test_action import run_action

ROOT = Path(__file__).parents[2]
COMMANDS: list[list[str]] = [
    ["analyze", "a.jsonl"],
    ["gate", "a.jsonl"],
    ["gate", "a.jsonl", "--require", "GRD001"],
    ["compare", "a.jsonl", "a.jsonl"],
    ["fleet", "a.jsonl"],
    ["settings", "train.py"],
    ["watch", "a.jsonl", "--idle", "0.1"],
    ["run", "--steps", "1"],
    ["probe", "adapter.py"],
    ["explain", "GEN001"],
    ["checks"],
    ["checks", "GEN001", "--debug", "a.jsonl"],
]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose checks create a file when they are executed."""
    (mine := tmp_path / "repo" / "mine").mkdir(parents=True)
    (mine / "leaf.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()\n")
    (tmp_path / "repo" / "grpo-doctor.toml").write_text("checks = ['mine']\n")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / "train.py").write_text("args = GRPOConfig(num_generations=8)\n")
    (tmp_path / "repo" / "adapter.py").write_text("")
    write_run(tmp_path / "repo" / "a.jsonl", collapsed=False)
    monkeypatch.chdir(tmp_path / "repo")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GRPO_DOCTOR_TRUST_CHECKS", raising=False)
    return tmp_path / "repo"


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def executed(repository: Path) -> bool:
    return (repository.parent / "canary").exists()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_untrusted_folder_of_checks_is_not_executed_and_named(repository: Path, words: list[str]) -> None:
    done = call(*words)
    assert done.exit_code == 2, done.output
    assert not executed(repository)
    assert f"{repository / 'mine'} holds Python that would be executed, and it is not trusted" in done.output
    assert "grpo-doctor trust" in done.output
    assert "--trust-checks" in done.output


@pytest.mark.parametrize("words", [["checks"], ["analyze", "a.jsonl"]], ids=" ".join)
def test_each_way_to_trust_a_folder_executes_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    assert call(*words, "--trust-checks").exit_code == 0
    assert executed(repository)


def test_the_environment_trusts_and_an_empty_or_false_word_does_not(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("", "0", "false"):
        monkeypatch.setenv("GRPO_DOCTOR_TRUST_CHECKS", word)
        assert call("checks").exit_code == 2
    monkeypatch.setenv("GRPO_DOCTOR_TRUST_CHECKS", "1")
    assert call("checks").exit_code == 0
    assert executed(repository)


def test_a_trusted_folder_is_executed_until_it_changes(repository: Path) -> None:
    done = call("trust", "mine")
    assert (done.exit_code, executed(repository)) == (0, False), "to trust does not execute"
    assert call("checks").exit_code == 0
    assert not (repository / "mine" / "__pycache__").exists()
    (repository / "mine" / "_helper.py").write_text("x = 1\n")
    done = call("checks")
    assert (done.exit_code, "has changed since it was trusted" in done.output) == (2, True)
    assert call("trust", "mine").exit_code == 0
    assert call("checks").exit_code == 0


def test_folders_of_checks_are_loaded_in_no_place_that_does_not_ask_for_trust() -> None:
    """A fleet's worker loads only what the user has already confirmed for the command."""
    code = {p: p.read_text(encoding="utf-8") for p in (ROOT / "grpo_doctor").rglob("*.py")}
    loading = {
        p.relative_to(ROOT).as_posix() for p, text in code.items() if re.search(r"load\((?!\))[^\n]*\.checks\b", text)
    }
    assert loading == {"grpo_doctor/fleet/unit.py"}


def test_a_compiled_file_in_pycache_is_not_executed_in_place_of_its_source(repository: Path) -> None:
    import importlib.util
    import py_compile

    leaf = repository / "mine" / "leaf.py"
    source, before = leaf.read_text(), digest(repository / "mine")
    planted = repository.parent / "planted"
    leaf.write_text(f"open({str(planted)!r}, 'w').close()\n")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(leaf), importlib.util.cache_from_source(str(leaf)), invalidation_mode=unchecked)
    leaf.write_text(source)
    assert digest(repository / "mine") == before
    assert call("checks", "--trust-checks").exit_code == 0
    assert (executed(repository), planted.exists()) == (True, False)


def test_a_link_to_a_folder_is_not_trusted(repository: Path) -> None:
    (repository / "mine" / "more").symlink_to(repository.parent)
    done = call("trust", "mine")
    assert (done.exit_code, "link to a folder" in done.output) == (2, True)


def test_a_damaged_file_of_trusted_folders_is_one_line(repository: Path) -> None:
    store().parent.mkdir(parents=True)
    store().write_text("[1]")
    done = call("checks")
    assert (done.exit_code, str(store()) in done.output) == (2, True)


def test_a_relative_home_does_not_let_the_repository_name_what_is_trusted(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    monkeypatch.setenv("HOME", "here")
    with pytest.raises(ConfigError, match="no home directory"):
        store()


def test_the_search_ends_at_the_root_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository.parent / "grpo-doctor.toml").write_text("checks = ['x']\n")
    (repository / "grpo-doctor.toml").unlink()
    (repository / "deep").mkdir()
    assert config.find(repository / "deep") is None
    (repository / ".git").rmdir()
    assert config.find(repository / "deep") == repository.parent / "grpo-doctor.toml"


def test_the_search_ends_at_the_home_directory(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository.parent / "grpo-doctor.toml").write_text("")
    (repository / "grpo-doctor.toml").unlink()
    (repository / ".git").rmdir()
    monkeypatch.setenv("HOME", str(repository))
    assert config.find(repository) is None


def test_a_configuration_file_of_another_user_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: (repository / "grpo-doctor.toml").stat().st_uid + 1)
    done = call("checks")
    assert done.exit_code == 2
    assert "belongs to another user" in done.output
    assert "--config" in done.output


@pytest.mark.parametrize("text", ["tool = 5\n", "[tool]\ngrpo-doctor = 5\n"])
def test_a_pyproject_with_another_shape_is_not_a_traceback(repository: Path, text: str) -> None:
    (repository / "grpo-doctor.toml").unlink()
    (repository / "pyproject.toml").write_text(text)
    done = call("checks", "update")
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output


def test_the_action_and_the_hook_do_not_trust_what_a_pull_request_brings(repository: Path) -> None:
    ended = run_action(repository, paths="a.jsonl\n", configurations="train.py", package="")
    assert (ended.returncode, executed(repository)) == (2, False)
    assert "is not trusted" in ended.stderr
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert all("trust" not in str(hook) for hook in hooks)
