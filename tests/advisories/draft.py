"""Drafts an advisory from a clone of a repository: ``python -m tests.advisories.draft OWNER/NAME CLONE COMMIT``.

The range comes from the tags: with ``--file`` and ``--marker`` from those whose file has a given line, because a patch
release may contain a backported fix; without them, from those that contain the commit.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from grpo_doctor.advisories import advisories
from grpo_doctor.advisories.releases import release

ENTRY = """[[advisory]]
id = "RLA-2026-{number:03}"
package = "{package}"
title = ""
introduced = "{introduced}"
fixed = "{fixed}"
symptom = ""
effect = ""
severity = "warning"
do = "Upgrade to {package} {fixed} or later."
sources = ["{source}"]
verified = "read in source"
read = "{file} at {before} and {after}"
"""


def git(clone: Path, *words: str) -> str:
    """Return the output of git in a clone; empty if it fails."""
    return subprocess.run(["git", "-C", str(clone), *words], capture_output=True, text=True, check=False).stdout


def tags(clone: Path) -> list[str]:
    """Return the tags that are releases, in the order of their versions."""
    numbered = {tag: number for tag in git(clone, "tag").split() if (number := release(tag)) is not None}
    return sorted(numbered, key=numbered.__getitem__)


def with_fix(clone: Path, every: Sequence[str], commit: str, file: str, marker: str, gone: bool) -> list[bool]:
    """Return for each tag whether it has the fix."""
    if not marker:
        holding = set(git(clone, "tag", "--contains", commit).split())
        return [tag in holding for tag in every]
    return [(re.search(marker, git(clone, "show", f"{tag}:{file}")) is not None) is not gone for tag in every]


def draft(repo: str, clone: Path, commit: str, file: str = "", marker: str = "", gone: bool = False) -> str:
    """Return the tags and a draft entry. Raises SystemExit if no tag has the fix."""
    every = tags(clone)
    if file:
        every = [tag for tag in every if git(clone, "ls-tree", tag, "--", file)]
    fixed = with_fix(clone, every, commit, file, marker, gone)
    if True not in fixed:
        raise SystemExit("no release has the fix: write last_affected instead of fixed")
    at = len(fixed) - fixed[::-1].index(False) if False in fixed else 0
    if at in (0, len(every)):
        raise SystemExit("the tags show no release with the bug before one without it")
    subject = git(clone, "log", "-1", "--format=%s", commit).strip()
    number = re.search(r"\(#(\d+)\)", subject)
    source = f"{repo}#{number[1]}" if number else f"{repo}@{commit[:9]}"
    used = max((int(one.id[-3:]) for one in advisories()), default=0)
    changes = [
        f"{tag} {'fixed' if fixed[k] else 'affected'}"
        for k, tag in enumerate(every)
        if k == 0 or fixed[k] != fixed[k - 1]
    ]
    entry = ENTRY.format(
        number=used + 1,
        package=repo.split("/")[-1].lower(),
        introduced=every[0].lstrip("v"),
        fixed=every[at].lstrip("v"),
        source=source,
        file=file or "the function",
        before=every[at - 1],
        after=every[at],
    )
    return f"# {subject}\n# {', '.join(changes)}\n{entry}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repo", help="owner/name")
    parser.add_argument("clone", type=Path)
    parser.add_argument("commit")
    parser.add_argument("--file", default="", help="file that the fix changed")
    parser.add_argument("--marker", default="", help="regular expression of a line that only the fixed code has")
    parser.add_argument("--gone", action="store_true", help="the marker is a line that only the affected code has")
    given = parser.parse_args()
    print(draft(given.repo, given.clone, given.commit, given.file, given.marker, given.gone))
