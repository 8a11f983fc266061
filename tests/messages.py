"""Writes docs/messages.md: every sentence that a check can put into a report, with sample values.

The sentences are read from the source of the checks, so those of probes and comparisons are included, and from the
traced checks, because rules in tables have no source.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Check
from grpo_doctor.diagnosis.wording import rendered
from tests.test_check_examples import examples

PAGE = Path(__file__).parents[1] / "docs" / "messages.md"
SAMPLES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "message_samples.toml").read_text(encoding="utf-8"))
HEAD = """# Messages

Every message of every check, with sample values. The first messages of a check are those of the examples on its page.
The indented phrases are parts of its messages. `make messages` writes this page.
"""
PATTERN = re.compile(r"[\\|^$]|\{[^a-z]")
"""Regular expressions are not phrases of a message."""
QUOTED = re.compile(r"\w+(?: at step \d+)?: (.+)")
"""The sentence after an example that fires: severity, step and message."""
WORDS = re.compile(r"[a-z]{2}")
OF_EVENTS = ("seen", "message_of")
"""Functions that take kinds of events."""


class Texts(NamedTuple):
    """The texts that one check can write: whole sentences, and the phrases that fill its sentences."""

    sentences: list[str]
    phrases: list[str]


def sample(code: str, message: str) -> str:
    """Return a message of a check with sample values; `‹name›` stands for a word without a sample."""
    own = {**SAMPLES, **SAMPLES.get(code, {})}
    values: dict[str, object] = {}
    for _, name, spec, _ in Formatter().parse(message):
        if not name:
            continue
        value = own.get(name, f"‹{name}›")
        if spec and isinstance(value, str):
            value = 137.0 if ".0f" in spec else 0.42
        values[name] = value
    return rendered(message, values)


def source(check: Check) -> ast.Module:
    """Return the code of a check, including that of a probe in a separate file."""
    functions = (check.predicate, check.conclusion, check.across, check.probe)
    files = dict.fromkeys(function.__code__.co_filename for function in functions if function is not None)
    return ast.parse("\n".join(Path(file).read_text(encoding="utf-8") for file in files))


def row_of(check: Check) -> dict[str, Any]:
    """Return the entry of a rule in a table; empty for other checks."""
    return inspect.getclosurevars(check.predicate).nonlocals.get("row", {}) if check.predicate else {}


@cache
def texts(check: Check) -> Texts:
    """Return the texts that a check can put into a finding."""
    tree = source(check)
    found = Texts([] if check.predicate is None else [check.traced({}).fires.message], [])
    row = row_of(check)
    words = [phrase for _, *both in row.get("phrases", {}).values() for phrase in both]
    found.phrases.extend(phrase for phrase in (*words, *row.get("invalidates", ())) if " " in phrase.strip())
    whole = {id(node) for call in _calls(tree, "fires") for node in ast.walk(call.args[1])}
    kinds = {id(node) for name in OF_EVENTS for call in _calls(tree, name) for node in ast.walk(call)}
    for text, node in _literals(tree):
        if id(node) in whole and text:
            found.sentences.append(text)
        elif id(node) not in kinds and " " in text.strip() and not PATTERN.search(text):
            found.phrases.append(text)
    return Texts(_unique(found.sentences), _unique(found.phrases))


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def _literals(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the strings outside docstrings; those that contain values become templates."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if part is not node}
            if id(node) not in skipped:
                yield "".join(map(_part, node.values)), node
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value, node


def _part(node: ast.expr) -> str:
    """Return a part of an f-string: its words, or a placeholder that names the value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    value = node.value
    if isinstance(value, ast.Call) and value.args:
        value = value.args[0]  # number(level), counted(steps, 'step')
    parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
    spec = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
    name = value.id if isinstance(value, ast.Name) else "value"
    return f"{{{name}{':' + spec if spec else ''}}}"


def _unique(found: list[str]) -> list[str]:
    return list(dict.fromkeys(found))


def quoted(check: Check) -> list[str]:
    """Return the messages that the examples on the page of a check quote."""
    return _unique([found[1] for one in examples(check) if (found := QUOTED.fullmatch(one.expected))])


def entry(check: Check) -> str:
    """Return the section of the page on one check: the messages that its examples quote, and the others with sample
    values."""
    found, shown = texts(check), quoted(check)
    sentences = [text for text in found.sentences if WORDS.search(_without_values(text))]
    shown += [sample(check.code, text) for text in sentences if not any(_form(text).fullmatch(one) for one in shown)]
    phrases = [sample(check.code, text) for text in found.phrases if not any(_form(text).search(one) for one in shown)]
    lines = [f"## {check.code} {check.name}", "", check.title, ""]
    lines += [f"- {sentence}" for sentence in shown]
    lines += [f"    - {phrase.strip(' ,;.:')}" for phrase in phrases]
    return "\n".join(lines).rstrip()


def _without_values(text: str) -> str:
    return "".join(literal for literal, *_ in Formatter().parse(text))


def _form(text: str) -> re.Pattern[str]:
    """Return the pattern of the messages that a template can produce."""
    parts = (re.escape(literal) + ("" if name is None else ".*?") for literal, name, *_ in Formatter().parse(text))
    return re.compile("".join(parts))


def page() -> str:
    """Return the whole page."""
    return HEAD + "\n" + "\n\n".join(map(entry, load().checks.values())) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
