"""The promises in the documents: numbered, each with an existing test or a note that there is none yet."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("docs/trust.md", ".github/SECURITY.md")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ITEM = re.compile(r"^(\d+)\. (.+(?:\n {2,}.+)*)", re.MULTILINE)


def items(page: str) -> dict[int, str]:
    return {int(number): words for number, words in ITEM.findall((ROOT / page).read_text(encoding="utf-8"))}


@pytest.mark.parametrize("page", PAGES)
def test_each_test_that_a_page_names_exists(page: str) -> None:
    named = TEST.findall((ROOT / page).read_text(encoding="utf-8"))
    assert named
    for file in {file for file, _ in named}:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {test for at, test in named if at == file} <= known, file


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_has_a_test_or_states_that_it_has_none(page: str) -> None:
    found = items(page)
    assert [*found] == [*range(1, len(found) + 1)]
    bare = [
        number
        for number, words in found.items()
        if not TEST.search(words) and "to be tested" not in " ".join(words.lower().split())
    ]
    assert bare == []


def test_the_security_policy_promises_only_what_a_test_holds() -> None:
    assert all(TEST.search(words) for words in items(".github/SECURITY.md").values())
