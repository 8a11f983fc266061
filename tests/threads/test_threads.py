"""Public threads with a known cause: the diagnosis of each, and the goals of the collection."""

from __future__ import annotations

from collections import Counter

import pytest

from .cases import KNOWN
from .configurations import SET
from .others import FOUND
from .thread import Thread, outcome

BETTER = ("wrong", "silent", "symptom", "caught")


@pytest.mark.parametrize("thread", [*KNOWN, *SET, *FOUND], ids=lambda thread: thread.at)
def test_messages(thread: Thread) -> None:
    got, diagnosis = outcome(thread)
    assert BETTER.index(got) >= BETTER.index(thread.expect), diagnosis


@pytest.mark.parametrize("threads", [(*KNOWN, *SET), FOUND], ids=["collection", "found elsewhere"])
def test_the_goals(threads: tuple[Thread, ...]) -> None:
    sums = Counter(outcome(thread)[0] for thread in threads)
    assert sums["wrong"] == 0
    assert sums["caught"] >= 0.7 * len(threads)
