"""Draws the pictures in the README from bundled runs: ``make pictures`` writes docs/pictures. Needs Chromium on the
path.

rich draws the terminal as SVG, without the fonts that a browser would fetch. The report is the page of ``grpo-doctor
demo`` in headless Chromium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
LOG = "tests/data/trl/never-pays/train.log"
WIDTH, HEIGHT = 1000, 900
ENVIRONMENT = {"COLUMNS": "96", "PYTHONPATH": ".", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
CHROMIUM = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
).split()


def terminal(*words: str) -> str:
    """Return a command and its output as SVG."""
    command = [sys.executable, "-m", "grpo_doctor", *words, "--color"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT)
    console = Console(record=True, width=98, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    console.print(Text(f"$ grpo-doctor {' '.join(words)}\n"), Text.from_ansi(done.stdout))
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="grpo-doctor"), flags=re.DOTALL)


def report(page: Path, picture: Path) -> None:
    """Return the first screen of a page as PNG."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("make pictures needs Chromium on the path")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [chromium, *CHROMIUM, f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}",
             f"--screenshot={picture}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "terminal.svg").write_text(terminal("analyze", LOG), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "demo.html"
        demo = [sys.executable, "-m", "grpo_doctor", "demo", "--no-browser", "--out", str(page)]
        subprocess.run(demo, check=True, capture_output=True, cwd=ROOT)
        report(page, PICTURES / "report.png")


if __name__ == "__main__":
    main()
