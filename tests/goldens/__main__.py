"""Writes or compares the snapshots: ``python -m tests.goldens [write|check|diff REV|words REV] [PART ...]``.

``write`` describes every input again, ``check`` prints what differs from the files, and ``diff REV`` counts by kind
what the files change against a revision: verdicts, first sentences, findings, columns, settings. ``words REV`` shows
that they differ in words only: codes, verdicts, severities, roles, steps and all other numbers are equal.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from pathlib import Path

from .blocks import PARTS, block, blocks_of

HERE = Path(__file__).parent
KINDS = (
    ("row or column", re.compile(r" run |  = ")),
    ("training", re.compile(r" training ")),
    ("settings", re.compile(r"  settings ")),
    ("unused keys", re.compile(r"  unused ")),
    ("finding", re.compile(r"  [A-Z]{3}\d{3} ")),
    ("verdict or first sentence", re.compile(r" (?:failing|suspect|healthy|unproven|unjudged) ")),
    ("input", re.compile(r"## | unreadable")),
)


def _described(task: tuple[str, str]) -> str:
    return block(*task)


def described(part: str) -> dict[str, str]:
    """Return every block of one part, described again; empty if its inputs are absent."""
    names = list(PARTS[part][0]())
    with ProcessPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(_described, [(part, name) for name in names]), strict=True))


def stored(part: str) -> dict[str, str]:
    """Return the blocks in the snapshot."""
    path = HERE / f"{part}.txt"
    return blocks_of(path.read_text(encoding="utf-8")) if path.exists() else {}


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the added and removed lines, under the name of their input."""
    lines: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "").splitlines(), after.get(name, "").splitlines()
        changed = [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ")]
        lines += [f"@ {name}", *changed] if changed else []
    return lines


def counted(lines: list[str]) -> str:
    """Return how many lines of each kind were added and removed."""
    kinds = Counter(
        (next((kind for kind, shape in KINDS if shape.match(line[2:])), "other"), line[0])
        for line in lines
        if line[0] in "+-"
    )
    inputs = sum(line.startswith("@ ") for line in lines)
    rows = [
        f"{kind:28} -{kinds[kind, '-']} +{kinds[kind, '+']}" for kind, _ in KINDS if kinds[kind, "-"] + kinds[kind, "+"]
    ]
    return "\n".join([f"{inputs} inputs differ", *rows])


FACTS = re.compile(
    r"\b[A-Z]{2,3}\d{3}\b|\b(?:failing|suspect|healthy|unproven|unjudged|critical|error|warning|info|low|medium|high|outcome"
    r"|cause|symptom|note)\b|\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
)


def facts(text: str) -> list[str]:
    """Return codes, verdicts, severities, confidences, roles and numbers of a result, without its words."""
    found = FACTS.findall(text)
    return [f"{float(fact.replace(',', '')):.6g}" if fact[0].isdigit() else fact for fact in found]


def beyond_words(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the inputs whose results differ in more than words, each with its first differing fact."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        pairs = zip_longest(facts(before.get(name, "")), facts(after.get(name, "")))
        if (first := next(((old, new) for old, new in pairs if old != new), None)) is not None:
            found.append(f"@ {name}: {first[0]} became {first[1]}")
    return found


def _at(revision: str, part: str) -> dict[str, str]:
    shown = subprocess.run(
        ["git", "show", f"{revision}:./{part}.txt"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return blocks_of(shown.stdout)


def main(words: list[str]) -> int:
    """Return 1 if ``check`` finds a difference, or ``words`` a difference in more than words."""
    action, *rest = words or ["check"]
    against = {"diff": differences, "words": beyond_words}.get(action)
    revision = rest.pop(0) if against else ""
    lines: list[str] = []
    for part in rest or list(PARTS):
        if against:
            lines += against(_at(revision, part), stored(part))
            continue
        found = described(part)
        if action == "write" and found:
            (HERE / f"{part}.txt").write_text("\n".join(found.values()) + "\n", encoding="utf-8")
        elif found:
            lines += differences(stored(part), found)
    print("\n".join([*lines, *([counted(lines)] if lines else [])]))
    return int(action in ("check", "words") and bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
