"""Pages and reports quote only stored experiments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Confidence, Remedy
from grpo_doctor.diagnosis.lab_results import UNMEASURED, stored
from grpo_doctor.engine.faults import FAULTS
from grpo_doctor.lab.arms import ALONE, MOST_SEVERE
from grpo_doctor.lab.evidence import LARGER, PARQUET, read_rows, texts
from grpo_doctor.report.check_pages import page

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
CATALOGUE = load()
UNOPENED = re.compile("early engine|prototype|project's engine|engine notes|[Ee]ngine fault|rew_len|new-colab")
"""Words for experiments that no reader can repeat."""
OF_ENGINE = re.compile(r"[Ff]aults? `[a-z-]+`|engine runs|[Rr]uns of the engine|`grpo-doctor (?:lab|run)`")
"""Texts about runs of this project's own engine."""
OFFERED = {known.id: known for check in CATALOGUE.checks.values() for known in check.remedies}


def test_the_page_and_the_figures_are_those_of_the_stored_runs() -> None:
    stale = [path.name for path, text in texts(EVIDENCE).items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `grpo-doctor lab --evidence docs/evidence`"


def test_every_fault_was_run_and_the_stored_figures_have_the_codes_that_should_name_it() -> None:
    assert {row.fault for row in read_rows(EVIDENCE / PARQUET)} - {"healthy"} >= set(FAULTS)
    assert {name: tuple(harm.codes) for name, harm in stored().faults.items()} == {
        name: fault.named_by for name, fault in FAULTS.items()
    }


def test_every_fault_of_the_tools_is_named_in_every_stored_run() -> None:
    rows = [row for row in read_rows(EVIDENCE / PARQUET) if row.arm == ALONE]
    of_tools = [row for row in rows if FAULTS[row.fault].circumstances.get("task") == "tools"]
    assert len(of_tools) >= 6 * 3
    assert [(row.fault, row.seed) for row in of_tools if row.named not in FAULTS[row.fault].named_by] == []


def test_the_faults_of_the_real_model_are_those_that_ruin_the_tiny_one() -> None:
    ruined = {name for name, harm in stored().faults.items() if harm.alone < 0.1 * harm.twin}
    assert set(MOST_SEVERE) == ruined - {"truncation", "double-temperature"}


def test_no_cause_of_another_fault_was_named_with_high_confidence() -> None:
    rows = [row for name in (PARQUET, *LARGER.values()) for row in read_rows(EVIDENCE / name)]
    assert [(row.fault, row.seed, row.wrong) for row in rows if any(word.endswith(" high") for word in row.wrong)] == []


@pytest.mark.parametrize("remedy", OFFERED.values(), ids=OFFERED)
def test_a_remedys_evidence_is_measured_and_names_what_a_reader_can_repeat(remedy: Remedy) -> None:
    said = f"{remedy.evidence} {remedy.source}"
    assert remedy.source
    assert UNMEASURED not in said
    assert not UNOPENED.search(said)
    for fault in re.findall(r"grpo-doctor lab --fault ([a-z-]+)", said):
        assert fault in FAULTS


@pytest.mark.parametrize("code", CATALOGUE.checks)
def test_docstrings_quote_only_stored_figures_of_the_engine(code: str) -> None:
    sentences = re.split(r"(?<=[.;])\s+", " ".join(CATALOGUE.checks[code].page.split()))
    typed = [s for s in sentences if OF_ENGINE.search(s) and re.search(r"\b0?\.\d|\d %", s)]
    assert typed == [], "say which fault, and leave its figures to the page, which prints those that are stored"


@pytest.mark.parametrize("code", CATALOGUE.checks)
def test_pages_quote_only_engines_that_readers_can_run(code: str) -> None:
    written = page(CATALOGUE, CATALOGUE.checks[code])
    assert not UNOPENED.search(written)
    for fault in re.findall(r"[Ff]aults? `([a-z-]+)`", written):
        assert fault in FAULTS, f"{code} names a fault that the engine does not have: {fault}"


@pytest.mark.parametrize("name", FAULTS)
def test_the_checks_of_a_fault_offer_the_remedy_that_fixes_it(name: str) -> None:
    fault = FAULTS[name]
    offered = {remedy.id for code in fault.named_by for remedy in CATALOGUE.checks[code].remedies}
    assert fault.fixed_by in {"", *offered}


@pytest.mark.parametrize("code", [c.code for c in CATALOGUE.checks.values() if c.withholds])
def test_withheld_remedies_did_not_fix_the_fault(code: str) -> None:
    tried = [t for remedy in CATALOGUE.checks[code].withholds for t in stored().tried(code, remedy)]
    assert [str(t) for t in tried if t.verdict == "recovers"] == []


@pytest.mark.parametrize("code", [c.code for c in CATALOGUE.checks.values() if c.confidence is Confidence.HIGH])
def test_remedies_with_high_confidence_have_helped_before(code: str) -> None:
    for remedy in CATALOGUE.checks[code].remedies:
        tried = stored().tried(code, remedy.id)
        assert not tried or any(t.verdict in ("recovers", "helps") for t in tried), remedy
