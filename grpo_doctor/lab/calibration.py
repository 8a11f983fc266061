"""Measures how often named causes are correct, for each level of confidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from ..diagnosis.lab_results import Share
from ..engine.faults import FAULTS
from .arms import ALONE, HEALTHY, REFERENCE
from .judge import Row

Z = 1.96
"""Normal quantile for a 95% interval."""


class Case(NamedTuple):
    """One run whose headline names a cause: the project or fault of the run, and whether the cause is correct."""

    of: str
    confidence: str
    right: bool


def cases_of_lab(rows: Iterable[Row]) -> Iterator[Case]:
    """Yield the cases from the experiments. A cause is correct if it is one of the checks that should find the fault.

    Reference runs under the conditions of a fault are not counted, because these conditions may themselves be a
    problem.
    """
    for row in rows:
        well = row.arm == REFERENCE and row.fault == HEALTHY
        if (well or row.arm == ALONE) and row.cause is not None and row.confidence is not None:
            own = () if well else FAULTS[row.fault].named_by
            yield Case(f"fault {row.fault}", row.confidence, row.cause in own)


def cases_of_logs(rows: Sequence[Mapping[str, str]]) -> Iterator[Case]:
    """Yield the cases from the labelled logs. A cause is correct if the label contains its family (the prefix of its
    code). Logs that fail for an unknown reason, and causes of families that no label contains, are not counted."""
    judged = {family for row in rows for family in row["families"].split()}
    for row in rows:
        families, well = row["families"].split(), {"healthy", "unproven"} & set(row["expect"].split("|"))
        if row["cause"][:-3] in judged and (families or well):
            yield Case(row["repo"], row["confidence"], row["cause"][:-3] in families)


def calibrated(cases: Iterable[Case]) -> dict[str, Share]:
    """Count, for each level of confidence, the projects and faults for which every named cause is correct.

    Runs of one project, and seeds of one fault, resemble each other, so they count as one case. A single wrong cause
    makes the case wrong.
    """
    by_kind: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        by_kind[case.confidence][case.of].append(case.right)
    return {kind: share([all(rights) for rights in by_kind[kind].values()]) for kind in sorted(by_kind)}


def share(rights: Sequence[bool]) -> Share:
    """Return the share of correct cases, with Wilson's interval (Wilson 1927, JASA 22:209)."""
    n = len(rights)
    p, z2 = sum(rights) / n, Z * Z / n
    middle, half = (p + z2 / 2) / (1 + z2), Z * sqrt(p * (1 - p) / n + z2 / n / 4) / (1 + z2)
    return Share(right=sum(rights), of=n, low=round(middle - half, 3), high=round(middle + half, 3))
