"""An advisory applies if version and settings are known to match; unknown ones are listed separately."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_doctor.advisories import Match, matches
from grpo_doctor.advisories.conditions import holds, parse
from grpo_doctor.advisories.finding import notes
from grpo_doctor.advisories.versions import installed, stated

VLLM = {"use_vllm": True, "temperature": 0.6}


def found(id: str, versions: dict[str, str], settings: dict[str, Any], **more: Any) -> Match | None:
    return next((match for match in matches(versions, settings, **more) if match.advisory.id == id), None)


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("a == 1", 1, True),
        ("a == 1", 1.0, True),
        ("a == true", True, True),
        ("a == true", False, False),
        ("a == true", None, None),
        ("a != 1", 0.6, True),
        ("a != 1", float("nan"), None),
        ("a > 1", "auto", None),
        ("a >= 2", 2, True),
        ('a == "Async"', "async", True),
        ('a in ["x", "y"]', "y", True),
        ('a ~ "(?i)moe"', "Qwen3-MoE", True),
    ],
)
def test_judges_a_condition(text: str, value: Any, held: bool | None) -> None:
    assert holds(parse(text), {"a": value}) is held


@pytest.mark.parametrize(
    ("version", "settings", "standing"),
    [
        ("0.23.1", VLLM, "affected"),
        ("0.24.0", VLLM, None),
        ("0.23.1", VLLM | {"temperature": 1.0}, None),
        ("0.23.1", VLLM | {"importance_correction": False}, None),
        ("0.23.1", {"use_vllm": True}, "possible"),
        ("0.23.1.dev0", VLLM, "version unknown"),
    ],
)
def test_applies_an_advisory(version: str, settings: dict[str, Any], standing: str | None) -> None:
    match = found("RLA-2026-001", {"trl": version}, settings)
    assert (match.standing if match else None) == standing


def test_takes_a_feature_for_off_where_the_settings_are_complete() -> None:
    settings = {"use_vllm": True, "vllm_mode": "colocate"}
    on = settings | {"sleep_mode": True}
    assert found("RLA-2026-009", {"trl": "1.0.0"}, settings, complete=True) is None
    match = found("RLA-2026-009", {"trl": "1.0.0"}, settings)
    assert match is not None
    assert match.unknown == ("sleep_mode == true",)
    match = found("RLA-2026-009", {"trl": "1.0.0"}, on, complete=True)
    assert match is not None
    assert match.standing == "affected"


def test_asks_for_the_versions_of_other_packages() -> None:
    settings = {"ref_adapters": "out/sft"}
    versions = {"ms-swift": "3.12.0", "peft": "0.18.0"}
    assert found("RLA-2026-100", versions, settings) is not None
    assert found("RLA-2026-100", versions | {"peft": "0.17.1"}, settings) is None
    match = found("RLA-2026-100", {"ms-swift": "3.12.0"}, settings)
    assert match is not None
    assert match.unknown == ("peft >= 0.18.0",)


def test_says_once_for_which_versions_the_settings_are_affected() -> None:
    (line,) = notes(matches({}, VLLM | {"vllm_mode": "colocate"}, used=["trl"], complete=True))
    assert line.startswith("the version of trl is not known: RLA-2026-001 affects >= 0.23.0, < 0.24.0")


def test_leaves_out_what_the_log_contradicts() -> None:
    settings = VLLM | {"vllm_mode": "colocate"}
    assert found("RLA-2026-001", {"trl": "0.23.1"}, settings, shows=lambda one: False) is None
    match = found("RLA-2026-001", {"trl": "0.23.1"}, settings, shows=lambda one: True)
    assert match is not None
    assert match.shown is True


@pytest.mark.parametrize(
    ("line", "versions"),
    [
        ("trl==0.23.1", {"trl": "0.23.1"}),
        ("INFO 06-10 vLLM API server version 0.9.1", {"vllm": "0.9.1"}),
        ("INFO Initializing a V1 LLM engine (v0.8.5.post1) with config", {"vllm": "0.8.5.post1"}),
        (
            "==((====))==  Unsloth 2025.3.19: Fast Qwen2 patching. Transformers: 4.50.0. vLLM: 0.8.2.",
            {"unsloth": "2025.3.19", "vllm": "0.8.2"},
        ),
        ("  - trl: 0.22.2", {"trl": "0.22.2"}),
        ("- TRL version: 0.13.0", {"trl": "0.13.0"}),
        ("vllm==0.9.1.dev12+g1234", {}),
        ("- TRL version: 0.20.0.dev0+e333da8", {}),
        ("the reward of trl is 0.23", {}),
    ],
)
def test_reads_the_versions_that_a_log_prints(line: str, versions: dict[str, str]) -> None:
    assert stated([line]) == versions


def test_knows_no_version_where_a_log_prints_two() -> None:
    assert stated(["trl==0.23.1", "trl==0.24.0"]) == {}


def test_reads_installed_versions() -> None:
    assert set(installed(["peft", "no-such-package"])) <= {"peft"}
