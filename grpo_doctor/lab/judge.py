"""Judges the results: the outcome of each remedy, and the findings on each run with their steps."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..diagnosis.check import Finding, Severity
from ..diagnosis.examine import diagnose
from ..diagnosis.live import LiveDoctor
from ..diagnosis.verdict import Diagnosis
from ..engine.faults import FAULTS
from ..record import StepRecord, read_records
from ..run import run_of
from .arms import ALONE, COMMON_ADVICE, FIXED, HEALTHY, REFERENCE, ROLLED_BACK, TINY, Job, begins, reference_of, since
from .train import Result

END = 1 / 5
"""Share of the run, at its end, over which the mean score is the result (256 responses in 8 steps)."""
WHOLE = 0.8
"""Share of the reference score at or above which a run counts as recovered."""
WINDOW = 5
"""Length, in steps, of the moving mean that determines the step of the recovery."""
CERTAIN = 2.0
"""Number of standard errors above which a difference between two arms is not attributed to chance."""

Verdict = Literal["recovers", "helps", "does nothing", "harms", ""]


class Row(msgspec.Struct, kw_only=True):
    """One run of the experiments, in the form in which it is stored.

    Attributes:
        since: last step before the remedy; 0 for reference runs and runs without a remedy.
        before: mean score of the last steps before the remedy.
        start: mean score of the first steps (the same number of steps as for ``end``); None for runs with a remedy.
        end, twin: mean score over the last steps of this run, and over the last steps of the reference run.
        error: standard error of ``end``, from the spread of the scores of the last steps.
        recovered: steps after ``since`` until the moving mean of the score first reached `WHOLE` of ``twin``.
        died: why the run ended early, or None if it did not.
        verdict: the verdict on the remedy, over all seeds.
        named, named_step: the first of the expected checks that fired live, and the step at which it fired.
        reward_step: the step at which the reward checks alone found a problem.
        judged, sentence: the verdict on the whole run, and the headline of its diagnosis.
        cause, confidence: the cause in the headline of the run, if any.
        wrong: named causes that do not belong to the fault, each with its confidence.
        weights, date, device: number of trained weights, and date and device of training. Rows that are older than
            these fields have only ``date``, the date of the commit that stored them.
    """

    fault: str
    arm: str
    seed: int
    steps: int
    since: int = 0
    before: float | None = None
    start: float | None = None
    end: float
    twin: float
    error: float = 0.0
    recovered: int | None = None
    died: str | None = None
    verdict: Verdict = ""
    named: str | None = None
    named_step: int | None = None
    reward_step: int | None = None
    judged: str | None = None
    sentence: str | None = None
    cause: str | None = None
    confidence: str | None = None
    wrong: list[str] = []
    command: str
    versions: str
    weights: int | None = None
    date: str = ""
    device: str = ""

    @property
    def share(self) -> float:
        """Return the final score as a share of the reference score."""
        return self.end / self.twin if self.twin else 0.0


def rows(folder: Path, faults: Sequence[str]) -> list[Row]:
    """Return every finished run of these faults and of their reference runs in the folder."""
    found = [_listened(folder, r) for r in _results(folder, dict.fromkeys(map(reference_of, faults)), (REFERENCE,))]
    for alone in _results(folder, faults, (ALONE,)):
        found.append(_listened(folder, alone))
        if found[-1].share < WHOLE:
            found.append(_rolled_back(folder, alone))
        treatments = _results(folder, [alone.fault], (FIXED, *COMMON_ADVICE), alone.seed)
        found += [_treated(folder, result, alone) for result in treatments]
    return _with_verdicts(found)


def _results(folder: Path, faults: Iterable[str], arms: Iterable[str], seed: int | None = None) -> Iterable[Result]:
    for fault in faults:
        seeds = sorted(int(path.name) for path in (folder / fault).glob("[0-9]*")) if seed is None else [seed]
        for job in (Job(fault, arm, number) for number in seeds for arm in arms):
            if (folder / job.path).is_file():
                yield result_of(folder, job)


def result_of(folder: Path, job: Job) -> Result:
    """Return the stored result of a job."""
    return msgspec.json.decode((folder / job.path).read_bytes(), type=Result)


def harmed(folder: Path, faults: Sequence[str], seed: int) -> list[str]:
    """Return the harmful faults, for which the run without a remedy ends below `WHOLE` of the reference run with this
    seed."""
    return [result.fault for result in _results(folder, faults, (ALONE,), seed) if _row(folder, result).share < WHOLE]


def command(fault: str, model: str) -> str:
    """Return the command that repeats the rows of a fault."""
    scale = f" --model {model}" if model != TINY else ""
    return "grpo-doctor lab" + scale + (f" --fault {fault}" if fault != HEALTHY else "")


def _row(folder: Path, result: Result) -> Row:
    twin = result_of(folder, Job(reference_of(result.fault), REFERENCE, result.seed))
    last = round(END * result.steps)
    ended = result.scores[-last:]
    return Row(
        fault=result.fault,
        arm=result.arm,
        seed=result.seed,
        steps=result.steps,
        end=_end(result.scores, result.steps - result.since, last),
        twin=_end(twin.scores, twin.steps, last),
        error=statistics.stdev(ended) / math.sqrt(last) if len(ended) > 1 else 0.0,
        died=result.died,
        command=command(result.fault, result.settings["model"]),
        versions=", ".join(f"{name} {number}" for name, number in result.versions.items()),
        weights=result.weights,
        date=result.date,
        device=result.device,
    )


def _treated(folder: Path, result: Result, alone: Result) -> Row:
    """Judge a run with a remedy."""
    row = _row(folder, result)
    row.since = result.since
    row.before = statistics.fmean(alone.scores[: row.since][-round(END * row.steps) :])
    row.recovered = _reached(result.scores, WHOLE * row.twin)
    return row


def _rolled_back(folder: Path, alone: Result) -> Row:
    """Judge a rollback to the checkpoint before the first failing step, with the fault fixed.

    A checkpoint contains the whole state, so the run continues exactly like the reference run. No training is needed
    (`tests/lab/test_lab.py` trains one rollback and compares the scores).
    """
    twin = result_of(folder, Job(reference_of(alone.fault), REFERENCE, alone.seed))
    healthy, lost = begins(alone.fault, alone.steps) - 1, since(alone.fault, alone.steps)
    scores = twin.scores[healthy : healthy + alone.steps - lost]
    again = msgspec.structs.replace(alone, arm=ROLLED_BACK, since=lost, scores=scores, died=None)
    return _treated(folder, again, alone)


def _end(scores: Sequence[float], planned: int, last: int) -> float:
    """Return the mean over the last planned steps. The score of a step that the run did not reach counts as 0."""
    return math.fsum(scores[planned - last :]) / last


def _reached(scores: Sequence[float], least: float) -> int | None:
    """Return the number of steps until the mean over `WINDOW` steps reaches this level."""
    ends = range(WINDOW, len(scores) + 1)
    return next((end for end in ends if statistics.fmean(scores[end - WINDOW : end]) >= least), None)


# -- what the diagnosis reports ---------------------------------------------------------------------------------


def _listened(folder: Path, result: Result) -> Row:
    """Return the row of a run that starts at the first step. The run is diagnosed live and again at its end."""
    row = _row(folder, result)
    row.start = statistics.fmean(result.scores[: round(END * row.steps)])
    records = (folder / Job(result.fault, result.arm, result.seed).path).with_suffix(".jsonl")
    steps = list(read_records(records))
    own = FAULTS[result.fault].named_by if result.arm == ALONE else ()
    if first := _first_alarm(steps, result.settings, own):
        row.named, row.named_step = first
    rewards = [StepRecord(step=record.step, reward_mean=record.reward_mean) for record in steps]
    if first := _first_alarm(rewards, {}):
        row.reward_step = first[1]
    elif result.died:
        row.reward_step = steps[-1].step + 1  # a run that ends early is visible without grpo-doctor
    diagnosis = diagnose(run_of(steps, settings=result.settings))
    row.judged, row.sentence, head = diagnosis.verdict, diagnosis.headline, cause(diagnosis)
    if head is not None:
        row.cause, row.confidence = head.code, head.confidence
    row.wrong = [
        f"{f.code} {f.confidence}"
        for f in diagnosis.findings
        if f.role == "cause" and f.level >= Severity.WARNING and f.code not in own
    ]
    return row


def cause(diagnosis: Diagnosis) -> Finding | None:
    """Return the cause that the headline names, or None if it names no cause."""
    head = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    return head if head is not None and head.role == "cause" else None


def _first_alarm(
    records: Iterable[StepRecord], settings: Mapping[str, Any], codes: Sequence[str] | None = None
) -> tuple[str, int] | None:
    """Return the first finding at warning or above in a live run (with one of these codes, or any code), and its
    step."""
    doctor = LiveDoctor(settings)
    for record in records:
        for finding in doctor.push(record):
            if finding.level >= Severity.WARNING and (codes is None or finding.code in codes):
                return finding.code, record.step
    return None


# -- the effect of a remedy ----------------------------------------------------------------------------------


def _with_verdicts(found: list[Row]) -> list[Row]:
    """Return the rows with the verdict on each remedy for each fault, over all seeds."""
    alone = {(row.fault, row.seed): row for row in found if row.arm == ALONE}
    arms: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        if row.arm not in (REFERENCE, ALONE):
            arms[row.fault, row.arm].append(row)
    gains = {key: [row.end - alone[row.fault, row.seed].end for row in of_arm] for key, of_arm in arms.items()}
    for (fault, arm), of_arm in arms.items():
        alike = [gain for (other, _), gain in gains.items() if reference_of(other) == reference_of(fault)]
        errors = [math.hypot(row.error, alone[fault, row.seed].error) for row in of_arm]
        noise = max(_noise(alike), statistics.fmean(errors))
        verdict = _verdict(of_arm, statistics.fmean(gains[fault, arm]), CERTAIN * noise / math.sqrt(len(of_arm)))
        for row in of_arm:
            row.verdict = verdict
    return found


def _noise(gains: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation of a gain between seeds, pooled over all remedies for faults with the same
    circumstances."""
    spread = [(len(of_arm) - 1, statistics.variance(of_arm)) for of_arm in gains if len(of_arm) > 1]
    freedom = sum(weight for weight, _ in spread)
    return math.sqrt(sum(weight * variance for weight, variance in spread) / freedom) if freedom else 0.0


def _verdict(of_arm: Sequence[Row], gain: float, limit: float) -> Verdict:
    """Classify a remedy by its ``gain`` over the run without a remedy. A gain below ``limit`` may be due to chance."""
    if gain < -limit:
        return "harms"
    if gain <= limit:
        return "does nothing"
    return "recovers" if statistics.fmean(row.share for row in of_arm) >= WHOLE else "helps"
