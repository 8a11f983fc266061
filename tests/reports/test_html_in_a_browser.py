"""The HTML report in headless Chromium: no axe violation, no request, no script, no sideways scrolling.

Needs Chromium on the path and the PyPI packages playwright and axe-playwright-python; it installs nothing.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor import Diagnosis
from grpo_doctor.report import Options, render
from tests.reports import example

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; .ci/run installs it")
api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it is in the dev extra")
axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

PAGES: dict[str, list[Diagnosis]] = {
    "of_each": [example.diagnosis()],
    "healthy": [example.healthy()],
    "unjudged": [example.unjudged()],
    "hostile": [example.hostile()],
    "eight": [example.diagnosis(), example.healthy(), example.hostile(), example.unjudged()] * 2,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-quic"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("html")
    for name, diagnoses in PAGES.items():
        (folder / f"{name}.html").write_text(render("html", diagnoses, Options()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_page(browser: Any, files: dict[str, Path], name: str, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(files[name].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    assert [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found["violations"]] == []
    assert {url for url in requests if not url.startswith("data:")} == {files[name].as_uri()}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_script_runs_and_every_image_loads(browser: Any, files: dict[str, Path], name: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    alarms: list[str] = []
    page.on("dialog", lambda dialog: alarms.append(dialog.message))
    page.on("console", lambda message: alarms.append(message.text))
    page.goto(files[name].as_uri())
    assert alarms == []
    assert page.locator("script, iframe, [onerror], [style]").count() == 0
    dark = "i.currentSrc == i.parentNode.querySelector('source').srcset"
    images = page.locator("img").evaluate_all(f"list => list.map(i => i.complete && i.naturalWidth > 0 && {dark})")
    assert all(images)
    context.close()
