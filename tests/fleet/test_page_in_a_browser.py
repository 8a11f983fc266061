"""The page of a fleet in headless Chromium: no axe violation, no request, no sideways scrolling; sorting works."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from grpo_doctor.fleet import page
from grpo_doctor.fleet.merge import MergedFleet
from grpo_doctor.fleet.overview import Overview, ordered, overview
from grpo_doctor.report.model import Options, render
from tests.browser import well_seen
from tests.fleet.sweeps import drawn_lines
from tests.reports import example

pytest.importorskip("duckdb", reason="duckdb is not installed; it is in the extra fleet")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def told() -> Overview:
    from grpo_doctor.fleet.store import Store

    lines = drawn_lines(60, np.random.default_rng(0))
    for line in lines:
        line.curve, line.curve_steps = "reward_mean", [1.0, 50.0, 100.0]
        line.curve_values = [0.1, 0.3, line.levels["reward_mean"].now]
        line.report = f"{line.source[6:14]}.html"
    lines[0] = structs.replace(lines[0], source=HOSTILE, headline=HOSTILE, settings={HOSTILE: HOSTILE, "group_size": 8})
    whole = ordered(MergedFleet(lines, []))
    store = Store()
    store.fill(whole)
    return overview(store, whole, ["sweep"], 0.05)


def test_every_run_has_a_line_that_opens_its_report_and_texts_stay_texts(told: Overview) -> None:
    text = page.render(told, Options(), "runs")
    assert text.count('<tr id="run-') == 60
    assert text.count('href="runs/run-') == 60
    assert HOSTILE not in text
    assert "<script" not in page.render(told, Options(static=True), "runs")


def test_page(browser: Any, told: Overview, tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(page.render(told, Options(), "runs"), encoding="utf-8")
    well_seen(browser, file)


def test_sorts_by_a_column_and_back_under_its_own_policy(browser: Any, told: Overview, tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text(page.render(told, Options(), "runs"), encoding="utf-8")
    context = browser.new_context()
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.goto(file.as_uri())
    order = "[...document.querySelectorAll('table.fleet tr[id]')].map(row => row.id)"
    rewards = (
        "[...document.querySelectorAll('table.fleet td[data-label=reward]')].map(cell => Number(cell.textContent))"
    )
    before = opened.evaluate(order)
    button = opened.get_by_role("button", name="reward")
    button.click()
    assert opened.evaluate(rewards) == sorted(opened.evaluate(rewards))
    button.click()
    assert opened.evaluate(rewards) == sorted(opened.evaluate(rewards), reverse=True)
    button.click()
    assert opened.evaluate(order) == before
    assert complaints == []
    context.close()


def test_filters_runs_by_words_and_its_pages_lead_back(browser: Any, told: Overview, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page.render(told, Options(), "runs"), encoding="utf-8")
    opened = browser.new_page()
    opened.goto((tmp_path / "index.html").as_uri())
    rows = opened.locator("table.fleet tr[id]:visible")
    name = rows.first.locator("td").nth(1).inner_text()
    before = rows.count()
    opened.get_by_role("searchbox", name="filter runs").fill(name)
    assert 1 <= rows.count() < before
    opened.get_by_role("searchbox", name="filter runs").fill("")
    assert rows.count() == before
    opened.close()
    report = render("html", [example.diagnosis()], Options(back="../index.html"))
    assert '<a href="../index.html">All runs</a>' in report
