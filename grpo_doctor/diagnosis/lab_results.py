"""Results of the experiments that pages and reports quote (``measured.json``, written by ``grpo-doctor lab``).

Every run is in ``docs/evidence/lab.parquet`` of the repository, with the command that repeats it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("measured.json")
UNMEASURED = "not measured yet"
ARMS = {"mended": ", fixed in place,", "rolled-back": ", fixed and rolled back,"}
"""Suffixes of an experiment's name for changes that are not remedies."""
VERDICTS = {"recovers": "recovers", "helps": "helps", "does nothing": "no effect", "harms": "makes it worse"}
"""Display names of the verdicts of the experiments."""
OUTCOMES = VERDICTS | {"helps": "improves", "does nothing": "does not improve", "harms": "gets worse"}
"""The verdicts as predicates of an experiment with a remedy."""


class Share(msgspec.Struct, frozen=True):
    """Number of cases (projects and faults) in which the causes named with one confidence were correct, with the 95%
    interval of the share."""

    right: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        interval = f"95% interval {self.low:.0%} to {self.high:.0%}"
        return f"correct in {self.right} of {self.of} such cases while the checks were written, {interval}"


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the engine without a remedy: mean scores of the last steps, and the step at which a check found the
    fault.

    Attributes:
        codes: the checks that should find the fault.
        begins: the first step with the fault, out of ``steps``.
        alone, twin: score with the fault, and score of the same run without it.
        by: the check that found the fault first during training.
        named, reward: the steps at which the fault was found, and at which the reward checks alone found a problem;
            medians over the seeds, None if the median is after the end of the run.
    """

    codes: list[str]
    seeds: int
    begins: int
    steps: int
    alone: float
    twin: float
    by: str | None
    named: float | None
    reward: float | None

    @property
    def lead(self) -> float | None:
        """Minimum number of steps by which the fault was found before the reward checks found a problem, or None if the
        fault was not found."""
        return None if self.named is None else (self.steps if self.reward is None else self.reward) - self.named

    def __str__(self) -> str:
        return f"has a score of {self.alone:.2f} with the fault and {self.twin:.2f} without it ({_seeds(self.seeds)})"

    def early(self, fault: str) -> str:
        """Return a sentence that states how early the fault was found."""
        assert self.lead is not None
        shown = "do not find it by the last step" if self.reward is None else f"find it at step {self.reward:.0f}"
        return (
            f"`{fault}`, active since step {self.begins}: the check finds it at step {self.named:.0f}; "
            f"the reward checks alone {shown} "
            f"(lead: {self.lead:.0f} step{'s' * (self.lead != 1)}, {self.lead / self.steps:.0%} of the run; "
            f"{_seeds(self.seeds)})"
        )


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a remedy on a fault: mean scores of the last steps without the remedy, with it, and without the
    fault."""

    fault: str
    arm: str
    remedy: str
    seeds: int
    alone: float
    end: float
    twin: float
    recovered: float | None
    verdict: str

    def __str__(self) -> str:
        speed = f" in {self.recovered:.0f} steps" if self.recovered is not None and self.verdict == "recovers" else ""
        return (
            f"experiment `{self.fault}`{ARMS.get(self.arm, '')} {OUTCOMES[self.verdict]}{speed} "
            f"(score {self.end:.2f}, compared with {self.alone:.2f} without a remedy "
            f"and {self.twin:.2f} without the fault; {_seeds(self.seeds)})"
        )


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All results: calibration by confidence, faults, and the effects of remedies."""

    calibration: dict[str, Share] = {}
    faults: dict[str, Harm] = {}
    treatments: list[Treatment] = []

    def tried(self, code: str, remedy: str) -> list[Treatment]:
        """Return the effect of a remedy on the faults that this check should find."""
        return [t for t in self.treatments if t.remedy == remedy and code in self.faults[t.fault].codes]


@lru_cache(maxsize=1)
def stored() -> Measured:
    """Return the stored results."""
    return msgspec.json.decode(FILE.read_bytes(), type=Measured)


def of_lab(fault: str, arm: str = "mended") -> str:
    """Return the effect of a remedy on a fault of the engine; without a remedy, the scores with and without the
    fault."""
    found = stored()
    treated = next((str(t) for t in found.treatments if (t.fault, t.arm) == (fault, arm)), None)
    if treated is None and fault not in found.faults:
        return f"{UNMEASURED}: `{fault}`"
    return treated or f"experiment `{fault}` {found.faults[fault]}"


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"
