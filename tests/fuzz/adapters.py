"""Adapters as faulty user code: functions that raise or return impossible values, and objects of the wrong type."""

from __future__ import annotations

import dataclasses
import math
import random
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.limits import OverBudgetError
from grpo_doctor.probes import Adapter, AdapterError, run_probes
from grpo_doctor.probes.entry_points import RESOURCES
from tests.probes.reference import Reference

PROBES = 3
"""Probes of one adapter: all of them would take a second."""


class Wordless(Exception):  # noqa: N818 - what users raise is called anything
    """An error without a printable message."""

    def __str__(self) -> str:
        raise ValueError("no words")


RAISED: list[BaseException] = [
    KeyError("prompt"), ValueError("\x1b[31mred\n::error::"), RuntimeError("CUDA error: device-side assert triggered"),
    IndexError(), StopIteration(3), NotImplementedError(), AssertionError([1]), RecursionError(), MemoryError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), OSError(28, "No space left on device"), SystemExit(0), Wordless(),
    OverBudgetError("a user's"), AdapterError("of the user's own"), signal.ItimerError(),
]  # fmt: skip
ODD: list[Any] = [
    None, 0, -1, 1e308, math.nan, math.inf, 2**70, "", "text", "\ud800", b"\xff", [], [[]], [None], [[-1, 10**9]], [["a"]], {}, (),
    {"input_ids": None}, (1, 2, 3), object(), len, Ellipsis, set(), range(3), iter([1, 2]), torch.tensor([]), torch.tensor(3),
    torch.full((2, 3), math.nan), torch.zeros(1, 0, dtype=torch.long), torch.full((3, 4), -1), torch.ones(2, 2, 2, dtype=torch.bool),
    torch.tensor(1j), torch.ones(3, device="meta"), torch.eye(3).to_sparse(), torch.full((4, 9), 10**12), Exception, True,
]  # fmt: skip
CHANGES: list[Callable[[Any], Any]] = [
    lambda value: value * math.nan, lambda value: value[:-1], lambda value: value[..., :1], lambda value: [value, value],
    lambda value: value.T, lambda value: value.double(), lambda value: value.long(), lambda value: value.tolist(), str,
    lambda value: value.detach(), lambda value: value.requires_grad_(), lambda value: value.bfloat16(), iter, type,
    lambda value: value + 10**9, lambda value: (value,), lambda value: value.numpy(), lambda value: -value, list,
]  # fmt: skip


@cache
def _trainer() -> Reference:
    torch.set_num_threads(1)
    return Reference()


def odd_adapter(rng: random.Random) -> Adapter:
    """Return a correct trainer's adapter with a few faulty functions and sometimes a faulty object. Raises
    `AdapterError`."""
    adapter = _trainer().adapter()
    for name in rng.sample(sorted(adapter.seams), rng.randrange(1, 4)):
        adapter.seams[name] = _odd(rng, adapter.seams[name])
    return dataclasses.replace(
        adapter, **{name: rng.choice(ODD) for name in rng.sample(RESOURCES, rng.choice([0, 0, 1, 2]))}
    )


def _odd(rng: random.Random, seam: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises, returns a wrong value, or returns the correct value as another type."""
    what, raised, value, change = rng.randrange(3), rng.choice(RAISED), rng.choice(ODD), rng.choice(CHANGES)
    calm = rng.choice([0, 0, 1, 3])
    """Calls that go well before."""

    def odd(*arguments: Any, **named: Any) -> Any:
        nonlocal calm
        calm -= 1
        if calm >= 0:
            return seam(*arguments, **named)
        if what == 0:
            raise raised
        return value if what == 1 else change(seam(*arguments, **named))

    return odd


def probe(rng: random.Random, reported: Callable[[Diagnosis, random.Random], None]) -> None:
    """Run some probes on a faulty adapter and render their report."""
    try:
        adapter = odd_adapter(rng)
    except AdapterError:
        return
    codes = rng.sample([code for code, check in load().checks.items() if check.probe is not None], PROBES)
    diagnosis = run_probes(adapter, catalogue=load().select(codes), time_limit=5.0)
    reported(diagnosis, rng)
