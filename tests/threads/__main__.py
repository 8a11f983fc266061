"""``python -m tests.threads``: prints the diagnoses of public threads, one line each, and the totals."""

from __future__ import annotations

import sys
from collections import Counter

from .cases import KNOWN
from .configurations import SET
from .others import FOUND
from .thread import Thread, outcome


def table(threads: tuple[Thread, ...]) -> Counter[str]:
    """Print one line per thread, and how often each outcome occurred."""
    sums: Counter[str] = Counter()
    for thread in threads:
        got, diagnosis = outcome(thread)
        sums[got] += 1
        print(
            f"{got:8} {thread.at:46} {diagnosis.verdict}, {diagnosis.cause or 'no cause'}: {diagnosis.headline[:110]}"
        )
    share = sums["caught"] / max(sum(sums.values()), 1)
    print(
        ", ".join(f"{sums[name]} {name}" for name in ("caught", "symptom", "silent", "wrong")), f"({share:.0%} right)\n"
    )
    return sums


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    print("threads of the collection whose evidence is a log")
    sums = table(KNOWN)
    print("threads of the collection whose evidence is a setting")
    sums += table(SET)
    print("threads found elsewhere")
    sums += table(FOUND)
    sys.exit(int(sums["wrong"] > 0))
