"""What CI, the release and the action install and may do: pinned, hashed, and with minimal permissions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS: dict[str, dict[str, Any]] = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")
}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]
PINNED = re.compile(r"^([A-Za-z0-9_.\-]+)==(\S+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / name).read_text(encoding="utf-8")))


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_hashed_file_holds_the_core_and_its_build_at_the_constrained_versions() -> None:
    hashed, known = pins("constraints-hashes.txt"), pins("constraints.txt")
    needed = project()["project"]["dependencies"] + project()["build-system"]["requires"]
    names = {re.split(r"[<>=!~ ]", requirement)[0] for requirement in needed}
    assert names <= hashed.keys()
    assert {name: hashed[name] for name in names} == {name: known[name] for name in names}


def test_each_pin_has_a_hash_and_torch_is_not_among_them() -> None:
    text = (ROOT / "constraints-hashes.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^\S+==\S+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    assert len(entries) == len(pins("constraints-hashes.txt")) > 15
    assert "torch" not in pins("constraints-hashes.txt")


def test_the_action_installs_itself_from_hashes() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    script = action["runs"]["steps"][0]["run"]
    assert '--require-hashes --requirement "$GITHUB_ACTION_PATH/constraints-hashes.txt"' in script
    assert "--no-deps --no-build-isolation" in script


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_no_rights_but_those_of_its_jobs(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {}


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_job_states_its_rights_and_pins_what_it_uses(name: str, job: str) -> None:
    found = WORKFLOWS[name]["jobs"][job]
    writes = {right for right, kind in found["permissions"].items() if kind == "write"}
    assert writes <= {("release.yml", "publish"): {"id-token"}, ("smoke-run.yml", "smoke"): {"security-events"}}.get(
        (name, job), set()
    )
    for step in found["steps"]:
        used = step.get("uses", "./")
        assert used == "./" or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used)
        if used.startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_zizmor_finds_nothing_in_the_workflows() -> None:
    command = Path(sys.executable).with_name("zizmor")
    if not command.exists():
        pytest.skip("zizmor is not installed for this Python")
    words = [str(command), "--offline", "--format", "json", ".github/workflows", "action.yml"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == []


def test_a_package_without_a_licence_field_is_named() -> None:
    pytest.importorskip("piplicenses", reason="pip-licenses is not installed")
    words = [sys.executable, "-m", "piplicenses", "--from=mixed", "--format=json"]
    listed = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    unknown = {package["Name"] for package in listed if package["License"] == "UNKNOWN"}
    trust = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    assert {name for name in unknown if f"`{name}`" not in trust} == set()
