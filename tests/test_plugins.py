"""Plugins of installed packages: readers and checks that are found through entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.catalogue import load_file
from grpo_doctor.diagnosis.check import CheckError

ROOT = Path(__file__).parents[1]
READER = """
from grpo_doctor.readers import RunBuilder
FORMAT = "acme"
def sniff(head): return 3 if head.text.startswith("ACME") else 0
def read(file):
    builder = RunBuilder(file.source, FORMAT)
    for number, line in file.lines():
        if number > 1:
            builder.add({"step": number - 1, "reward_mean": float(line)}, number)
    return [builder.finish()]
"""
RULE = '''
from grpo_doctor import any_of, check, fires

@check("{code}", severity="warning", confidence="high")
def acme_rule(rate=any_of("settings.{setting}")):
    """The learning rate is above 0.001.

    ## What it sees
    ## Why it matters
    ## Known false alarms
    ## Remedy
    ## Sources
    """
    return fires(rate > 0.001, "The learning rate is {{rate:.3f}}.", rate=rate)
'''


def analyzed(folder: Path, group: str, module: str, text: str, command: list[str]) -> str:
    """Return what a command prints if an installed package has this module as an entry point of the group."""
    file = folder / "site" / (module.replace(".", "/") + ".py")
    info = folder / "site" / "acme-1.0.dist-info"
    for made in (file.parent, info):
        made.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\nours = {module}\n", encoding="utf-8")
    (folder / "acme.log").write_text("ACME\n" + "\n".join(f"{0.02 * n}" for n in range(40)), encoding="utf-8")
    (folder / "config.yaml").write_text(
        "model_name_or_path: Qwen/Qwen3-8B\nnum_generations: 8\nlearning_rate: 0.002\n", encoding="utf-8"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder / "site"), str(ROOT))), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "grpo_doctor", *command],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_reads_a_log_with_the_reader_of_a_package(tmp_path: Path) -> None:
    shown = analyzed(tmp_path, "grpo_doctor.readers", "acme_reader", READER, ["analyze", "acme.log"])
    assert "acme, rl, 40 steps (1 to 40)" in shown


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("raise ImportError('no acme')", "cannot be loaded: ImportError: no acme; fix or uninstall it"),
        ("FORMAT = 'acme'", "has no 'sniff'; see .github/CONTRIBUTING.md"),
    ],
)
def test_names_the_package_of_a_reader_that_cannot_be_used(tmp_path: Path, module: str, why: str) -> None:
    shown = analyzed(tmp_path, "grpo_doctor.readers", "acme_reader", module, ["analyze", "acme.log"])
    assert shown == f"grpo-doctor: the plugin 'ours' of the package acme {why}"


def test_a_preflight_rule_of_a_package_judges_a_configuration(tmp_path: Path) -> None:
    rule = RULE.format(code="CFG960", setting="learning_rate")
    command = ["preflight", "config.yaml"]
    shown = analyzed(tmp_path, "grpo_doctor.checks", "acme_checks.preflight.acme_rule", rule, command)
    assert "The learning rate is 0.002." in shown


def test_a_package_with_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    rule = RULE.format(code="CFG960", setting="learning_rte")
    command = ["preflight", "config.yaml"]
    shown = analyzed(tmp_path, "grpo_doctor.checks", "acme_checks.preflight.acme_rule", rule, command)
    assert "CFG960: asks for settings.learning_rte, but no setting has this name; nearest: learning_rate" in shown


def test_names_the_package_of_a_check_that_cannot_be_loaded(tmp_path: Path) -> None:
    shown = analyzed(tmp_path, "grpo_doctor.checks", "acme_check", "1 / 0", ["analyze", "acme.log"])
    assert "the plugin 'ours' of the package acme cannot be loaded: ZeroDivisionError" in shown


@pytest.mark.parametrize(("family", "refused"), [("preflight", True), ("entropy", False)])
def test_only_preflight_rules_are_bound_to_known_settings(tmp_path: Path, family: str, refused: bool) -> None:
    """A check of logs may use any setting that its user's own trainer declares."""
    file = tmp_path / family / "acme_rule.py"
    file.parent.mkdir()
    file.write_text(RULE.format(code=f"CF{'GH'[refused]}961", setting="acme_knob"), encoding="utf-8")
    if refused:
        with pytest.raises(CheckError, match=r"asks for settings\.acme_knob, but no setting has this name"):
            load_file(file)
    else:
        assert load_file(file).name == "acme-rule"
