"""Code that all report formats share: options, the order of findings, and redaction."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..config import Suppression
from ..diagnosis.catalogue import PREFLIGHT, load, report, report_names
from ..diagnosis.check import Finding, Remedy, Severity, Step, Withheld
from ..diagnosis.framework import FRAMEWORKS, framework
from ..diagnosis.lab_results import stored
from ..diagnosis.verdict import Diagnosis
from ..diagnosis.wording import at_intervals, counted
from ..run import Run, Sample, Table
from .redaction import CLIP, clean, cleaned, one_line

SHOWN = 4
"""Maximum number of responses in a report."""

SURE = {
    "high": "proven by a log line, a probe or an identity",
    "medium": "based on a statistical test and the order of events",
    "low": "a threshold was crossed; verify before you act",
}
"""The meaning of each level of confidence."""
SURE_OF_SETTINGS = {
    "high": "follows from the settings",
    "medium": "based on a rule of thumb",
    "low": "a threshold was crossed; verify before you act",
}
"""The meaning of each level of confidence for a preflight rule, which sees no training data."""

CASES = 20
"""Minimum number of cases for a share to be printed."""
TOLD = 40
"""Maximum number of steps whose responses a page contains."""


COUNT_OF_GPUS = "world_size"
"""The setting from which reports compute GPU-hours; no check of a run needs it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a report. ``excused`` maps (source, code) to the reason why a finding does not fail the gate. ``rest``
    names the option or report that shows the parts that a text report omits. ``suppressions`` lists active
    suppressions, which every report names. ``refresh`` is the interval, in seconds, at which a page reloads itself
    while its run continues. ``back`` is the fleet page to which the page of a run links back. ``gpu_cost`` is the price
    of one GPU-hour in dollars."""

    samples: bool = True
    color: bool = False
    width: int = 100
    verbose: bool = False
    figures: Path | None = None
    excused: Mapping[tuple[str, str], str] = {}
    suppressions: Sequence[Suppression] = ()
    fail_on: str = "error"
    static: bool = False
    full: bool = False
    refresh: int = 0
    back: str = ""
    rest: str = "--report html=FILE"
    gpu_cost: float | None = None


class UnknownFormatError(ValueError):
    """A report format without a module in ``reports/``."""


def render(name: str, diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Render the report in one format. Raises `UnknownFormatError`."""
    if name not in report_names():
        raise UnknownFormatError(f"unknown report format {name!r}; there are {', '.join(report_names())}")
    shown = [Suppression(one.kind, one_line(one.text)) for one in options.suppressions]
    excused = {key: one_line(why) for key, why in options.excused.items()}
    options = msgspec.structs.replace(options, suppressions=shown, excused=excused)
    text: str = report(name).render([presentable(d, samples=options.samples) for d in diagnoses], options)
    return text


def presentable(diagnosis: Diagnosis, *, samples: bool) -> Diagnosis:
    """Return a copy of the diagnosis with all texts cleaned, and without the texts of responses if ``samples`` is
    false."""
    names = [n for n in diagnosis.__struct_fields__ if n != "run"]
    shown = {name: cleaned(getattr(diagnosis, name)) for name in names}
    shown["source"] = one_line(shown["source"])
    if not samples:
        shown["tables"] = [table for table in shown["tables"] if not table.texts]
    return Diagnosis(run=diagnosis.run, **shown)


class Story(NamedTuple):
    """The findings of a diagnosis in reporting order."""

    main: Finding | None
    effects: list[Finding]
    others: list[Finding]
    notes: list[Finding]


def story(diagnosis: Diagnosis) -> Story:
    """Split the findings into the finding of the headline, its symptoms, other findings, and notes."""
    main = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    explained = {main.code} if main else set()
    before = 0
    while len(explained) > before:
        before = len(explained)
        explained |= {f.code for f in diagnosis.findings if explained & set(f.explained_by)}
    rest = [f for f in diagnosis.findings if f is not main]
    effects = [f for f in rest if f.code in explained]
    others = [f for f in rest if f.code not in explained and f.role != "note"]
    notes = [f for f in rest if f.code not in explained and f.role == "note"]
    return Story(main, effects, others, notes)


