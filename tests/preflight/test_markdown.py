"""Configurations in the comment of an issue: a block in each language, without a language, inline, and text without a
configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.preflight.configuration import Configuration
from grpo_doctor.preflight.reading import read

KEYS = {"num_generations": 6, "learning_rate": 3e-6, "beta": 0.02}
AS_YAML = "".join(f"{key}: {value}\n" for key, value in KEYS.items())
AS_TOML = "".join(f"{key} = {value}\n" for key, value in KEYS.items())
AS_CALL = "args = GRPOConfig(\n" + "".join(f"    {key}={value},\n" for key, value in KEYS.items()) + ")\n"
AS_FLAGS = "trl grpo \\\n" + " \\\n".join(f"  --{key} {value}" for key, value in KEYS.items()) + "\n"


def found_in(folder: Path, text: str) -> Configuration:
    (path := folder / "comment.md").write_text(text, encoding="utf-8")
    return read(path)[0]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("yaml", AS_YAML),
        ("", AS_YAML),
        ("text", AS_YAML),
        ("toml", AS_TOML),
        ("", AS_TOML),
        ("python", AS_CALL),
        ("", AS_CALL),
        ("bash", AS_FLAGS),
        ("", AS_FLAGS),
    ],
)
def test_a_block_is_read(tmp_path: Path, language: str, code: str) -> None:
    told = f"It diverges, why?\n\n<details>\n\n```{language}\n{code}```\n\n</details>\nThanks: a lot.\n"
    found = found_in(tmp_path, told)
    settings = found.settings
    assert (settings["group_size"], settings["learning_rate"], settings["kl_coef"]) == (6, 3e-6, 0.02)
    line = told[: told.index("num_generations")].count("\n") + 1
    assert found.lines["group_size"] in (line, line - code[: code.index("num_generations")].count("\n"))
    assert found.run_type == "rl"


def test_an_excerpt_shows_no_kind_of_training(tmp_path: Path) -> None:
    block = "```yaml\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 16\nlearning_rate: 1.0e-06\n```\n"
    assert found_in(tmp_path, f"It stops with a ValueError.\n\n{block}").run_type == "none"


@pytest.mark.parametrize("code", [AS_CALL, AS_FLAGS], ids=["a call", "a command"])
def test_code_between_single_marks(tmp_path: Path, code: str) -> None:
    assert found_in(tmp_path, f"The script is\n`{code.strip()}`\nand it diverges.").settings["group_size"] == 6


def test_a_document_without_a_fence(tmp_path: Path) -> None:
    found = found_in(
        tmp_path, f"My config is below, what is wrong?\n\n# trainer\n{AS_YAML}\nNote: the reward is flat.\n"
    )
    assert (found.settings["group_size"], found.lines["group_size"]) == (6, 4)
    assert "num_iterations" not in found.settings
    assert found_in(tmp_path, "Note: one.\nreward: low\n- a: b\nThat is all: thanks.\n").run_type == "none"


@pytest.mark.parametrize("before", ["", "The flags are\n\n", "trl grpo\n", "trl grpo \\\n"])
def test_flags_whose_backslashes_are_lost(tmp_path: Path, before: str) -> None:
    flags = "".join(f"  --{key} {value}\n" for key, value in KEYS.items())
    found = found_in(tmp_path, f"It diverges, why?\n\n{before}{flags}")
    assert (found.settings["group_size"], found.settings["kl_coef"]) == (6, 0.02)
    assert ("num_iterations" in found.settings) == before.startswith("trl")  # flags alone may be an excerpt
    assert "cannot_run" not in found.settings


def test_the_overrides_that_hydra_repeats(tmp_path: Path) -> None:
    said = "['algorithm.adv_estimator=grpo', 'actor_rollout_ref.rollout.n=6', 'actor_rollout_ref.actor.optim.lr=3e-6']"
    found = found_in(tmp_path, f"Why?\n\nError executing job with overrides: {said}\nAssertionError: 1 is not 2\n")
    assert (found.settings["group_size"], found.settings["adv_estimator"], found.lines["group_size"]) == (6, "grpo", 3)
    assert found.framework.name == "verl"


def test_the_version_that_the_form_of_an_issue_asks_for(tmp_path: Path) -> None:
    found = found_in(tmp_path, f"- Platform: Linux\n- TRL version: 0.13.0\n\n```\n{AS_CALL}```\n")
    assert (found.versions["trl"], found.framework.version) == ("0.13.0", "0.13.0")


def test_a_link_starts_nothing(tmp_path: Path) -> None:
    link = "[a/run.sh](https://example.org/a/run.sh)"
    assert found_in(tmp_path, f"Hi, I'm running {link} in main, and get as follows:\n").elsewhere == []


def test_a_block_that_breaks_off(tmp_path: Path) -> None:
    assert found_in(tmp_path, f"Why?\n```yaml\n{AS_YAML}").settings["group_size"] == 6


def test_an_excerpt_of_a_document_has_no_defaults(tmp_path: Path) -> None:
    document, call = (found_in(tmp_path, f"Why?\n```\n{code}```\n") for code in (AS_YAML, AS_CALL))
    assert "num_iterations" not in document.settings
    assert document.notes == ["the block after line 2 may be an excerpt, so defaults are not applied"]
    assert call.settings["num_iterations"] == 1


def test_a_block_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    found = found_in(tmp_path, f"```python\nx = = 1\n```\n```\n{AS_YAML}```\n")
    assert found.settings["group_size"] == 6
    assert any(note.startswith("the block after line 1 was not read") for note in found.notes)


@pytest.mark.parametrize(
    ("text", "hinted"),
    [(f"Why?\n```\n{AS_TOML}```\n", True), ("Why?\n```\nTraceback: a\n```\nThe reward is low.\n", False)],
)
def test_analyze_points_to_preflight_for_a_configuration(tmp_path: Path, text: str, hinted: bool) -> None:
    (path := tmp_path / "comment.md").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["analyze", str(path)])
    assert (f"`grpo-doctor preflight {path}` reads configurations" in result.stderr) == hinted
