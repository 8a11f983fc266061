"""Pages in headless Chromium. Chromium must be on the path, and the packages playwright and axe-playwright-python must
be installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

VIEWS = ((360, "light"), (1280, "dark"))
"""Widths in pixels and colour schemes in which pages are looked at: a width decides the layout, a scheme the contrast."""
_QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests of a file, because starting it is slow."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("Chromium is not installed; .ci/run installs it")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it is in the dev extra")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=[*_QUIET, "--disable-quic"])
        yield started
        started.close()


def well_seen(browser: Any, file: Path, also: Callable[[Any], None] = lambda page: None) -> None:
    """Assert that a page with its details open makes no request, and that no view has an axe violation or scrolls
    sideways; ``also`` is called with the page at the end."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    for width, scheme in VIEWS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")
        violations = [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found["violations"]]
        assert violations == [], (width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scheme
    assert {url for url in requests if not url.startswith("data:")} == {file.as_uri()}
    also(page)
    context.close()
