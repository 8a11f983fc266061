"""Settings for every test: one thread, because matrices are small, and few examples of hypothesis. The examples depend
neither on time nor on chance, so they are the same each time: ``python -m tests.fuzz`` searches for new ones."""

import gc
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import settings

from tests.browser import browser as browser
from tests.corpus_path import SHARED

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("steady")
vars(typer.testing)["_get_command"] = cache(typer.main.get_command)  # a runner would build all commands for each call
gc.disable()  # hundreds of thousands of objects come with what is imported, and none of them ever goes


absent = pytest.StashKey[dict[str, int]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests whose third-party data is absent, and count them by path for the summary."""
    left_out: dict[pytest.Item, str] = {}
    for item in items:
        missing = [str(mark.args[0]) for mark in item.iter_markers("needs") if not mark.args[0].exists()]
        if missing:
            left_out[item] = missing[0]
    config.stash[absent] = dict(Counter(left_out.values()))
    if (worker := getattr(config, "workeroutput", None)) is not None:
        worker["absent"] = config.stash[absent]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the counts from an xdist worker: each worker collects every test."""
    node.config.stash[absent] = getattr(node, "workeroutput", {}).get("absent", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print one line for each folder of absent third-party data, with the number of tests that read it."""
    folders: Counter[str] = Counter()
    for path, count in config.stash.get(absent, {}).items():
        folders[str(SHARED) if Path(path).is_relative_to(SHARED) else str(Path(path).parent)] += count
    for folder, count in folders.items():
        terminalreporter.write_line(
            f"{count} tests read third-party data in {folder}, which is absent: make corpus-fetch"
        )


def pytest_collection_finish() -> None:
    """Exclude everything imported so far from garbage collection, so only objects of the tests are scanned."""
    gc.freeze()
    gc.enable()
