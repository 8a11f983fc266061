"""``grpo-doctor gate``: fails a build on findings, and never passes a run without data."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import typer

from ..config import Accepted, Config, ConfigError, Suppression
from ..diagnosis.catalogue import load
from ..diagnosis.check import Finding, Severity
from ..diagnosis.trust import trusted
from ..diagnosis.wording import counted
from ..readers.input import NotRead
from ..report.model import fingerprint, relative, render, since
from ..report.redaction import one_line, redact
from ..run import not_finite_any_longer
from . import common
from .analyze import Outcome, Paths, diagnose_paths
from .compare import compare_with

if TYPE_CHECKING:
    from ..compare import Comparison
    from ..diagnosis.verdict import Diagnosis

FIRST_BASELINE, BASELINE = "grpo-doctor/baseline/1", "grpo-doctor/baseline/2"
Key = tuple[str, str]
"""The identity of a finding: the source of the run, and the code of the check."""


class Judged(NamedTuple):
    """The result of the gate for one run, with the reason for the result."""

    status: Literal["fail", "pass", "unjudged"]
    source: str
    why: str


Require: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="CODE: fail if this check was skipped. learning: fail without evidence of learning. Repeatable.",
    ),
]
Baseline: TypeAlias = Annotated[
    Path | None, typer.Option("--baseline", help="JSON file of known findings, which do not fail the gate.")
]
WriteBaseline: TypeAlias = Annotated[
    bool, typer.Option("--write-baseline", help="Write the current findings to --baseline and remove fixed ones.")
]
Against: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--against",
        help="A reference run. Findings that the reference also has do not fail the gate; a worse result does.",
    ),
]
Strict: TypeAlias = Annotated[
    bool, typer.Option("--strict/--no-strict", help="Exit with 2 if a file that may be a log was not read.")
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option("--output-format", "-f", help=f"Print a report instead of one line per run: {common.FORMATS}."),
]


@common.configured(common.CHECKS, common.LOGS, common.LIMITS)
def gate(
    paths: Paths,
    require: Require = None,
    min_steps: Annotated[int, typer.Option("--min-steps", help="Runs with fewer steps are unjudged.", min=0)] = 0,
    baseline: Baseline = None,
    write_baseline: WriteBaseline = False,
    against: Against = None,
    strict: Strict = False,
    output_format: Format = None,
    report: common.MoreReports = None,
    samples: common.Samples = False,
    *,
    settings: Config,
) -> None:
    """Fails a build on findings at or above --fail-on. Prints one line per run and can write reports.

    Exit codes: 0 all runs pass, 1 findings or skipped required check, 2 wrong usage or unreadable input, 3 input not
    judged, 4 internal error. If $GITHUB_STEP_SUMMARY is set, the gate writes a summary to it.
    """
    with common.plain_errors():
        required = _known_codes(require or [], settings)
        if write_baseline and baseline is None:
            raise ConfigError("--write-baseline needs --baseline FILE")
        outcome = diagnose_paths(paths, settings)
        inputs = [*outcome.files, *common.settings_file(settings)]
        compared, failed = ([], common.CLEAN) if against is None else compare_with(against, outcome.diagnoses, settings)
        diagnoses, excused = _with_comparison(compared, outcome.diagnoses)
        known = {} if baseline is None else _known_findings(baseline, diagnoses, inputs, write_baseline)
        excused |= {(d.source, f.code): "in the baseline" for d in diagnoses for f in d.findings if _key(d, f) in known}
        excused |= _accepted(settings.accept, diagnoses)
        judged = [_against(_judge(d, excused, settings.fail_on, required, min_steps), compared) for d in diagnoses]
        judged += [Judged("unjudged", one_line(str(path)), "no run found") for path in outcome.without_run]
        hidden = settings.suppressions()
        if baseline is not None:
            hidden.append(Suppression("baseline", f"{baseline}: {counted(len(known), 'known finding')}"))
            inputs.append(baseline)
        told = {"samples": samples, "excused": excused, "suppressions": hidden}
        options = common.options(settings, output_format or "", None, False, **told)
        common.write(diagnoses, output_format, None, report or [], options, inputs)
        _write_step_summary(diagnoses, options)
    for line in (*_lines(judged, settings.accept, hidden, known, diagnoses), *_not_read(outcome.not_read, strict)):
        typer.echo(line, err=output_format is not None)
    for source, note in ((d.source, n) for d in diagnoses for n in d.notes if isinstance(n, NotRead)):
        common.note(f"{source}: {note}")
    raise typer.Exit(common.worst(_exit_code(judged, outcome, strict), failed))


def _exit_code(judged: list[Judged], outcome: Outcome, strict: bool) -> int:
    statuses = {one.status for one in judged}
    return common.exit_code(
        findings="fail" in statuses,
        broken=outcome.broken,
        unreadable=outcome.unreadable or (strict and outcome.not_read),
        unjudged=not judged or "unjudged" in statuses,
    )


LEARNING = "LEARNING"
"""The value of ``--require`` that requires evidence of learning or a solved task."""


def _known_codes(codes: list[str], settings: Config) -> list[str]:
    catalogue = load(trusted(settings))
    for code in codes:
        if code.upper() not in (*catalogue.checks, LEARNING):
            raise ConfigError(f"--require {code}: unknown check; see `grpo-doctor checks`")
    return [code.upper() for code in codes]


def _judge(
    diagnosis: Diagnosis, excused: Mapping[Key, str], fail_on: str, required: Iterable[str], min_steps: int
) -> Judged:
    from ..diagnosis.verdict import unfinished, weight

    failing = [
        f for f in diagnosis.findings if weight(f) >= Severity.of(fail_on) and (diagnosis.source, f.code) not in excused
    ]
    source = one_line(diagnosis.source)
    if failing:
        more = f" ({counted(len(failing) - 1, 'more finding')})" if len(failing) > 1 else ""
        return Judged("fail", source, f"{_words(failing[0])}{more}")
    ran = {*diagnosis.coverage.passed_codes, *(f.code for f in diagnosis.findings)}
    if LEARNING in required and not diagnosis.learns:
        return Judged("fail", source, f"required: learning, but there is no evidence of it. {diagnosis.headline}")
    if lacking := [code for code in required if code not in (*ran, LEARNING)]:
        return Judged("fail", source, f"required, but skipped: {', '.join(_lack(diagnosis, c) for c in lacking)}")
    if diagnosis.verdict == "unjudged":
        return Judged("unjudged", source, diagnosis.headline)
    if diagnosis.steps < min_steps:
        return Judged("unjudged", source, f"{counted(diagnosis.steps, 'step')}, fewer than --min-steps {min_steps}")
    verdict = "all findings known or accepted" if diagnosis.verdict == "failing" else diagnosis.verdict
    checked = f"{counted(diagnosis.steps, 'step')}, {counted(diagnosis.coverage.ran, 'check')} ran"
    ended = "".join(f"; {note}" for note in unfinished(diagnosis.run, diagnosis.last_step))
    strange = one_line(not_finite_any_longer(diagnosis.run))
    return Judged("pass", source, f"{verdict}, {checked}{ended}{f'; {strange}' if strange else ''}")


def _with_comparison(compared: list[Comparison], diagnoses: list[Diagnosis]) -> tuple[list[Diagnosis], dict[Key, str]]:
    """Return the diagnoses with the findings of the comparison added, and the findings that exist in the reference run
    as well."""
    from ..compare.summary import judged

    if not compared:
        return diagnoses, {}
    pairs = [judged(found) for found in compared]
    told = {d.source: d for these, _ in pairs for d in these}
    return [told.get(d.source, d) for d in diagnoses], {key: why for _, known in pairs for key, why in known.items()}


def _against(one: Judged, compared: list[Comparison]) -> Judged:
    """Apply the comparison with the reference run to the result of a run."""
    from ..compare.summary import headline

    found = next((c for c in compared if one.source in {one_line(d.source) for d in c.new.diagnoses}), None)
    if found is None or one.status != "pass":
        return one
    if found.verdict == "worse":
        return one._replace(status="fail", why=one_line(headline(found)))
    if found.verdict == "cannot tell":
        return one._replace(status="unjudged", why=one_line(headline(found)))
    return one._replace(why=f"{one.why}; against {one_line(found.base.name)}: {found.verdict}")


def _words(finding: Finding) -> str:
    return (
        f"{finding.code} {finding.name} {since(finding)} ({finding.confidence} confidence): {one_line(finding.message)}"
    )


def _lack(diagnosis: Diagnosis, code: str) -> str:
    needs: list[str] = next((s["needs"] for s in diagnosis.coverage.skipped if s["code"] == code), [])
    return (
        f"{code} (needs {', '.join(needs)})"
        if needs
        else f"{code} (not selected, or not applicable to this kind of run)"
    )


def _key(diagnosis: Diagnosis, finding: Finding) -> str:
    return fingerprint(diagnosis.source, finding.code)


def _accepted(accepted: Iterable[Accepted], diagnoses: Iterable[Diagnosis]) -> dict[Key, str]:
    """Return the findings that the settings accept, each with the reason."""
    return {
        (d.source, f.code): entry.reason
        for entry in accepted
        for d in diagnoses
        for f in d.findings
        if not entry.expired and f.code == entry.code and fnmatch(relative(d.source), entry.path)
    }


def _known_findings(path: Path, diagnoses: list[Diagnosis], inputs: list[Path], write: bool) -> dict[str, Key]:
    """Return the findings in the baseline. With ``write``, the baseline is first replaced by the current findings."""
    if write:
        common.refuse_inputs([path], inputs)
        _write_baseline(path, diagnoses)
    return _read_baseline(path)


def _read_baseline(path: Path) -> dict[str, Key]:
    """Return the known findings, by fingerprint. Version 1 of the file has no fingerprints, so they are computed from
    the paths."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
        if loaded["schema"] not in (BASELINE, FIRST_BASELINE):
            raise KeyError(loaded["schema"])
        entries = [(str(e["source"]), str(e["code"]), e.get("fingerprint")) for e in loaded["findings"]]
        return {str(known or fingerprint(source, code)): (source, code) for source, code, known in entries}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; create it with --write-baseline") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{path}: not a grpo-doctor baseline; create one with --write-baseline") from None


