"""``grpo-doctor settings``: judges training configurations before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from ..diagnosis.check import Severity
from ..limits import OverBudgetError
from ..readers import ReadError
from ..report.model import counted, first_step_to_take, missing
from ..report.redaction import clean, inert
from . import common

if TYPE_CHECKING:
    from ..config import Config
    from ..diagnosis.catalogue import Catalogue
    from ..diagnosis.verdict import Diagnosis


def settings(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Shell scripts, Python, notebooks, YAML, TOML, JSON, logs, or folders.", show_default=False
        ),
    ],
    fail_on: common.FailOn = None,
    select: common.Select = None,
    ignore: common.Ignore = None,
    output_format: Annotated[
        str | None, typer.Option("--output-format", "-f", help="Print this report instead of lines.")
    ] = None,
    report: common.MoreReports = None,
    fix: Annotated[bool, typer.Option("--fix", help="Print a patch for what is safe to change.")] = False,
    skip_others: Annotated[
        bool, typer.Option("--skip-others", help="Files without settings of reinforcement learning do not count.")
    ] = False,
    config: common.ConfigFile = None,
    trust_checks: common.TrustChecks = False,
    seconds: common.Seconds = None,
    megabytes: common.Megabytes = None,
) -> None:
    """Reads training configurations of any framework, does their arithmetic, and names what will not work.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong use or unreadable input, 3 a file in which no
    settings of reinforcement learning were found.
    """
    from ..preflight.judgement import FAMILY

    with common.plain_errors():
        chosen = common.settings(
            config, select, ignore, None, None, fail_on, seconds, megabytes, trust_checks=trust_checks
        )
        catalogue = common.chosen(chosen, FAMILY)
        diagnoses: list[Diagnosis] = []
        unreadable = 0
        for path in _expanded(files):
            try:
                diagnoses += _diagnoses(path, catalogue, chosen, fix)
            except (ReadError, OverBudgetError) as error:
                named = "" if isinstance(error, ReadError) else f"{path}: "
                typer.echo(f"grpo-doctor: {clean(named + str(error))}", err=True)
                unreadable += 1
        options = common.options(output_format or "", None, False, None, False)
        options = structs.replace(options, suppressions=chosen.suppressions())
        common.write(diagnoses, output_format, None, report or [], options, map(Path, _expanded(files)))
    if output_format is None:
        for diagnosis in diagnoses:
            _tell(diagnosis)
    raise typer.Exit(_exit_code(diagnoses, Severity.of(chosen.fail_on), unreadable, skip_others))


def _expanded(files: list[Path]) -> list[Path]:
    """The files, and of folders all that may be configurations."""
    from ..preflight.reading import SUFFIXES

    found: list[Path] = []
    for path in files:
        inside = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file()) if path.is_dir() else []
        if path.is_dir() and not inside:
            raise ReadError(f"{path}: holds no file of a kind that configurations have ({', '.join(SUFFIXES)})")
        found += inside or [path]
    return found


def _diagnoses(path: Path, catalogue: Catalogue, chosen: Config, fix: bool) -> list[Diagnosis]:
    """A diagnosis for every training that the file describes."""
    from ..preflight.fix import patch
    from ..preflight.judgement import judge
    from ..preflight.reading import read

    found = read(path)
    if fix:
        for one in found:
            typer.echo(inert(patch(path, one)), nl=False)
    return [judge(one, str(path), catalogue, chosen.thresholds) for one in found]


def _tell(diagnosis: Diagnosis) -> None:
    """One line that says what was read and found, one for every finding, the arithmetic, and what is not known."""
    source = clean(diagnosis.source)
    typer.echo(f"{source}: {clean(diagnosis.headline)}")
    for finding in sorted(diagnosis.findings, key=lambda f: -f.level):
        where = f"{source}:{finding.lines[0]}" if finding.lines else source
        key = clean(str(finding.evidence.get("setting", "")))
        typer.echo(
            f"{where}: {finding.code} {finding.name} ({finding.severity}){f' {key}' if key else ''}: "
            f"{clean(finding.message)}"
        )
        if finding.remedies and finding.level > Severity.INFO:
            typer.echo(f"    → {first_step_to_take(finding)}")
    for table in diagnosis.tables:
        typer.echo(f"  {table.title}")
        for what, value, origin in table.rows:
            typer.echo(f"    {what:<28}{value:<15} {f'({clean(origin)})' if origin else ''}".rstrip())
    for note in diagnosis.notes:
        typer.echo(f"  {clean(note)}")
    if diagnosis.coverage.ran:
        lacking = [f"{needs.replace('settings.', '')} ({', '.join(codes)})" for needs, codes in missing(diagnosis)]
        if lacking:
            typer.echo(f"  not judged for want of: {'; '.join(lacking)}")
        if unread := diagnosis.coverage.unread_keys:
            typer.echo(f"  {counted(len(unread), 'key')} that no rule asks for: {clean(', '.join(unread))[:300]}")


def _exit_code(diagnoses: list[Diagnosis], fail_on: Severity, unreadable: int, skip_others: bool) -> int:
    if any(finding.level >= fail_on for diagnosis in diagnoses for finding in diagnosis.findings):
        return common.FINDINGS
    if unreadable:
        return common.WRONG
    unjudged = [d for d in diagnoses if not d.coverage.ran]
    return common.UNJUDGED if (unjudged or not diagnoses) and not skip_others else common.CLEAN
