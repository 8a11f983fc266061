"""``python -m benchmarks.corpus.fetch [FOLDER]``, or ``make corpus-fetch``: downloads the labelled logs.

The logs are those of the manifest and, under ``first-sight``, those of ``first_sight.csv``.

Each log is downloaded at its commit from its public repository and kept only if its checksum is that of the manifest;
existing logs are not downloaded again. Then ``GRPO_DOCTOR_CORPUS=FOLDER make corpus`` measures the accuracy. Exit code
1 if a log is unavailable; each is named with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from . import tables
from .first_sight import stored
from .manifest import MANIFEST

PUBLISHED = "https://raw.githubusercontent.com"
TIME_LIMIT = 60.0
"""Seconds without an answer after which a download is given up."""


MOST_BYTES = 1 << 24
"""Bytes of a log at most; the largest of the manifest has 4 MB."""


def wanted() -> list[dict[str, str]]:
    """The rows of the manifest."""
    return tables.read(MANIFEST)


def is_of(row: dict[str, str], content: bytes) -> bool:
    """Whether this is the file of the row; its commit alone says so where the manifest has no checksum."""
    return not row["sha256"] or hashlib.sha256(content).hexdigest() == row["sha256"]


def fetched(row: dict[str, str], folder: Path, published: str = PUBLISHED) -> str:
    """Brings one log into ``folder``; why it could not be had, empty where it is there."""
    target = folder / row["file"]
    if target.is_file() and is_of(row, target.read_bytes()):
        return ""
    if row["commit"] == "issue":
        return f"it was posted in a thread: copy it from {row['path']} into {target}"
    address = f"{published}/{row['repo']}/{row['commit']}/{quote(row['path'])}"
    try:
        with urlopen(address, timeout=TIME_LIMIT) as answer:
            content = answer.read(MOST_BYTES)
    except (URLError, TimeoutError) as error:
        return f"{address}: {error}"
    if not is_of(row, content):
        return f"{address} is not the file of the manifest: its checksum differs"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return ""


def main() -> int:
    """Brings every log and the labels; the number of logs that are missing, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/corpus/logs"))
    parser.add_argument("--from", dest="published", default=PUBLISHED, help="another server of the same paths")
    chosen = parser.parse_args()
    missing = 0
    published = [row for row in stored() if row["repo"] != "unknown"]
    for row in (rows := [*wanted(), *published]):
        if problem := fetched(row, chosen.folder, chosen.published):
            missing += 1
            print(f"{row['id']}: {problem}", file=sys.stderr)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(MANIFEST, chosen.folder / "labels.csv")
    print(f"{len(rows) - missing} of {len(rows)} logs are in {chosen.folder}")
    print(f"score them: GRPO_DOCTOR_CORPUS={chosen.folder} make corpus")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
