"""``grpo-doctor preflight``: checks training configurations before a run."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..config import Config, ConfigError
from ..diagnosis.check import Severity
from ..diagnosis.wording import counted
from ..limits import OverBudgetError
from ..readers import ReadError
from ..report.model import missing
from ..report.redaction import clean
from . import common

if TYPE_CHECKING:
    from ..diagnosis.catalogue import Catalogue
    from ..diagnosis.verdict import Diagnosis
    from ..run import Table


Files: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        help="Shell scripts, Python files, notebooks, YAML, TOML, JSON, logs or folders; - reads standard input.",
        show_default=False,
    ),
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option("--output-format", "-f", help=f"Print a report instead of plain lines: {common.FORMATS}."),
]
SkipOthers: TypeAlias = Annotated[
    bool, typer.Option("--skip-others", help="Ignore files without reinforcement learning settings.")
]
Declared: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting missing from the file; repeatable.")
]
Verbose: TypeAlias = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show how framework and training type were detected, and list unused keys."),
]


@common.configured(common.CHECKS, common.LIMITS, without="preview")
def preflight(
    files: Files,
    output_format: Format = None,
    output_file: common.OutputFile = None,
    report: common.MoreReports = None,
    fix: Annotated[bool, typer.Option("--fix", help="Print a patch with all safe fixes.")] = False,
    skip_others: SkipOthers = False,
    set_: Declared = None,
    verbose: Verbose = False,
    *,
    settings: Config,
) -> None:
    """Checks training configurations of any framework before a run: settings, batch arithmetic and memory.

    Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 wrong usage or unreadable input, 3 a file without
    reinforcement learning settings.
    """
    from ..diagnosis.catalogue import PREFLIGHT

    with common.plain_errors():
        if output_file is not None and output_format is None:
            raise ConfigError("--output-file needs a format, for example -f html")
        declared = _declared(set_ or [])
        catalogue = common.chosen(settings, PREFLIGHT)
        diagnoses: list[Diagnosis] = []
        unreadable = 0
        expanded = _expanded(files)
        others: Counter[Path] = Counter()
        for path, folder in expanded.items():
            try:
                found = _diagnoses(path, catalogue, settings, declared, fix=fix, verbose=verbose)
                if folder is not None and not any(one.coverage.ran for one in found):
                    others[folder] += 1
                else:
                    diagnoses += found
            except (ReadError, OverBudgetError) as error:
                named = "" if isinstance(error, ReadError) else f"{path}: "
                typer.echo(f"grpo-doctor: {clean(named + str(error))}", err=True)
                unreadable += 1
        options = common.options(settings, output_format or "", None, None, samples=False)
        common.write(diagnoses, output_format, output_file, report or [], options, expanded)
    if output_format is None:
        for diagnosis in diagnoses:
            _tell(diagnosis, verbose)
        for folder, count in others.items():
            typer.echo(f"{clean(str(folder))}: {counted(count, 'other file')} without reinforcement learning settings")
    raise typer.Exit(_exit_code(diagnoses, Severity.of(settings.fail_on), unreadable, skip_others))


def _expanded(files: list[Path]) -> dict[Path, Path | None]:
    """Replace each folder by the files in it that may be configurations. Return every file with the folder that it
    replaces, or None. Installed packages and caches are skipped."""
    from ..preflight.reading import SUFFIXES, files_below

    found: dict[Path, Path | None] = {}
    for path in files:
        if not path.is_dir():
            found[path] = None
            continue
        inside = list(files_below(path))
        if not inside:
            raise ReadError(f"{path}: contains no configuration file ({', '.join(SUFFIXES)})")
        found |= {file: path for file in inside if file not in found}
    return found


def _declared(words: list[str]) -> dict[str, Any]:
    """Parse the settings of ``--set``. Raises `ConfigError` for unknown names."""
    from ..preflight.frameworks import vocabulary
    from ..preflight.launch import scalar

    found: dict[str, Any] = {}
    for name, value in (common.pair("--set", word) for word in words):
        setting = common.SHORT_NAMES.get(name, name)
        if setting not in vocabulary():
            near = get_close_matches(setting, [*vocabulary(), *common.SHORT_NAMES], 1)
            raise ConfigError(f"--set {name}: unknown setting{f'; did you mean {near[0]}?' if near else ''}")
        found[setting] = scalar(value)
    return found


def _diagnoses(
    path: Path, catalogue: Catalogue, chosen: Config, declared: dict[str, Any], *, fix: bool, verbose: bool
) -> list[Diagnosis]:
    """Return a diagnosis for every training run that the file configures."""
    from ..preflight.fix import patch
    from ..preflight.judgement import judge
    from ..preflight.reading import read

    found = read(path)
    if fix:
        patches = [patch(path, one) for one in found]
        typer.echo("".join(patches), nl=False)
        if not any(patches):
            common.note(f"{path}: nothing to fix automatically")
    diagnoses = [judge(one, str(path), catalogue, chosen.thresholds, declared) for one in found]
    for one, diagnosis in zip(found, diagnoses, strict=True):
        clues = [f"evidence for {clue.of}: {clue.words} ({clue.weight:g})" for clue in one.clues]
        diagnosis.notes += clues if verbose else []
    return diagnoses


def _tell(diagnosis: Diagnosis, verbose: bool) -> None:
    """Print the headline, settings, findings by severity, batch arithmetic, and unknown settings."""
    source = clean(diagnosis.source)
    typer.echo(f"{source}: {clean(diagnosis.headline)}")
    for table in diagnosis.tables[:1]:
        _tabulate(table)
    for finding in sorted(diagnosis.findings, key=lambda f: -f.level):
        where = f"{source}:{finding.lines[0]}" if finding.lines else source
        key = clean(str(finding.evidence.get("setting", "")))
        typer.echo(
            f"{where}: {finding.code} {finding.name} ({finding.severity}){f' {key}' if key else ''}: "
            f"{clean(finding.message)}"
        )
        if finding.remedies and finding.level > Severity.INFO:
            typer.echo(f"    → {finding.action}")
    for table in diagnosis.tables[1:]:
        _tabulate(table)
    for note in diagnosis.notes:
        typer.echo(f"  {clean(note)}")
    if diagnosis.coverage.ran and verbose:
        lacking = [f"{needs.replace('settings.', '')} ({', '.join(codes)})" for needs, codes in missing(diagnosis)]
        if lacking:
            typer.echo(f"  checks skipped because of missing settings: {'; '.join(lacking)}")
    if unread := diagnosis.coverage.unread_keys if diagnosis.coverage.ran else []:
        listed = clean(", ".join(unread))
        typer.echo(f"  {counted(len(unread), 'setting')} not checked{f': {listed}' if verbose else ''}")


def _tabulate(table: Table) -> None:
    if table.rows:
        typer.echo(f"  {table.title}")
        width = max(len(clean(value)) for _, value, _ in table.rows)
        for what, value, origin in table.rows:
            typer.echo(f"    {what:<28}{clean(value):<{width}}{f' ({clean(origin)})' if origin else ''}".rstrip())


def _exit_code(diagnoses: list[Diagnosis], fail_on: Severity, unreadable: int, skip_others: bool) -> int:
    found = any(finding.level >= fail_on for diagnosis in diagnoses for finding in diagnosis.findings)
    unjudged = not diagnoses or not all(diagnosis.coverage.ran for diagnosis in diagnoses)
    return common.exit_code(findings=found, unreadable=unreadable, unjudged=unjudged and not skip_others)
