"""What the experiments came to, as pages and reports quote it: ``measured.json``, which ``grpo-doctor lab`` writes.

Every run behind these figures stands in ``docs/evidence/lab.parquet`` of the repository, with the command that repeats
it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("measured.json")
UNMEASURED = "not measured yet"


class Share(msgspec.Struct, frozen=True):
    """In how many projects and faults every cause of a confidence was right, with the 95 % interval of the share."""

    right: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        interval = f"95 % interval {100 * self.low:.0f} to {100 * self.high:.0f} %"
        return f"right in {self.right} of {self.of} such cases, {interval}"


class Harm(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the engine left alone: mean scores of the last steps, and when it was named.

    Attributes:
        codes: of the checks that should name it.
        begins: the first step that is sick, of ``steps``.
        alone, twin: score with the fault, and of the healthy twin.
        by: the check that named it first while it trained.
        named, reward: the steps at which it was named, and at which a doctor that sees the reward alone found
            something; medians over the seeds, None where that lies behind the end of the run.
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
    command: str

    @property
    def lead(self) -> float | None:
        """Steps by which it was named earlier, at least; None where it was not named."""
        return None if self.named is None else (self.steps if self.reward is None else self.reward) - self.named

    def __str__(self) -> str:
        return (
            f"score {self.alone:.2f} with the fault, {self.twin:.2f} without it "
            f"({_seeds(self.seeds)}; `{self.command}`)"
        )

    def early(self, fault: str) -> str:
        """How early it was named, in words."""
        assert self.lead is not None
        shown = "shows nothing by the end" if self.reward is None else f"shows it at step {self.reward:.0f}"
        return (
            f"`{fault}`, sick from step {self.begins} on: named at step {self.named:.0f}; the reward alone {shown}, "
            f"{self.lead:.0f} steps or {self.lead / self.steps:.0%} of the run later "
            f"({_seeds(self.seeds)}; `{self.command}`)"
        )


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """What a remedy did for a fault: mean scores of the last steps left alone, treated, and of the healthy twin."""

    fault: str
    arm: str
    remedy: str
    seeds: int
    alone: float
    end: float
    twin: float
    recovered: float | None
    verdict: str
    command: str

    def __str__(self) -> str:
        speed = f" in {self.recovered:.0f} steps" if self.recovered is not None and self.verdict == "recovers" else ""
        return (
            f"`{self.fault}`, {self.arm}: {self.verdict}{speed}; score {self.alone:.2f} left alone, "
            f"{self.end:.2f} treated, {self.twin:.2f} of the healthy twin ({_seeds(self.seeds)}; `{self.command}`)"
        )


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: how often causes of a confidence were right, what each fault did, and each treatment of it."""

    calibration: dict[str, Share] = {}
    faults: dict[str, Harm] = {}
    treatments: list[Treatment] = []

    def tried(self, code: str, remedy: str) -> list[Treatment]:
        """What a remedy did for the faults that this check should name."""
        return [t for t in self.treatments if t.remedy == remedy and code in self.faults[t.fault].codes]


@lru_cache(maxsize=1)
def stored() -> Measured:
    """The stored figures."""
    return msgspec.json.decode(FILE.read_bytes(), type=Measured)


def of_lab(fault: str, arm: str = "mended") -> str:
    """What a treatment did for a fault of the engine, or, where that does no harm, how it ended with it."""
    found = stored()
    treated = next((str(t) for t in found.treatments if (t.fault, t.arm) == (fault, arm)), None)
    if treated is None and fault not in found.faults:
        return f"{UNMEASURED}: `grpo-doctor lab --fault {fault}`"
    return treated or f"`{fault}`: {found.faults[fault]}"


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"
