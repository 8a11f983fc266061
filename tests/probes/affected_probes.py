"""Selects the probes that a change of a correct trainer can affect: the others need not run again on every wrong
variant.

A probe is deterministic: its random states are fixed, and everything that it changes is restored. A probe that uses
nothing that a variant changes therefore has the same result as on the correct trainer, which is measured once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from grpo_doctor.diagnosis.catalogue import Catalogue, load
from grpo_doctor.probes import Adapter
from grpo_doctor.probes.runner import examine


class Uses(NamedTuple):
    """The names of a trainer's attributes and methods that are used: to make its adapter, and by each probe."""

    making: frozenset[str]
    probes: dict[str, frozenset[str]]


@functools.cache
def uses(kind: type[Any], make: Callable[[type[Any]], Adapter]) -> Uses:
    """Return what a correct trainer of this kind uses; ``make`` gives the adapter of a kind."""
    used: set[str] = set()

    def noted(self: Any, name: str) -> Any:
        used.add(name)
        return object.__getattribute__(self, name)

    adapter = make(type(kind.__name__, (kind,), {"__getattribute__": noted}))
    making, probes = frozenset(used - adapter.seams.keys()) | {"__init__"}, {}
    for result in examine(adapter, load(), {}):
        probes[result.check.code] = frozenset({*used, *result.called, *result.check.probe_arguments})
        used.clear()
    return Uses(making, probes)


def reached(twin: type[Any], kind: type[Any], make: Callable[[type[Any]], Adapter]) -> Catalogue:
    """Return the probes that a wrong variant of this kind may change; all of them if its adapter is made
    differently."""
    ancestors = twin.__mro__[: twin.__mro__.index(kind)]
    changed = {name for ancestor in ancestors for name in vars(ancestor)} - {"__module__", "__doc__"}
    making, probes = uses(kind, make)  # type: ignore[arg-type]  # mypy takes the hash of a class for its instances'
    catalogue = load()
    return catalogue if changed & making else catalogue.select([c for c, used in probes.items() if changed & used])
