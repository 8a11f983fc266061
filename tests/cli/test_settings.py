"""Declared settings of configurations: found in every syntax, with their lines; what was not read is reported."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app

YAML = "model_name_or_path: Qwen/Qwen2.5-7B\n# GRPO\nnum_generations: 1\ntemperature: 1.0\nper_device_train_batch_size: 8\n"
TOML = (
    '[trainer]\nmodel_name_or_path = "Qwen/Qwen2.5-7B"\nnum_generations = 1\ntemperature = 1.0\n'
    "per_device_train_batch_size = 8\n"
)
JSON = '{\n "trainer": {\n  "num_generations": 1,\n  "per_device_train_batch_size": 8\n }\n}\n'
PYTHON = "from trl import GRPOConfig\nargs = GRPOConfig(\n    num_generations=1, temperature=0.1, beta=5.0)\n"
SHELL = "K=1\ntrl grpo --model_name_or_path Qwen/Qwen2.5-7B \\\n  --num_generations $K\n"
NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": ["!pip install trl\n", *PYTHON.splitlines(True)]}]})


def settings(*words: object) -> Result:
    return CliRunner().invoke(app, ["preflight", *map(str, words)])


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.yaml", YAML, 3),
        ("a.toml", TOML, 3),
        ("a.json", JSON, 3),
        ("a.py", PYTHON, 3),
        ("a.sh", SHELL, 3),
        ("a.ipynb", NOTEBOOK, 4),
    ],
)
def test_a_finding_points_at_its_setting(tmp_path: Path, name: str, text: str, line: int) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    result = settings(path, "--report", f"sarif={tmp_path / 'out.sarif'}")
    assert result.exit_code == 1
    told = next(told for told in result.stdout.splitlines() if "CFG013" in told)
    assert told.startswith(f"{path}:{line}: CFG013 group-of-one (error) ")
    assert "num_generations: TRL refuses to start with a group size of 1" in told
    sarif = json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8"))
    results = {r["ruleId"]: r for r in sarif["runs"][0]["results"]}
    assert results["CFG013"]["level"] == "error"
    assert results["CFG013"]["locations"][0]["physicalLocation"]["region"] == {"startLine": line}


def test_every_error_of_a_script_is_reported(tmp_path: Path) -> None:
    (path := tmp_path / "train.py").write_text(PYTHON)
    codes = {line.split()[1] for line in settings(path).stdout.splitlines() if ": CFG" in line}
    assert codes >= {"CFG013", "CFG003", "CFG004"}


def test_names_of_verl_are_known(tmp_path: Path) -> None:
    (path := tmp_path / "verl.yaml").write_text("actor_rollout_ref:\n  rollout:\n    n: 8\n    temperature: 0.2\n")
    assert f"{path}:4: CFG004" in settings(path).stdout


def test_the_arithmetic_is_always_printed(tmp_path: Path) -> None:
    (path := tmp_path / "run.sh").write_text(
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\\n"
        "  actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=8 trainer.total_training_steps=100\n"
    )
    result = settings(path)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for said in (
        "prompts per rollout 256",
        "responses per rollout 2,048",
        "updates per rollout 4 (the first is on-policy, the others are off-policy)",
        "prompts per update 64",
        "steps in total 100",
        "prompts in total 25,600",
    ):
        assert said in lines, result.stdout
    assert (result.exit_code, "Read 5 settings of verl" in result.stdout) == (0, True)


def test_unread_parts_are_named(tmp_path: Path) -> None:
    (path := tmp_path / "run.py").write_text(
        "from trl import GRPOConfig\nGRPOConfig(num_generations=8, learning_rate=rate(), num_generation=4, beta=0.0)\n"
    )
    told = settings(path).stdout
    assert "could not be resolved: learning_rate = rate()" in told
    assert (
        f"{path}:2: CFG015 unknown-setting (error) num_generation: GRPOConfig has never accepted num_generation" in told
    )
    assert "did you mean num_generations?" in told
    assert "unknown settings; declare those that you know: --set" in told
    assert "checks skipped because of missing settings:" in settings(path, "--verbose").stdout


def test_a_configuration_of_something_else_is_not_a_pass(tmp_path: Path) -> None:
    (path := tmp_path / "compose.yaml").write_text("services:\n  web:\n    image: nginx\n")
    result = settings(path)
    assert (result.exit_code, "No reinforcement learning settings found" in result.stdout) == (3, True)
    assert settings(path, "--skip-others").exit_code == 0


def test_a_folder_shows_what_configures_a_training_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services:\n  web:\n    image: nginx\n")
    (environment := tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (environment / "trl.yaml").write_text(YAML)
    result = settings(tmp_path)
    assert (result.exit_code, result.stdout) == (
        3, f"{tmp_path}: 1 other file without reinforcement learning settings\n"
    )  # fmt: skip
    (tmp_path / "grpo.yaml").write_text(YAML)
    result = settings(tmp_path)
    assert (result.exit_code, "compose.yaml" in result.stdout) == (1, False)
    assert f"{tmp_path / 'grpo.yaml'}:3: CFG013" in result.stdout
    assert result.stdout.endswith(f"{tmp_path}: 1 other file without reinforcement learning settings\n")


def test_supervised_training_is_distinguished(tmp_path: Path) -> None:
    (path := tmp_path / "sft.py").write_text("from trl import SFTConfig\nSFTConfig(learning_rate=1e-3, max_steps=5)\n")
    result = settings(path)
    assert (result.exit_code, "of supervised training" in result.stdout) == (3, True)


def test_fail_on(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text("num_generations: 8\nbeta: 0.5\nmax_completion_length: 512\n")
    assert settings(path).exit_code == 0
    assert settings(path, "--fail-on", "warning").exit_code == 1
    assert settings(path, "--fail-on", "warning", "--ignore", "CFG003").exit_code == 0
    assert "<failure" not in settings(path, "-f", "junit").stdout
    assert "<failure" in settings(path, "-f", "junit", "--fail-on", "warning").stdout


def test_fix_renames_what_was_renamed(tmp_path: Path) -> None:
    (path := tmp_path / "a.py").write_text(
        "from trl import GRPOConfig\nGRPOConfig(num_generations=8, use_liger_loss=True)\n"
    )
    told = settings(path, "--fix").stdout
    assert "-GRPOConfig(num_generations=8, use_liger_loss=True)" in told
    assert "+GRPOConfig(num_generations=8, use_liger_kernel=True)" in told


def test_a_folder_is_every_configuration_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(YAML)
    (tmp_path / "b.sh").write_text("echo nothing\n")
    (tmp_path / "notes.txt").write_text("nothing")
    result = settings(tmp_path)
    assert result.exit_code == 1
    assert "a.yaml: Read" in result.stdout
    assert result.stdout.endswith(f"{tmp_path}: 1 other file without reinforcement learning settings\n")


@pytest.mark.parametrize("name", ["json", "markdown", "html", "sarif"])
def test_the_projects_reports_take_configurations(tmp_path: Path, name: str) -> None:
    (path := tmp_path / "a.yaml").write_text(YAML)
    result = settings(path, "-f", name)
    assert (result.exit_code, "CFG013" in result.stdout) == (1, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "a: [b"),
        ("a.json", "{"),
        ("a.toml", "= 1"),
        ("c.json", "[" * 99_999),
        ("c.yaml", "[" * 99_999),
        ("a.py", "GRPOConfig(num_generations="),
        ("b.py", "(" * 99_999),
        ("a.ipynb", "{}"),
        ("b.ipynb", '{"cells": [1]}'),
        ("a.sh", "\0\0\0"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    result = settings(path)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


def test_one_broken_file_does_not_affect_others(tmp_path: Path) -> None:
    (broken := tmp_path / "a.yaml").write_text("a: [b")
    (right := tmp_path / "b.yaml").write_text("num_generations: 8\nmax_completion_length: 512\n")
    result = settings(broken, right)
    assert (result.exit_code, "b.yaml: Read 2 settings of TRL" in result.output) == (2, True)


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))
    (path := tmp_path / "bomb.yaml").write_text(f"a0: &a0 {{b: 1}}\n{levels}\n")
    result = settings(path)
    assert result.exit_code == 2
    assert "more than 10000 settings" in result.output


def test_nothing_in_yaml_is_built(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (path := tmp_path / "b.yaml").write_text(
        f"num_generations: !!python/object/apply:os.mkdir ['{marker}']\nbeta: 0.1\n"
    )
    assert settings(path).exit_code in (0, 3)
    assert not marker.exists()


def test_nothing_in_a_script_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "a.sh").write_text(f"K=$(touch {marker})\ntrl grpo --num_generations $K --beta `touch {marker}`\n")
    (tmp_path / "a.py").write_text(
        f"open({str(marker)!r}, 'w')\nGRPOConfig(num_generations=open({str(marker)!r}, 'w'))\n"
    )
    settings(tmp_path)
    assert not marker.exists()


def test_the_hook_names_a_command_that_is_there() -> None:
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    hook = next(hook for hook in hooks if hook["id"] == "grpo-doctor-preflight")
    program, command, *options = hook["entry"].split()
    assert (program, options) == ("grpo-doctor", ["--skip-others"])
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
    assert {"yaml", "toml", "json", "shell", "python", "jupyter"} == set(hook["types_or"])


def test_settings_is_the_former_name_of_the_command_and_config_of_the_family(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text(YAML)
    former = CliRunner().invoke(app, ["settings", str(path), "--select", "config"])
    assert former.stdout == settings(path).stdout
    assert former.exit_code == 1


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("python train.py --num_generations 8 --beta 0.04\n", "(num_generations, line 1)"),
        ("beta: 0.04\nnum_generations: 8\n", "(num_generations, line 2)"),
        ('{"num_generations": 8, "beta": 0.04}', "(num_generations, line 1)"),
    ],
)
def test_reads_a_command_or_a_document_from_standard_input(text: str, setting: str) -> None:
    result = CliRunner().invoke(app, ["preflight", "-"], input=text)
    assert (result.exit_code, setting in result.output) == (0, True), result.output
    nothing = CliRunner().invoke(app, ["preflight", "-"], input="nothing: [")
    assert (nothing.exit_code, "No reinforcement learning settings found" in nothing.output) == (3, True)


def test_a_declared_setting_decides_what_the_file_leaves_open(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text(
        "num_generations: 8\nbeta: 0.0\nper_device_train_batch_size: 4\nmax_completion_length: 512\n"
    )
    assert settings(path).exit_code == 0
    told = settings(path, "--set", "gpus=3")
    assert (told.exit_code, "CFG017" in told.stdout) == (1, True)
    assert settings(path, "--set", "gpus=4").exit_code == 0
    wrong = settings(path, "--set", "gpu=4")
    assert (wrong.exit_code, "did you mean gpus?" in wrong.stderr) == (2, True)


def test_evidence_is_listed_on_request(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text(YAML)
    assert "evidence for" not in settings(path).stdout
    told = settings(path, "--verbose").stdout
    assert "evidence for TRL: key num_generations (1)" in told
    assert "evidence for rl: a group (8)" in told


def test_a_report_file_is_written_and_nothing_to_fix_is_reported(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text(YAML)
    settings(path, "-f", "json", "-o", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())
    assert settings(path, "-o", tmp_path / "out.txt").exit_code == 2
    assert "nothing to fix automatically" in settings(path, "--fix").stderr


def test_the_settings_that_decide_are_shown_with_key_and_line(tmp_path: Path) -> None:
    (path := tmp_path / "a.yaml").write_text(YAML)
    lines = [" ".join(line.split()) for line in settings(path).stdout.splitlines()]
    assert "responses per prompt 1 (num_generations, line 3)" in lines
    assert not any(" ? " in line for line in lines)


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        (
            "num_generations: 8\nbeta: 0.0\nmax_completion_lenght: 256\n",
            "max_completion_lenght",
            "max_completion_length",
        ),
        (
            "algorithm:\n  adv_estimator: grpo\ndata:\n  max_prompt_lenght: 512\nactor_rollout_ref:\n  rollout:\n    n: 8\n",
            "data.max_prompt_lenght",
            "data.max_prompt_length",
        ),
    ],
    ids=["TRL", "verl"],
)
def test_names_and_renames_a_typing_error_in_yaml(tmp_path: Path, text: str, wrong: str, right: str) -> None:
    (path := tmp_path / "run.yaml").write_text(text)
    told = settings(path).stdout
    assert f"CFG015 unknown-setting (warning) {wrong}: Probably misspelled: {wrong} (did you mean {right}?)." in told
    assert f"+{' ' * 2 * right.count('.')}{right.rpartition('.')[2]}: " in settings(path, "--fix").stdout


@pytest.mark.parametrize("key", ["max_completion_budget", "max_prompt_length_eval", "our_settings"])
def test_does_not_report_a_key_of_another_program(tmp_path: Path, key: str) -> None:
    (path := tmp_path / "run.yaml").write_text(f"num_generations: 8\nbeta: 0.0\n{key}: 256\n")
    assert "CFG015" not in settings(path).stdout
