"""Selects the responses that prove a finding: up to three from before the onset and three from after the onset, side by
side."""

from __future__ import annotations

from itertools import chain, islice, zip_longest
from typing import NamedTuple

from ..diagnosis.check import Finding
from ..diagnosis.verdict import Diagnosis
from ..rollouts.words import SIGNS
from ..run import Run, Sample
from .redaction import cleaned

SIDE = 3
"""Maximum number of responses from before the onset, and from after the onset."""
_SHOWN, _CALL = 360, 120
"""Maximum length, in characters, of a shown response and of a shown tool call."""


class Proof(NamedTuple):
    """A finding with responses from before its onset (without the problem) and from after its onset (with the
    problem)."""

    finding: Finding
    before: list[str]
    after: list[str]

    @property
    def title(self) -> str:
        return f"Responses that show {self.finding.code}"

    @property
    def head(self) -> list[str]:
        step = self.finding.onset_step
        return [f"before step {step}", f"since step {step}"]

    @property
    def rows(self) -> list[list[str]]:
        """Return one table row per pair of responses."""
        return [list(pair) for pair in zip_longest(self.before, self.after, fillvalue="")]


def proofs(diagnosis: Diagnosis) -> list[Proof]:
    """Return the proofs of all findings that responses can show, in the order of the findings."""
    found = []
    for finding in diagnosis.findings:
        signs = {sign for sign, codes in SIGNS.items() if finding.code in codes}
        if signs and (after := _after(diagnosis.run, finding.onset_step, signs)):
            found.append(Proof(finding, _before(diagnosis.run, finding.onset_step, signs), after))
    return found


def _after(run: Run, onset: int, signs: set[str]) -> list[str]:
    rows = (run.samples[row] for row in sorted(run.samples) if run.steps[row] >= onset)
    shown = (s for s in chain.from_iterable(rows) if signs.intersection(s.signs or ()))
    return [_text(sample) for sample in islice(shown, SIDE)]


def _before(run: Run, onset: int, signs: set[str]) -> list[str]:
    rows = (run.samples[row] for row in sorted(run.samples, reverse=True) if run.steps[row] < onset)
    shown = (s for s in chain.from_iterable(rows) if signs.isdisjoint(s.signs or ()))
    return [_text(sample) for sample in islice(shown, SIDE)]


def _text(sample: Sample) -> str:
    """Return a response with its step, reward and tool calls, redacted and shortened."""
    shown = cleaned(sample)
    reward = "" if shown.reward is None else f", reward {shown.reward:.3g}"
    calls = [
        f"→ {_cut(f'{call.name}({call.arguments})', _CALL)}: {_cut(call.result or call.failure or '', _CALL)}"
        for call in (shown.calls or [])[:SIDE]
    ]
    reference = f"\nreference: {_cut(shown.reference[0], _CALL)}" if shown.reference else ""
    return "\n".join([f"step {shown.step}{reward}: {_cut(shown.response, _SHOWN)}", *calls]) + reference


def _cut(text: str, most: int) -> str:
    """Return the beginning and the end of a text, because loops and answers are at the end."""
    return text if len(text) <= most else f"{text[: most // 2]} […] {text[-most // 2 :]}"
