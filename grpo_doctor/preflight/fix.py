"""Creates a patch that corrects renamed and misspelled keys."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from .configuration import Configuration


def patch(path: Path, found: Configuration) -> str:
    """Return a unified diff that corrects renamed or misspelled keys. The diff is empty if no change is safe."""
    if not found.renames or path.suffix == ".ipynb":
        return ""
    before = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    after = list(before)
    for line, old, new in found.renames:
        if 0 < line <= len(after):
            spelt = re.escape(old).replace("_", "[_-]")
            after[line - 1] = re.sub(rf"(?<![\w]){spelt}(?=\s*[=:]|\s)", new, after[line - 1], count=1)
    return "".join(difflib.unified_diff(before, after, str(path), str(path)))
