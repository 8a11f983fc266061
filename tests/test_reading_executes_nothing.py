"""Files that would execute code if the library that wrote them loaded them, through every command that reads."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from grpo_doctor.cli import app
from tests.cli.runs import write_run


class Touching:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def pickled(path: Path, canary: Path) -> None:
    path.write_bytes(pickle.dumps(Touching(canary)))


def checkpoint(path: Path, canary: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Touching(canary)))


def script(path: Path, canary: Path) -> None:
    path.write_text(
        f"from pathlib import Path\nPath({str(canary)!r}).touch()\nGRPOConfig(num_generations=8, beta=0.04)\n"
    )


def notebook(path: Path, canary: Path) -> None:
    code = f"!touch {canary}\nopen({str(canary)!r}, 'w')\nGRPOConfig(num_generations=8)"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [code], "outputs": []}], "nbformat": 4}))


def tagged(path: Path, canary: Path) -> None:
    path.write_text(f"num_generations: 8\nbeta: !!python/object/apply:os.mkdir [{str(canary)!r}]\n")


def shell(path: Path, canary: Path) -> None:
    path.write_text(
        f"touch {canary}\nLR=$(touch {canary}; echo 1)\ntrl grpo --num_generations 8 --learning_rate $LR `touch {canary}`\n"
    )


def rows(path: Path, canary: Path) -> None:
    code = f"__import__('os').system('touch {canary}')"
    lines = [json.dumps({"step": i, "reward": 0.1, "note": code, code: 1.0}) for i in range(30)]
    path.write_text("\n".join([*lines, f"{{'step': 31, 'reward': {code}}}", "{{" + code + "}}"]))


FILES: dict[str, Callable[[Path, Path], None]] = {
    "run.pkl": pickled,
    "run.jsonl": pickled,
    "model.pt": checkpoint,
    "train.py": script,
    "sitecustomize.py": script,
    "train.ipynb": notebook,
    "config.yaml": tagged,
    "train.sh": shell,
    "log.jsonl": rows,
    "log.txt": rows,
}
READ = (
    ["analyze", "{}"],
    ["gate", "{}"],
    ["convert", "{}", "-"],
    ["share", "{}", "--out", "{}.out"],
    ["preflight", "{}"],
    ["compare", "{}", "{good}"],
    ["fleet", "{folder}"],
    ["probe", "{}", "--discover"],
)


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_executed_by_being_read(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary, folder = tmp_path / "canary", tmp_path / "in"
    folder.mkdir()
    FILES[name](folder / name, canary)
    write_run(folder / "good.jsonl", collapsed=False)
    monkeypatch.chdir(folder)
    for words in READ:
        words = [word.format(folder / name, good=folder / "good.jsonl", folder=folder) for word in words]
        done = CliRunner().invoke(app, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        assert not canary.exists(), words


def test_the_canaries_would_have_been_set_off(tmp_path: Path) -> None:
    pickled(tmp_path / "a", tmp_path / "canary")
    pickle.loads((tmp_path / "a").read_bytes())
    assert (tmp_path / "canary").exists()
    tagged(tmp_path / "b", tmp_path / "other")
    yaml.unsafe_load((tmp_path / "b").read_text())
    assert (tmp_path / "other").exists()