def _write_baseline(path: Path, diagnoses: Iterable[Diagnosis]) -> None:
    """Write the findings of these runs; entries of other runs are kept."""
    diagnoses = list(diagnoses)
    known = _read_baseline(path) if path.exists() else {}
    gone = _gone(known, diagnoses)
    known = {key: value for key, value in known.items() if key not in gone}
    known |= {_key(d, f): (redact(relative(d.source)), f.code) for d in diagnoses for f in d.findings}
    ordered = sorted((source, code, key) for key, (source, code) in known.items())
    entries = [{"source": source, "code": code, "fingerprint": key} for source, code, key in ordered]
    common.replace_file(path, json.dumps({"schema": BASELINE, "findings": entries}, indent=2) + "\n")


def _gone(known: Mapping[str, Key], diagnoses: Iterable[Diagnosis]) -> set[str]:
    """Return the known findings of these runs that no longer occur."""
    gone = set()
    for diagnosis in diagnoses:
        shown = {_key(diagnosis, finding) for finding in diagnosis.findings}
        gone |= {key for key, (_, code) in known.items() if key == fingerprint(diagnosis.source, code)} - shown
    return gone


def _write_step_summary(diagnoses: list[Diagnosis], options: Any) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(render("summary", diagnoses, options) + "\n")
        except OSError as error:
            raise ConfigError(f"$GITHUB_STEP_SUMMARY {path}: {error.strerror}") from None


