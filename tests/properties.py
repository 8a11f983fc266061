"""Properties of a diagnosis that hold for every run: each function returns the violations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from grpo_doctor.cli.analyze import Outcome, exit_code
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.remedy_gate import OPPOSED, SIGNS, senseless
from grpo_doctor.diagnosis.verdict import BLUR, SLACK, Diagnosis, same_in_other_words
from grpo_doctor.run import Run
from grpo_doctor.series.reward_components import idle, parts_of

CODES = {"failing": 1, "suspect": 0, "healthy": 0, "unproven": 0, "unjudged": 3}
"""Exit code of `analyze` by verdict."""

CLAIM = re.compile(
    r"\bno (?:reward|metric|update|success rate|training metrics)\b[^.;]*\b(?:is|was|were|are) ", re.IGNORECASE
)
"""A sentence that claims an absence."""

NUMBER = re.compile(r"(?<![\w.-])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(%?)(?![\w])")
NOT_OF_THE_LOG = re.compile(
    r"\(smallest detectable[^)]*\)|at least \d+ times|last \d+ (?:logged )?steps|over the last ten rows|\(line \d+\).*|"
    r"\d+% of the responses are truncated(?= at the length limit \(estimated)|\d+ or \d+ rows|\(\d+ values\)|"
    r"at least \d+ (?:are needed|values)|repeated \d+ times|would give \S+|at most [\d.]+%|usual range \([^)]*\)|published recipes use .*|\bln 2 \(0.693\)|\([A-Z]{3}\d{3}\):|\bp = \S+|of the last \d+|Early indicators?: .*"
)
"""Thresholds, noise, estimates, expectations, codes, medians before a fall, counts of what was read in another way or not
at all, and text of the log itself."""
PERCENT, CLEAR = 100, 5
SUCCESS = {"reward_mean", "success_rate", "eval_score", "loss", "eval_loss", "reward_margin"}


def disagreements(diagnosis: Diagnosis) -> list[str]:
    """Return contradictions between two parts of a report."""
    holds = [f for f in diagnosis.findings if not f.cleared]
    worst = max((f.level for f in holds), default=Severity.INFO)
    verdict, out = diagnosis.verdict, []
    if (worst >= Severity.ERROR) != (verdict == "failing"):
        out.append(f"{verdict}, but the worst that holds is {worst}")
    if (worst is Severity.WARNING) != (verdict == "suspect"):
        out.append(f"{verdict}, but the worst that holds is {worst}")
    if verdict in ("healthy", "unproven") and diagnosis.cause:
        out.append(f"{verdict}, but {diagnosis.cause} heads the report")
    head = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    told = diagnosis.finding(diagnosis.outcome) if diagnosis.outcome else None
    first = told or head  # the cause of what still holds may itself be over
    if first is not None and first.cleared:
        out.append(f"{first.code} heads the report and is over")
    if verdict == "failing" and not any(f is not None and f.level >= Severity.ERROR for f in (told, head)):
        out.append(f"failing, headed by {first.code if first else 'nothing'}")
    words = (head.message.rstrip("."), f"({head.code}): ") if head is not None else ()
    if words and not any(said in diagnosis.headline for said in words):
        out.append(f"{diagnosis.cause} is the cause, and the headline does not say so")
    if exit_code(Outcome([diagnosis]), Severity.ERROR) != CODES[verdict]:
        out.append(f"{verdict}, but the exit code is {exit_code(Outcome([diagnosis]), Severity.ERROR)}")
    return out


def levels(x: np.ndarray) -> Iterator[np.ndarray]:
    """Return every value and every mean of five rows, the means of any number of first or last rows, the highest and the
    lowest mean of a window of rows or of bins, and the share of rows at the minimum and at the maximum."""
    sums = np.concatenate(([0.0], np.cumsum(x)))
    n = np.arange(1, len(x) + 1)
    yield x
    yield sums[1:] / n
    yield (sums[CLEAR:] - sums[:-CLEAR]) / CLEAR  # levels at the row that was best by another series
    for late in range(min(CLEAR, len(x) - 1)):  # a finding keeps its numbers until it clears
        yield (sums[-1 - late] - sums[: -1 - late]) / n[: len(x) - late][::-1]
    for width in (1, 2, 4, 8):
        bins = sums[::width]
        for k in range(2, len(bins) // 2):
            means = (bins[k:] - bins[:-k]) / (k * width)
            yield np.array([means.min(), means.max()])
    yield np.array([x.min(), x.max(), (x == x.min()).sum(), (x == x.max()).sum(), np.median(x)])


def known(run: Run, names: set[str], until: float = np.inf) -> np.ndarray:
    """Return every number that the log contains up to a step: from these series, components, row counts and
    settings."""
    found = [c[run.steps <= until] for name in names if (c := run.column(name)) is not None]
    columns = [c for c in found if c.dtype != object]
    for held in (c for c in found if c.dtype == object):
        names = {name for row in held if isinstance(row, dict) for name in row}
        columns += [np.array([(row or {}).get(n, np.nan) for row in held], float) for n in names if n != "events"]
    found = [part for c in columns if len(x := c[np.isfinite(c)].astype(float)) for part in levels(x)]
    settings = [float(v) for v in run.settings.values() if isinstance(v, int | float)]
    return np.concatenate([*found, run.steps, np.arange(len(run) + 1), settings])


def strange_numbers(found: Diagnosis) -> list[str]:
    """Return the numbers of the first sentence that are not in the log, to the printed digits."""
    text = found.headline
    for quoted in (found.run.ending, found.run.repeated_error):
        text = text.replace(quoted.described, "") if quoted else text
    text = NOT_OF_THE_LOG.sub("", text)
    told = [f for f in found.findings if f.message.removesuffix(".") in found.headline]
    read = SUCCESS.union(
        {"loss", "reward_components", *(sign.field for sign in SIGNS)}, *(load().checks[f.code].columns for f in told)
    )
    ends = {np.inf, *(f.last_step for f in told if f.cleared)}  # a past finding keeps the numbers of its last row
    values, out = np.concatenate([known(found.run, read, end) for end in ends]), []
    for digits, percent in NUMBER.findall(text):
        number, places = float(digits), len(digits.partition("e")[0].partition(".")[2])
        unit = max(10.0**-places, 10.0 ** (np.floor(np.log10(abs(number) or 1)) - 2)) * (1 / PERCENT if percent else 1)
        held = (values, 1 - values) if percent else (values,)  # a share, or that of the others
        if not any((np.abs(v - number * (1 / PERCENT if percent else 1)) <= 0.51 * unit).any() for v in held):
            out.append(digits + percent)
    return out


def unfounded_absences(found: Diagnosis) -> list[str]:
    """Return sentences that claim an absence although an unrecognised series may be present and is not named."""
    unused = found.run.reading.unused if found.run.reading is not None else ()
    said = [note for note in (found.headline, *found.notes) if CLAIM.search(note)] if unused else []
    return [note for note in said if not any(name in note for name in unused)]


def impossible_causes(found: Diagnosis) -> list[str]:
    """Return objections to the cause that the first sentence names: it came later, is the same, or explains another."""
    if f"ause ({found.cause}): " not in found.headline:
        return []
    by_code, run = {f.code: f for f in found.findings}, found.run
    if found.cause is None or found.outcome is None:
        return ["the first sentence names a cause, and the diagnosis has none"]
    cause, outcome = by_code[found.cause], by_code[found.outcome]
    row = (int(run.steps.max()) - int(run.steps.min())) / max(len(run) - 1, 1)
    chain = {outcome.code} | {f.code for f in found.findings if f.explained_by}
    against = {
        "came later": cause.onset_step > outcome.onset_step + max(SLACK, BLUR * len(run)) * row + 1,
        "is the outcome in other words": same_in_other_words(cause, outcome),
        "does not explain the outcome": not chain & set(load().checks[cause.code].explains),
    }
    return [f"{cause.code} {what}" for what, holds in against.items() if holds]


def impossible_remedies(found: Diagnosis) -> list[str]:
    """Return remedies that a declared setting or the log contradicts, and pairs of opposite ones."""
    active = [f for f in found.findings if not f.cleared]
    first = float(found.run.steps.min()) if len(found.run) else 0.0
    offered = {remedy.id for f in active for remedy in f.remedies}
    never_paid = bool(idle(parts_of(found.run.column("reward_components"))))
    told = senseless(found.run.settings, active, first, found.run.column, idle=never_paid)
    senseless_ones = offered & dict(told).keys()
    return [*sorted(senseless_ones), *(" and ".join(pair) for pair in OPPOSED if offered.issuperset(pair))]


PROPERTIES: dict[str, Callable[[Diagnosis], list[str]]] = {
    "severities, verdict, headline and exit code agree": disagreements,
    "no absence is claimed of what was not recognised": unfounded_absences,
    "the cause can be the cause": impossible_causes,
    "no remedy contradicts a setting, the log or another": impossible_remedies,
    "every number of the first sentence is in the log": strange_numbers,
}
"""Properties of every diagnosis, and functions that return their violations."""
