"""Checks configurations before a run. The package contains a reader for each syntax, tables that describe frameworks,
and derived settings.

The rules are ordinary checks in ``checks/preflight`` that require fields named ``settings.name``. A configuration
becomes a run of one row that declares its settings. Therefore, one implementation of a rule checks files, live objects,
and logs that print their settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..diagnosis.catalogue import Catalogue
    from ..diagnosis.verdict import Diagnosis
    from .configuration import Configuration


def preflight(target: Any, *, catalogue: Catalogue | None = None) -> Diagnosis:
    """Check the settings of a trainer before its first step.

    Args:
        target: the trainer's arguments (``GRPOConfig``, any dataclass, a mapping of settings), or the path of a
            configuration file. If the file configures several training runs, only the first is checked.
        catalogue: the checks to run; by default, all checks of settings.

    Returns:
        A diagnosis whose findings name settings. ``coverage`` lists skipped checks with the reason, and ``notes``
            describe the settings that were read, assumed or not resolved.

    Raises:
        ReadError: the file cannot be read or contains no settings.
    """
    from .judgement import judge

    return judge(*_configuration(target), catalogue)


def _configuration(target: Any) -> tuple[Configuration, str]:
    """Return the settings of a trainer or a file, and the name of the source in a diagnosis. Raises `ReadError`."""
    from .live_objects import read_object
    from .reading import read

    if isinstance(target, str | Path):
        return read(Path(target))[0], str(target)
    return read_object(target), type(target).__name__


def words_before(target: Any) -> list[str]:
    """Return lines that summarise a trainer's settings before its first step. Raises `ReadError`.

    The batch arithmetic comes first, followed by each finding at warning or above, and each known bug of the installed
    versions. The list is empty if there are no reinforcement learning settings.
    """
    from ..advisories.finding import CODE, lines
    from ..diagnosis.check import Severity
    from .judgement import judge, known_bugs

    found, source = _configuration(target)
    diagnosis = judge(found, source)
    if not diagnosis.tables:
        return []
    arithmetic = (table for table in diagnosis.tables if table.title == "Batch arithmetic")
    known = [f"{what} {value}" for table in arithmetic for what, value, _ in table.rows if value[:1].isdigit()]
    told = [f for f in diagnosis.findings if f.level >= Severity.WARNING and f.code != CODE]
    return [
        f"settings: {'; '.join(known)}" if known else f"settings: {diagnosis.headline}",
        *(f"settings: {f.code} {f.name} ({f.severity}): {f.message}" for f in told),
        *(f"versions: {line}" for line in lines(known_bugs(found))),
    ]
