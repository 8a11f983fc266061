"""Reduced failures that the fuzzer has found, and a few hundred new inputs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz import target
from tests.fuzz.__main__ import SHARES, drawn, fault, inputs, smaller

FOUND = sorted(Path(__file__).with_name("corpus").iterdir())
SLICE = 150
FEW = 4
"""Inputs of kinds that take long."""


def named(path: Path) -> str:
    """Return kind and name of an input from ``log-why-name.jsonl``."""
    kind, _, name = path.name.partition("-")
    return kind if kind in target.SEEDED else f"{kind}/{name}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_inputs_that_broke_it_before_are_handled(path: Path, tmp_path: Path) -> None:
    assert fault(named(path), path.read_bytes(), tmp_path) == ""


@pytest.mark.parametrize("kind", SHARES)
def test_the_seeds_of_mutations_are_handled(kind: str, tmp_path: Path) -> None:
    held = inputs(real=False).get(kind) or {"7": b"7"}
    held = held if kind in ("log", "config") else dict(list(held.items())[:FEW])
    found = {
        name: fault(kind if kind in target.SEEDED else f"{kind}/{name}", held[name], tmp_path, 0.3) for name in held
    }
    assert found == dict.fromkeys(held, "")


def test_new_inputs_are_read_or_refused_in_a_line(tmp_path: Path) -> None:
    held = inputs(real=False)
    wrong = {n: w for n in range(SLICE) if (w := fault(*drawn(n, 23, held), tmp_path, 0.1))}
    assert wrong == {}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "begins", "run", "ends"),
    [
        ("log/a.log", b"'a': 1", b", '", b"}x\n"),
        ("config/a.yaml", b"", b"\n", b"a: 1: 2\npython train.py --lr 1e-6\n"),
        ("config/a.yaml", b"a: |\n  ", b"&&a=", b"\n"),
        ("config/a.toml", b"", b'"', b""),
    ],
)
def test_a_long_repetition_of_one_piece_is_read_in_linear_time(
    name: str, begins: bytes, run: bytes, ends: bytes, tmp_path: Path
) -> None:
    """Each of these inputs took minutes, because an expression searched for its end after every piece."""
    assert fault(name, begins + run * ((1 << 18) // len(run)) + ends, tmp_path, 0) == ""


def test_a_failure_is_reported_and_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(path: Path, rng: random.Random, judged: float) -> None:
        if b"odd" in path.read_bytes():
            raise KeyError("unforeseen")

    monkeypatch.setattr(target, "log", breaks)
    content = b"one\ntwo odd\nthree\n" * 9
    wrong = fault("log/a.log", content, tmp_path)
    assert wrong.startswith("KeyError test_fuzz.py:")
    assert smaller("log/a.log", content, wrong, tmp_path) == b"odd"
    assert fault("log/a.log", b"one", tmp_path) == ""
