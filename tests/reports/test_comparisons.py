"""Comparisons in every format: valid by schema, equal to snapshots, escaped, and one page in headless Chromium."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from grpo_doctor.compare import Arm, Comparison, compare
from grpo_doctor.compare.arms import Change
from grpo_doctor.compare.overlay import overlays
from grpo_doctor.compare.summary import names, render
from grpo_doctor.compare.weights import WeightChange
from grpo_doctor.diagnosis.catalogue import home, report_names
from grpo_doctor.report.model import Options
from tests.browser import well_seen
from tests.compare.pairs import answers, compared, reward, run
from tests.reports import example

SCHEMA = json.loads((home("reports") / "comparison.schema.json").read_text(encoding="utf-8"))
LOSS = [0.1] * 29 + [float("nan")] * 31


@pytest.fixture(scope="module")
def better() -> Comparison:
    base = run({"beta": 0.1}, source="base.jsonl", reward_mean=reward(0, gain=0.0), loss=LOSS, kl=[0.1] * 60)
    new = run({"beta": 0.02}, source="new.jsonl", reward_mean=reward(1, gain=0.6), loss=[0.1] * 60, kl=reward(2))
    base.samples, new.samples = {0: answers(1, "2", "3")}, {0: answers(1, "2", "4")}
    found = compared(base, new)
    found.weights = [
        WeightChange(name="model.lm_head", change=0.02, norm=3.5),
        WeightChange(name="model.embed", change=0.0, norm=2.0),
    ]
    return found


@pytest.fixture(scope="module")
def apart() -> Comparison:
    return compared(run(reward_mean=range(20)), run(first=50, reward_mean=range(20)))


@pytest.fixture(scope="module")
def hostile() -> Comparison:
    bad = example.hostile()
    found = compare(*(Arm(name=example.HOSTILE, diagnoses=[bad], settings={}) for _ in range(2)))
    found.settings = [Change(example.HOSTILE, example.HOSTILE, example.KEY), Change("wandb_api_key", "0123456789", "1")]
    found.notes = [example.HOSTILE]
    return found


@pytest.mark.parametrize("name", ["text", "markdown", "json", "summary", "github"])
def test_snapshot(name: str, better: Comparison, apart: Comparison, snapshot: SnapshotAssertion) -> None:
    assert render(name, [better, apart], Options()) == snapshot


@pytest.mark.parametrize("width", [60, 80, 100])
def test_tables_do_not_break_words(better: Comparison, width: int) -> None:
    shown = render("text", [better], Options(width=width))
    words = set(re.findall(r"[a-z]{4,}", shown))
    assert words <= set(re.findall(r"[a-z]{4,}", render("text", [better], Options(width=140))))
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("case", ["better", "apart", "hostile"])
def test_json_keeps_its_contract(case: str, request: pytest.FixtureRequest) -> None:
    told = json.loads(render("json", [request.getfixturevalue(case)], Options()))
    assert [e.message for e in Draft202012Validator(SCHEMA).iter_errors(told)] == []


@pytest.mark.parametrize("name", report_names())
def test_no_format_leaks_a_key_or_lets_a_text_run(name: str, hostile: Comparison) -> None:
    text = render(name, [hostile], Options())
    assert example.KEY not in text
    assert "\x1b" not in text
    assert name not in ("html", "markdown", "summary", "junit") or "<script>alert" not in text


def test_reports_for_machines_contain_new_findings_and_accept_those_of_base() -> None:
    faulty: dict[str, Any] = {"reward_mean": reward(0), "loss": LOSS}
    base, new = run(source="base.jsonl", **faulty), run(source="new.jsonl", kl=[0.01] * 20 + [9.0] * 40, **faulty)
    cases = {
        c.attrib["name"][:6]: c
        for c in ET.fromstring(render("junit", [compared(base, new)], Options())).iter("testcase")
    }
    skipped = cases["GRD001"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "accepted: base.jsonl has it too"
    worse = compared(run(reward_mean=reward(0)), run(source="new.jsonl", reward_mean=reward(1, gain=0.0)))
    (issue,) = [i for i in json.loads(render("gitlab", [worse], Options())) if i["check_name"].startswith("CMP001")]
    assert issue["severity"] == "major"
    assert render("github", [worse], Options()).startswith("::error file=new.jsonl")


def test_page(browser: Any, tmp_path: Path, better: Comparison, apart: Comparison, hostile: Comparison) -> None:
    def looks(page: Any) -> None:
        first = page.locator("article").first
        assert first.locator("svg.plot path.side").count() == 2 * first.locator("figure").count() >= 4
        assert first.locator("path.onset").count() == first.locator("figure").count()
        assert page.locator("script").count() == 0

    (tmp_path / "c.html").write_text(render("html", [better, apart, hostile], Options()), encoding="utf-8")
    well_seen(browser, tmp_path / "c.html", also=looks)


def test_the_chart_that_decides_comes_first_and_a_series_that_only_diverges_last() -> None:
    gap = [0.01] * 60
    base = run(reward_mean=reward(0), entropy_mean=reward(3, gain=0.0), advantage_std=gap)
    new = run(reward_mean=[*reward(1)[:30], *[0.1] * 30], entropy_mean=reward(4, gain=0.0), advantage_std=[0.9] * 60)
    found = compared(base, new)
    assert (found.success and found.success.metric, found.parting and found.parting.metric) == (
        "reward_mean",
        "advantage_std",
    )
    assert [chart.metric for chart in overlays(found)] == ["reward_mean", "entropy_mean", "advantage_std"]


def test_short_runs_are_drawn_as_they_are_and_names_without_shared_folders() -> None:
    values = [0.5] * 30 + [0.1] * 30
    found = compared(run(source="runs/a/log", reward_mean=reward(0)), run(source="runs/b/log", reward_mean=values))
    (chart,) = overlays(found)
    heights = {part.split(" ")[1] for part in chart.new.line.replace("M", "L").split("L") if part}
    assert (len(heights), chart.bands) == (2, "")
    assert names(found) == ["b/log", "a/log"]
