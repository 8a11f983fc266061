"""``python -m benchmarks.corpus.manifest LABELS``: writes ``manifest.csv`` from the labels and the files next to them.

The manifest contains only facts: where each log is published, its checksum, and the label. No log is in the repository.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from . import tables

MANIFEST = Path(__file__).with_name("manifest.csv")
COPIED = (
    "id", "file", "repo", "path", "commit", "format", "framework", "kind", "label", "expect", "families", "onset",
    "steps", "true_rows", "runs_in_file", "label_confidence",
)  # fmt: skip
"""Columns taken from the labels as they are."""
COLUMNS = (*COPIED, "judged_by", "split", "bytes", "sha256")
ALTERED = {"R142", "R229", "R308"}
"""Logs in which addresses of persons were replaced after collection: the published files have no checksum here."""
FIRST_ROUND = 200
"""Logs up to R200 were at hand while the first rules were written; later ones were scored before any rule met them."""


def row(label: dict[str, str], folder: Path) -> dict[str, str | int]:
    """One row of the manifest: the label, who judged it, and the checksum of the file."""
    content = (folder / label["file"]).read_bytes()
    sources = label["label_source"].lower().replace("-", " ")
    judged_by = [who for who in ("authors", "by eye") if who in sources]
    return {
        **{name: label[name] for name in COPIED},
        "judged_by": ";".join(judged_by),
        "split": "tuning" if int(label["id"][1:]) <= FIRST_ROUND else "first seen after the rules",
        "bytes": len(content),
        "sha256": "" if label["id"] in ALTERED else hashlib.sha256(content).hexdigest(),
    }


def main() -> None:
    """Write the manifest next to this file."""
    labels = Path(sys.argv[1])
    tables.write(MANIFEST, COLUMNS, [row(label, labels.parent) for label in tables.read(labels)])


if __name__ == "__main__":
    main()
