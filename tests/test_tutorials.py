"""The tutorials of the site and of CONTRIBUTING work as printed: in an empty folder, from the wheel."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.children import ended

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
TUTORIALS = {part.split("\n", 1)[0]: part.split("\n## ")[0] for part in PAGE.split("\n## Tutorial: ")[1:]}
TUTORIALS |= {page.stem: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/tutorials").glob("*.md"))}
MODULES = {"grpo-doctor": "grpo_doctor", "pytest": "pytest", "pip": "pip"}
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, which comes before the checkout on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def steps(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Files to write, and commands with the lines that their output contains."""
    for kind, file, body in BLOCK.findall(text):
        if file:
            yield "file", file, [body]
        elif kind == "console":
            for command in body.split("$ ")[1:]:
                line, *expected = command.strip("\n").split("\n")
                yield "command", line, expected


def ran(program: str, *words: str) -> None:
    """Run a program as Python does that starts with this PYTHONPATH: what is loaded of the checkout is loaded again."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "grpo_doctor"]:
        del sys.modules[name]
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    if program == "python":
        sys.argv, sys.path[:0] = [*words], [os.getcwd()]
        runpy.run_path(words[0], run_name="__main__")
    else:
        sys.argv = [program, *words]
        runpy.run_module(MODULES[program], run_name="__main__", alter_sys=True)


def run_as_printed(text: str, folder: Path, wheel: Path) -> int:
    """Write the files and run the commands of a page in a folder, compare what they print with the page; return the
    number of commands."""
    own = {
        "PYTHONPATH": os.pathsep.join((str(wheel), str(folder / "installed"))),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "COLUMNS": "200",
        "BROWSER": "true",
    }
    commands = 0
    for kind, what, lines in steps(text):
        if kind == "file":
            (folder / what).parent.mkdir(parents=True, exist_ok=True)
            (folder / what).write_text(lines[0], encoding="utf-8")
            continue
        program, *words = shlex.split(what, comments=True)
        commands += 1
        if program == "pip" and (folder / "installed").exists():
            continue  # the same again: extras are dependencies
        if program == "pip":  # into the folder of this test, without the network
            words += ["--no-deps", "--no-build-isolation", "--target", "installed", "--upgrade"]
        done = ended(ran, [program, *words], folder, own)
        shown = " ".join((done.stdout + done.stderr).split())
        assert "Traceback" not in shown, shown
        assert lines or done.returncode in (0, 1, 3), f"{what}: {shown}"
        printed = [" ".join(line.removesuffix("...").split()) for line in lines]
        assert [line for line in printed if line not in shown] == [], shown
    return commands


def test_page_has_the_tutorials() -> None:
    assert len(TUTORIALS) == 7
    assert all(any(kind == "command" for kind, _, _ in steps(text)) for text in TUTORIALS.values())


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial_works_as_printed(tmp_path: Path, wheel: Path, name: str) -> None:
    assert run_as_printed(TUTORIALS[name], tmp_path, wheel)


def test_readme_works_as_printed(tmp_path: Path, wheel: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed; probes need it")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for entry in ROOT.iterdir():
        if not entry.name.startswith("."):
            (checkout / entry.name).symlink_to(entry)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert run_as_printed(readme, checkout, wheel) == readme.count("\n$ ")


def test_the_wheel_lacks_the_lab_and_the_command_names_its_place(tmp_path: Path, wheel: Path) -> None:
    pytest.importorskip("torch")
    done = ended(ran, ["grpo-doctor", "lab"], tmp_path, {"PYTHONPATH": str(wheel)})
    assert done.returncode == 2
    assert "the lab is not in the wheel; in a checkout: pip install -e '.[train]'" in done.stderr
