"""Computes the share of identical responses of two runs, if the logs of both runs contain responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ..run import Run


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Responses to the same prompt at the same step: number of compared responses, number of identical responses, and
    the first step with a difference."""

    compared: int
    same: int
    parted: int | None

    @property
    def share(self) -> float:
        return self.same / self.compared


def agreement(base: Sequence[Run], new: Sequence[Run]) -> Agreement | None:
    """Compare the first run of each side. Return None if the runs share no prompt at any step."""
    kept = [_texts(runs[0]) for runs in (base, new)]
    compared = same = 0
    parted = None
    for step, prompt in sorted(kept[0].keys() & kept[1].keys()):
        one, other = kept[0][step, prompt], kept[1][step, prompt]
        most, equal = min(one.total(), other.total()), (one & other).total()
        compared, same = compared + most, same + equal
        if equal < most and parted is None:
            parted = step
    return Agreement(compared=compared, same=same, parted=parted) if compared else None


def _texts(run: Run) -> dict[tuple[int, str], Counter[str]]:
    texts: dict[tuple[int, str], Counter[str]] = {}
    for row, samples in run.samples.items():
        for sample in samples:
            if sample.prompt is not None:
                texts.setdefault((int(run.steps[row]), sample.prompt), Counter())[sample.response] += 1
    return texts
