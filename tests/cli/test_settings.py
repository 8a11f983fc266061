"""Declared settings of configurations: found in any of three syntaxes, pointed at by line, harmless files pass."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app

YAML = "model_name_or_path: Qwen/Qwen2.5-7B\n# GRPO\nnum_generations: 1\ntemperature: 1.0\n"
TOML = '[trainer]\nmodel_name_or_path = "Qwen/Qwen2.5-7B"\nnum_generations = 1\ntemperature = 1.0\n'
JSON = '{\n "trainer": {\n  "num_generations": 1,\n  "temperature": 1.0\n }\n}\n'


def settings(*words: object) -> Result:
    return CliRunner().invoke(app, ["settings", *map(str, words)])


@pytest.mark.parametrize(("name", "text"), [("a.yaml", YAML), ("a.toml", TOML), ("a.json", JSON)])
def test_a_finding_points_at_its_setting(tmp_path: Path, name: str, text: str) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    result = settings(path, "--report", f"sarif={tmp_path / 'out.sarif'}")
    assert result.exit_code == 1
    assert f"{path}:3: CFG001 group-size-out-of-range" in result.stdout
    assert "CFG004" not in result.stdout
    sarif = json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8"))
    regions = {r["ruleId"]: r["locations"][0]["physicalLocation"]["region"] for r in sarif["runs"][0]["results"]}
    assert regions["CFG001"] == {"startLine": 3}


def test_names_of_verl_are_known(tmp_path: Path) -> None:
    (path := tmp_path / "verl.yaml").write_text("actor_rollout_ref:\n  rollout:\n    n: 1\n    temperature: 0.2\n")
    lines = settings(path).stdout.splitlines()
    assert {line.split()[1]: line.split(":")[-3] for line in lines if "CFG" in line}.items() >= {("CFG004", "4")}


def test_a_configuration_of_something_else_passes(tmp_path: Path) -> None:
    (path := tmp_path / "compose.yaml").write_text("services:\n  web:\n    image: nginx\n")
    result = settings(path)
    assert (result.exit_code, result.stdout) == (0, "")


def test_fail_on(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text("num_generations: 2\n")
    assert settings(path).exit_code == 1
    assert settings(path, "--fail-on", "critical").exit_code == 0
    assert settings(path, "--ignore", "CFG001").exit_code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "a: [b"),
        ("a.json", "{"),
        ("a.toml", "= 1"),
        ("b.yaml", "a: !!python/object:os.system x"),
        ("c.json", "[" * 99_999),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    result = settings(path)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))
    (path := tmp_path / "bomb.yaml").write_text(f"a0: &a0 [1]\n{levels}\n")
    result = settings(path)
    assert result.exit_code == 2
    assert "more than 10000 settings" in result.output


def test_the_hook_names_a_command_that_is_there() -> None:
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (hook,) = hooks
    program, command = hook["entry"].split()
    assert program == "grpo-doctor"
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
