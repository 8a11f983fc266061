"""The charts of ten reports as images: the browser draws what was accepted, within a tolerance. Half of the reports use
dark mode. Letters are left out, because their shapes differ between machines. ``python -m tests.reports.test_pictures``
accepts the current images and writes the whole pages to build/pictures: look at them first.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.gallery import GALLERY, reports

ACCEPTED = Path(__file__).parent / "pictures"
KEPT = Path("build") / "pictures"
WIDTH = 1000
CELL = 20
"""Pixels of a cell whose mean colours are compared: smaller than a chart, larger than a line is wide."""
SHADE, SHARE = 6, 0.01
"""Difference of a cell's colour, of 255, that counts, and share of the cells that may differ."""
SCHEMES = {name: "dark" if number % 2 else "light" for number, name in enumerate(GALLERY)}
drawn = cache(reports)
BOXES = """plots => plots.map(plot => { const b = plot.getBoundingClientRect(); const y = b.y + scrollY;
    return [b.x, y, b.right, y + b.height].map((edge, i) => i < 2 ? Math.floor(edge) : Math.ceil(edge)); })"""
NO_LETTERS = "text { fill: transparent !important; stroke: none !important; }"


def page_of(browser: Any) -> Any:
    """A page for reports."""
    return browser.new_context(viewport={"width": WIDTH, "height": 1400}, bypass_csp=True).new_page()


@pytest.fixture(scope="module")
def page(browser: Any) -> Any:
    return page_of(browser)


def show(page: Any, folder: Path, name: str) -> None:
    """Open a report."""
    file = folder / f"{name}.html"
    file.write_text(drawn()[f"gallery/{name}.html"], encoding="utf-8")
    page.emulate_media(color_scheme=SCHEMES[name])
    page.goto(file.as_uri())


def charts(page: Any) -> Any:
    """The plots of a page, one below the other."""
    image = pytest.importorskip(
        "PIL.Image", reason="pillow is not installed; it comes with matplotlib, in the dev extra"
    )
    page.add_style_tag(content=NO_LETTERS)
    whole = image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    boxes = page.locator("svg.plot").evaluate_all(BOXES)
    plots = [whole.crop(box) for box in boxes]
    stacked = image.new("RGB", (WIDTH, sum(plot.height for plot in plots)))
    for number, plot in enumerate(plots):
        stacked.paste(plot, (0, sum(above.height for above in plots[:number])))
    return stacked


def cells(picture: Any) -> np.ndarray:
    """Return the mean colours of the cells of an image, rows x columns x RGB."""
    pixels = np.asarray(picture.convert("RGB"), float)
    height, width = pixels.shape[0] // CELL, pixels.shape[1] // CELL
    return np.asarray(pixels[: height * CELL, : width * CELL].reshape(height, CELL, width, CELL, 3).mean((1, 3)))


def differing(found: Any, accepted: Any) -> np.ndarray:
    """Return which cells of two images differ; all cells if their sizes differ."""
    one, other = cells(found), cells(accepted)
    if one.shape != other.shape:
        return np.ones((1, 1), bool)
    return np.asarray(np.abs(one - other).max(2) > SHADE)


@pytest.mark.parametrize("name", GALLERY)
def test_the_charts_of_a_report_look_as_accepted(page: Any, tmp_path: Path, name: str) -> None:
    image = pytest.importorskip(
        "PIL.Image", reason="pillow is not installed; it comes with matplotlib, in the dev extra"
    )
    show(page, tmp_path, name)
    found = charts(page)
    differs = differing(found, image.open(ACCEPTED / f"{name}.png"))
    if differs.mean() > SHARE:
        KEPT.mkdir(parents=True, exist_ok=True)
        found.save(KEPT / f"{name}-charts.png")
    assert differs.mean() <= SHARE, f"{differs.mean():.1%} of the cells differ; see {KEPT / name}-charts.png"


def test_a_missing_line_is_a_difference() -> None:
    image = pytest.importorskip(
        "PIL.Image", reason="pillow is not installed; it comes with matplotlib, in the dev extra"
    )
    accepted = image.open(ACCEPTED / "healthy.png").convert("RGB")
    without = accepted.copy()
    without.paste(accepted.getpixel((200, 20)), (10, 0, accepted.width, 145))
    assert differing(without, accepted).mean() > SHARE


def main() -> None:
    """Accept the current images."""
    import shutil
    import tempfile

    from playwright.sync_api import sync_playwright

    ACCEPTED.mkdir(exist_ok=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = page_of(browser)
        for name in GALLERY:
            show(page, Path(folder), name)
            page.screenshot(path=KEPT / f"{name}.png")
            charts(page).save(ACCEPTED / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