def _lines(
    judged: list[Judged],
    accepted: Iterable[Accepted],
    hidden: Iterable[Suppression],
    known: Mapping[str, Key],
    diagnoses: list[Diagnosis],
) -> Iterable[str]:
    for one in judged:
        yield f"{one.status.upper() if one.status == 'fail' else one.status:<9}{one.source}: {one.why}"
    for suppression in hidden:
        yield f"note     {suppression.kind}: {one_line(suppression.text)}"
    for entry in accepted:
        if not entry.expired and not _accepted([entry], diagnoses):
            yield f"note     accepted finding {entry.code} did not occur (reason: {entry.reason}); remove the entry"
    if gone := sorted(known[key] for key in _gone(known, diagnoses)):
        yield f"note     in the baseline, not found: {', '.join(code for _, code in gone)}; --write-baseline drops them"
    numbers = {status: sum(one.status == status for one in judged) for status in ("fail", "unjudged", "pass")}
    totals = [f"{number} {status}" for status, number in numbers.items() if number]
    yield f"{counted(len(judged), 'run')}: {', '.join(totals) or 'no run found'}"


def _not_read(files: int, strict: bool) -> Iterable[str]:
    """Yield a line with the number of files that may be logs but were not read."""
    if files:
        yield f"note     {counted(files, 'possible log file')} not read (listed on stderr)" + (
            "" if strict else "; --strict makes this exit with 2"
        )