def leading(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding that a list of runs shows: the cause or, without a cause, the first finding if it is at least
    a warning."""
    cause = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    first = cause or (diagnosis.findings[0] if diagnosis.findings else None)
    return first if first is not None and first.level >= Severity.WARNING else None


def begun(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding whose onset is the onset of the run: the outcome or, without an outcome, the finding that a
    list of runs shows."""
    return diagnosis.finding(diagnosis.outcome or "") or leading(diagnosis)


def withheld(diagnosis: Diagnosis) -> list[Withheld]:
    """Return every withheld remedy of this run once, grouped by reason."""
    together: dict[str, list[Withheld]] = {}
    for one in {w.id: w for finding in reversed(diagnosis.findings) for w in finding.withheld}.values():
        together.setdefault(one.because, []).append(one)
    return [Withheld(these[0].id, "; ".join(w.title for w in these), because) for because, these in together.items()]


def next_run(diagnosis: Diagnosis) -> list[str]:
    """Return what to do before the next run, without the advice that is shown next to the headline."""
    told = tuple(f"{words} ({diagnosis.cause}): " for words in ("Verify first", "Do not use"))
    return [text for text in diagnosis.next_run if not text.startswith(told)]


def named(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Return the sources of several runs, without their common folders."""
    return shortened([d.source for d in diagnoses])


def shortened(names: Sequence[str]) -> list[str]:
    """Return several paths without their common folders; a single path stays unchanged."""
    paths = [Path(name) for name in names]
    shared = 0
    for parts in zip(*(path.parts[:-1] for path in paths), strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return [str(Path(*path.parts[shared:])) for path in paths] if len(paths) > 1 else [*names]


def sure(finding: Finding) -> str:
    """Return the confidence of a finding and the meaning of that confidence. For a cause, also return how often causes
    with that confidence were correct, if enough cases are known."""
    check = load().find(finding.code)
    meanings = SURE_OF_SETTINGS if check is not None and check.family == PREFLIGHT else SURE
    words = f"{finding.confidence}: {meanings[finding.confidence]}"
    share = stored().calibration.get(finding.confidence) if finding.role == "cause" else None
    return words if share is None or share.of < CASES else f"{words}; {share}"


def since(finding: Finding) -> str:
    """Return the onset in words. For a finding that begins at step 0, or that is about code or a configuration, the
    onset is the start."""
    if finding.cleared and finding.onset_step == finding.last_step:
        return f"at step {finding.onset_step}, cleared"
    if finding.cleared:
        return f"steps {finding.onset_step} to {finding.last_step}, cleared"
    return f"since step {finding.onset_step}" if finding.onset_step else "from the start"


def level(finding: Finding) -> str:
    """Return the severity in the printed form, which marks past findings and previews."""
    said = f"past {finding.severity}" if finding.cleared else finding.severity
    return f"{said}, preview" if finding.preview else said


def when(finding: Finding) -> str:
    """Return the onset, with the line of the log and the step of detection."""
    about = [f"line {finding.lines[0]}"] if finding.lines else []
    if finding.detected_step != finding.onset_step:
        about.append(f"first reported at step {finding.detected_step}")
    return f"{since(finding)} ({'; '.join(about)})" if about else since(finding)


def cost(diagnosis: Diagnosis, gpu_cost: float | None = None) -> str:
    """Return what a failing run has spent since its onset: steps, time, GPU-hours (if GPUs are declared) and dollars
    (if ``gpu_cost`` is given). Dollars are per GPU if the number of GPUs is unknown."""
    first = begun(diagnosis)
    lost = 0 if first is None or diagnosis.last_step is None else diagnosis.last_step - first.onset_step
    if diagnosis.verdict != "failing" or first is None or lost <= 0:
        return ""
    spent = [f"{counted(lost, 'step')} since then"]
    after = _clock(diagnosis.run, first.onset_step)
    if len(after) > 1:
        seconds = float(after.max() - after.min())
        spent.append(duration(seconds))
        gpus = diagnosis.settings.get(COUNT_OF_GPUS)
        per = " per GPU"
        hours = seconds / 3600
        if isinstance(gpus, int | float):
            hours, per = hours * gpus, ""
            spent.append(f"{hours:.1f} GPU-hours")
        if gpu_cost is not None:
            spent.append(f"${hours * gpu_cost:.2f}{per}")
    elif gpu_cost is not None:
        spent.append("cost unknown, because the log has no times")
    return ", ".join(spent)


def first_screen(main: Finding, diagnosis: Diagnosis, gpu_cost: float | None = None) -> dict[str, str]:
    """Return the first facts that a report states about its leading finding, in order.

    "when" is the onset of the problem; if the cause began at another step, that step follows.
    """
    first = begun(diagnosis) or main
    rows = {
        "cause" if main.role == "cause" else "finding": f"{main.code} {main.name} ({main.severity})",
        "when": when(first) if since(first) == since(main) else f"{when(first)}; {main.code} {since(main)}",
        "lost": cost(diagnosis, gpu_cost),
        "input": str(main.evidence.get("crafted", "")),
        "confidence": sure(main),
        "do this": main.action,
    }
    return {name: words for name, words in rows.items() if words}


def fingerprint(source: str, code: str) -> str:
    """Return the identity of a finding across diagnoses: a hash of its file and code, which does not depend on steps
    and numbers.

    ``source`` is the unredacted path, so two paths that look the same after redaction stay distinct.
    """
    import hashlib  # this module is slow to import, and most formats do not need it

    return hashlib.sha256(f"{relative(source)}\n{code}".encode("utf-8", "surrogatepass")).hexdigest()


def excuse(diagnosis: Diagnosis, finding: Finding, options: Options) -> str | None:
    """Return the reason why a finding does not fail the gate, or None if it does."""
    return options.excused.get((diagnosis.run.source, finding.code))


def location(diagnosis: Diagnosis, finding: Finding) -> tuple[str, int]:
    """Return the file, and the line of the first bad step or of the setting."""
    return relative(diagnosis.source), finding.lines[0] if finding.lines else 1


def relative(source: str) -> str:
    """Return a path with forward slashes, relative to the working directory if the path is below it."""
    path = Path(source)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_posix()


NAMED, DATED = ("run_name", "experiment_name", "exp_name", "wandb_run_name"), ("started", "timestamp", "date")
"""Settings that name a run, and settings that contain its date."""
KEY_SETTINGS = {
    "learning_rate": "learning rate", "group_size": "group size", "kl_coef": "KL coefficient",
    "temperature": "temperature", "max_new_tokens": "response limit", "num_iterations": "updates per rollout",
    "loss_type": "loss",
}  # fmt: skip
"""Settings that the head of a report shows if a run declares them."""


def title(diagnosis: Diagnosis) -> str:
    """Return the name that a run declares or, without such a name, the name of its file. If many logs have this file
    name, include the folder."""
    declared = next((str(v) for n in NAMED if (v := diagnosis.settings.get(n))), "")
    path = Path(diagnosis.source)
    usual = path.stem in ("records", "metrics", "log_history", "trainer_state", "train", "training", "output", "log")
    return declared or (f"{path.parent.name}/{path.name}" if usual and path.parent.name else path.name)


def head(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the known facts that describe a run: model, date, framework and key settings."""
    known = diagnosis.settings
    dated = next((str(v) for n in DATED if (v := known.get(n))), "")
    written_by = framework(diagnosis.run)
    rows = [
        ("model", str(known.get("model") or "")),
        ("date", dated),
        ("framework", FRAMEWORKS.get(written_by, written_by) if written_by else ""),
        *((words, number(known[name])) for name, words in KEY_SETTINGS.items() if known.get(name) is not None),
    ]
    return [(name, value) for name, value in rows if value]


def facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the names and values of the facts in the header of a run. Diagnoses of code or a configuration have no
    steps."""
    apart = diagnosis.steps > 1 and at_intervals(diagnosis.steps, int(np.ptp(diagnosis.run.steps)))
    steps = counted(diagnosis.steps, "row" if apart else "step")
    if apart:
        steps += f" (steps {diagnosis.first_step} to {diagnosis.last_step})"
    elif diagnosis.steps > 1:
        steps += f" ({diagnosis.first_step} to {diagnosis.last_step})"
    rows = [
        ("source", diagnosis.source),
        ("format", diagnosis.format),
        ("run type", diagnosis.run_type),
    ]
    if diagnosis.run_type != "probe" and diagnosis.format != "configuration":
        rows.append(("steps", steps))
    if (times := _clock(diagnosis.run)).size:
        rows.append(("duration", duration(float(times.max()))))
    return rows


def _clock(run: Run, since: float = -math.inf) -> np.ndarray:
    """Return the finite wall times of the rows since a step, in seconds; empty if none is recorded."""
    times = run.columns.get("wall_time")
    if times is None:
        return np.empty(0)
    finite: np.ndarray = times[(run.steps >= since) & np.isfinite(times)]
    return finite


def duration(seconds: float) -> str:
    """Return a duration such as ``3 h 20 min``, ``4 min 5 s`` or ``12 s``."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def measured(finding: Finding) -> dict[str, Any]:
    """Return the known evidence, without words that are already in the message."""
    return {
        name: value
        for name, value in finding.evidence.items()
        if value == value and not (isinstance(value, str) and value in finding.message)
    }


def number(value: Any) -> str:
    """Format a value of the evidence or the settings."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def coverage(diagnosis: Diagnosis) -> str:
    """Describe in one sentence which checks the verdict is based on."""
    known = diagnosis.coverage
    fired = f"{counted(known.ran, 'check')} ran: {known.fired} fired, {known.passed} passed"
    lacking = "entry point not given" if diagnosis.run_type == "probe" else "metric not logged"
    skipped = f" {counted(len(known.skipped), 'check')} skipped ({lacking})." if known.skipped else ""
    return f"{fired}.{skipped}"


class About(NamedTuple):
    """The explanation of a check, for a report that is read without the documentation."""

    what: str
    sees: str
    false_alarms: str


def about(code: str) -> About | None:
    """Return the sections of a check's page that explain a finding, or None for an unknown code."""
    check = load().find(code)
    if check is None:
        return None
    parts = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", check.page, re.MULTILINE | re.DOTALL))
    plain = {name: " ".join(re.sub(r"^ *- ", "", part, flags=re.MULTILINE).split()) for name, part in parts.items()}
    seen, alarms = (plain.get(name, "") for name in ("What it sees", "Known false alarms"))
    return About(check.title, seen, alarms)


def missing(diagnosis: Diagnosis) -> list[tuple[str, list[str]]]:
    """Return the data that skipped checks need, each with the codes of these checks, the most frequent data first."""
    lacking: dict[str, list[str]] = {}
    for skipped in diagnosis.coverage.skipped:
        lacking.setdefault(", ".join(skipped["needs"]) or "nothing recorded", []).append(skipped["code"])
    return sorted(lacking.items(), key=lambda item: (-len(item[1]), item[0]))


def markdown(text: str) -> str:
    """Return text as one line of Markdown, escaped so that it contains no markup, HTML, mentions or links."""
    plain = " ".join(text.split())
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;"), ("://", "&#58;//")):
        plain = plain.replace(character, entity)
    plain = re.sub(r"(?i)(www)\.", r"\1&#46;", plain)
    plain = re.sub(r"([\\`*\[\]|~$!])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", plain)
    return re.sub(r"^(?=[#+=-])|(?<=^\d)(?=[.)])", r"\\", plain)


def authored(text: str) -> str:
    """Return text written by a check's author as Markdown, in which words between backticks stay code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return markdown(text)
    return "".join(f"`{' '.join(p.split())}`" if i % 2 else _spaced(p) for i, p in enumerate(pieces))


def _spaced(text: str) -> str:
    before, after = text[:1].isspace(), text[-1:].isspace()
    return " " * before + markdown(text) + " " * (after and bool(text.strip()))


def is_prose(step: Step) -> bool:
    """Return whether a step is a sentence, as opposed to settings, options or code that can be copied unchanged."""
    return "\n" not in step.do and (bool(_LOOSE.search(step.do)) or not (_is_python(step.do) or _are_options(step.do)))


_LOOSE = re.compile(r"\b\d+x\b| or | and | with |…")
"""Matches text that cannot be copied as code, such as a multiple of the current value, an alternative, or a value to
fill in."""


def _is_python(text: str) -> bool:
    """Return whether a text is a statement, or keyword arguments of a call."""
    for source, kinds in ((text, (ast.Assign, ast.AugAssign, ast.Call)), (f"f({text})", (ast.keyword,))):
        try:
            if any(isinstance(node, kinds) for node in ast.walk(ast.parse(source))):
                return True
        except SyntaxError:
            continue
    return False


def _are_options(text: str) -> bool:
    """Return whether every word of a text is an option, the value of an option, or an assignment."""
    words = text.split()
    return all(
        re.match(r"--[\w.-]+$|[+~]?[\w./@-]+=\S", word) or (at and words[at - 1].startswith("--"))
        for at, word in enumerate(words)
    )


def fenced(text: str) -> str:
    """Return text as a Markdown code block, even if it contains backticks."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def responses(diagnosis: Diagnosis) -> list[Sample]:
    """Return a few responses, invalid ones first, from the step nearest to the detection that has responses."""
    run = diagnosis.run
    main = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    if main is None or not run.samples:
        return []
    row = min(run.samples, key=lambda row: abs(int(run.steps[row]) - main.detected_step))
    chosen: list[Sample] = sorted(run.samples[row], key=lambda s: (s.valid is not False, s.reward or 0.0))[:SHOWN]
    return [cleaned(sample) for sample in chosen]


def texts_by_step(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Return a few responses for each of several evenly spread steps. A click on a step shows its responses."""
    run = diagnosis.run
    rows = spread(sorted(run.samples), TOLD)
    return {str(run.steps[row]): [clean(s.response[:CLIP]) for s in run.samples[row][:SHOWN]] for row in rows}


def spread(these: Sequence[int], most: int) -> list[int]:
    """Return at most this many items, evenly spread from first to last."""
    return [*these] if len(these) <= most else [these[round(i * (len(these) - 1) / (most - 1))] for i in range(most)]


def steps_for(remedy: Remedy, who: str | None) -> tuple[list[Step], list[Step]]:
    """Return the steps of a remedy for one framework (if there are none, for a custom trainer), and the steps for other
    frameworks."""
    own = [s for s in remedy.steps if s.who == who] or [s for s in remedy.steps if s.who == "by-hand"]
    return (own, [s for s in remedy.steps if s not in own]) if own else (list(remedy.steps), [])


def settings_table(diagnosis: Diagnosis) -> Table:
    """Return the declared settings as a table."""
    rows = [[name, number(value)] for name, value in sorted(diagnosis.settings.items())]
    return Table(title="Declared settings", head=["setting", "value"], rows=rows)
