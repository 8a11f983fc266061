"""``grpo-doctor advisories`` lists the known bugs of a package or a version."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.advisories import advisories
from grpo_doctor.cli import app


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["advisories", *words])


def test_lists_every_advisory_in_one_line() -> None:
    result = run()
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(advisories())


def test_shows_what_is_known_of_a_version() -> None:
    result = run("trl==0.15.0")
    assert "RLA-2026-003 trl >= 0.15.0, < 0.15.1 (error)" in result.stdout
    assert "→ Upgrade to TRL 0.15.1 or later." in result.stdout
    assert "RLA-2026-001" not in result.stdout


def test_says_where_no_advisory_affects_a_version() -> None:
    assert run("axolotl==0.18.0").stdout == "No advisory affects axolotl==0.18.0.\n"


def test_writes_json() -> None:
    found = json.loads(run("verl==0.6.0", "-f", "json").stdout)
    assert {"id", "range", "do", "sources"} <= found[0].keys()
    assert all(one["package"] == "verl" for one in found)


def test_writes_sarif() -> None:
    (made,) = json.loads(run("trl==0.15.0", "-f", "sarif").stdout)["runs"]
    rules = [rule["id"] for rule in made["tool"]["driver"]["rules"]]
    assert [result["ruleId"] for result in made["results"]] == rules
    assert made["results"][rules.index("RLA-2026-003")]["level"] == "error"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["numpy"], "no advisories known"),
        (["trl>=0.15"], "write PACKAGE or PACKAGE==VERSION"),
        (["-f", "xml"], "one of text, json, sarif"),
    ],
)
def test_refuses_wrong_use(words: list[str], why: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert why in result.stderr
