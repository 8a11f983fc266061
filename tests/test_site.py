"""The documentation site: built with strict links, read from a folder, searched there, and without external
requests."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("mkdocs", "material", "mkdocstrings"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed; it is in the docs extra")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_is_read_and_searched_from_a_folder_without_a_request(browser: Any, site: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").first.click()
    page.keyboard.type("padding")
    page.wait_for_selector(".md-search-result__item")
    assert page.locator(".md-search-result__item").count() >= 3
    for name in ("reference.html", "gallery.html", "gallery/healthy.html", "tutorials/trl.html"):
        page.goto((site / name).as_uri())
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()


def test_the_site_has_a_dark_and_a_light_scheme(browser: Any, site: Path) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    body = page.locator("body")
    assert body.get_attribute("data-md-color-scheme") == "slate"
    page.locator("label[title='Light colours']").click()
    assert body.get_attribute("data-md-color-scheme") == "default"
    context.close()
