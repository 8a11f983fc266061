"""The HTML report in headless Chromium: no axe violation, no request, no sideways scrolling; hover, zoom and click."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.report.model import Options, render
from grpo_doctor.testing import make_run
from tests.browser import well_seen
from tests.reports import example

PAGES: dict[str, list[Diagnosis]] = {
    "of_each": [example.diagnosis()],
    "healthy": [example.healthy()],
    "unjudged": [example.unjudged()],
    "hostile": [example.hostile()],
    "four": [example.diagnosis(), example.healthy(), example.hostile(), example.unjudged()],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("html")
    for name, diagnoses in PAGES.items():
        (folder / f"{name}.html").write_text(render("html", diagnoses, Options()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.mark.parametrize("name", ["of_each", "four"])
def test_page(browser: Any, files: dict[str, Path], name: str) -> None:
    well_seen(browser, files[name])


@pytest.mark.parametrize("name", PAGES)
def test_only_the_page_s_own_script_runs_and_nothing_complains(browser: Any, files: dict[str, Path], name: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    alarms: list[str] = []
    page.on("dialog", lambda dialog: alarms.append(dialog.message))
    page.on("console", lambda message: alarms.append(message.text))
    page.on("pageerror", lambda error: alarms.append(str(error)))
    page.goto(files[name].as_uri())
    assert alarms == []
    assert page.locator("script:not([type])").count() == 1
    assert page.locator("iframe, [onerror], [style], img").count() == 0
    context.close()


def test_static_pages_hold_no_script_and_the_same_words(tab: Any, tmp_path: Path) -> None:
    (tmp_path / "static.html").write_text(render("html", [example.diagnosis()], Options(static=True)), encoding="utf-8")
    tab.goto((tmp_path / "static.html").as_uri())
    assert tab.locator("script, button, [hidden]").count() == 0
    assert tab.locator("svg.plot path.line").count() == 2
    assert "37 of 38 updates" in tab.locator(".headline").inner_text()


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.close()


@pytest.fixture
def opened(tab: Any, files: dict[str, Path]) -> Any:
    tab.goto(files["of_each"].as_uri())
    return tab


def _views(page: Any) -> set[str]:
    return set(page.locator("svg.plot").evaluate_all("plots => plots.map(p => p.getAttribute('viewBox'))"))


def _plot(page: Any) -> dict[str, float]:
    """The box of the first chart, the decisive one."""
    plot = page.locator("svg.plot").first
    plot.scroll_into_view_if_needed()
    box: dict[str, float] = plot.bounding_box()
    return box


def test_hovering_shows_the_same_step_in_every_chart(opened: Any) -> None:
    box = _plot(opened)
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    words = opened.locator("output").all_inner_texts()
    assert sorted(words) == ["step 48", "step 48: 0.1", "step 48: 1"]


def test_dragging_zooms_every_chart_and_the_button_goes_back(opened: Any) -> None:
    box, before = _plot(opened), _views(opened)
    opened.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    opened.mouse.down()
    opened.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30, steps=3)
    opened.mouse.up()
    (view,) = _views(opened)
    begin, _, width, _ = map(float, view.split())
    assert 22 < begin < 24
    assert 23 < width < 25
    labels = opened.locator("svg.across").first.locator("text").all_text_contents()
    assert all(24 <= int(label) <= 49 for label in labels)
    assert labels
    names = opened.locator("svg.names text")
    assert {name.get_attribute("x") for name in names.all() if float(name.get_attribute("data-x")) < begin} == {"0%"}
    assert opened.locator("button.reset:visible").count() == opened.locator("svg.plot").count()
    opened.locator("figure").first.get_by_role("button", name="whole run").click()
    assert _views(opened) == before
    assert opened.locator("button.reset:visible").count() == 0


def test_a_click_on_a_curve_or_a_finding_shows_the_step(opened: Any) -> None:
    panel = opened.locator("aside.row")
    assert panel.is_hidden()
    box = _plot(opened)
    opened.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    assert panel.locator(".at").inner_text() == "Step 48"
    assert "line of the log\n480" in panel.inner_text()
    opened.locator("#LEN001 [data-step]").click()
    assert panel.locator(".at").inner_text() == "Step 6"
    assert panel.locator("pre").all_inner_texts() == ["user user user", "Custom -> Review"]
    panel.get_by_role("button", name="close").click()
    assert panel.is_hidden()


def test_a_click_shows_the_line_of_the_log(tab: Any, tmp_path: Path) -> None:
    log = tmp_path / "train.jsonl"
    lines = [f'{{"step": {i}, "loss": 0.1, "reward": {i / 10}, "note": "<b>{i}</b>"}}' for i in range(1, 12)]
    log.write_text("\n".join(lines), encoding="utf-8")
    written = tmp_path / "page.html"
    written.write_text(render("html", [diagnose(log)], Options()), encoding="utf-8")
    tab.goto(written.as_uri())
    box = _plot(tab)
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    assert tab.locator("aside.row pre").all_inner_texts() == [lines[5]]


def test_the_keyboard_moves_over_the_steps(opened: Any) -> None:
    opened.locator("svg.plot").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
        opened.keyboard.press(key)
    assert opened.locator("output[data-field=reward_mean]").inner_text() == "step 2: 0.6"
    opened.keyboard.press("Enter")
    assert opened.locator("aside.row .at").inner_text() == "Step 2"


def test_a_fix_is_copied(browser: Any, files: dict[str, Path]) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(files["of_each"].as_uri())
    button = page.locator("button.copy:visible").first
    expected = button.locator("xpath=..").locator("pre").inner_text()
    button.click()
    page.get_by_text("copied", exact=True).wait_for()  # the clipboard answers when it will
    assert page.evaluate("navigator.clipboard.readText()") == expected
    context.close()


def test_a_long_run_gives_a_small_page_that_loads_fast(tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    path.write_text(render("html", [example.diagnosis(run=example.run(2_400))], Options()), encoding="utf-8")
    assert path.stat().st_size < 1_000_000
    tab.goto(path.as_uri())
    box = _plot(tab)
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    assert tab.locator("output").first.inner_text().startswith("step ")


def test_a_printed_page_is_one_page_with_the_actions_and_one_chart(browser: Any, files: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(files["of_each"].as_uri())
    printed = page.pdf(format="A4")
    assert printed.count(b"/Type /Page\n") == 1
    page.emulate_media(media="print")
    assert page.locator("figure:visible").count() == 1
    assert page.locator(".actions:visible").count() == 1
    page.close()


def test_the_green_range_fills_the_width_of_its_chart(tab: Any, tmp_path: Path) -> None:
    path = tmp_path / "green.html"
    diagnosis = example.diagnosis([], run=make_run(kl="0.01x200 0.1x200"))
    path.write_text(render("html", [diagnosis], Options()), encoding="utf-8")
    tab.goto(path.as_uri())
    boxes = [tab.locator(name).first.bounding_box() for name in ("rect.normal", "svg.plot")]
    assert boxes[0]["width"] == pytest.approx(boxes[1]["width"], rel=0.02)
