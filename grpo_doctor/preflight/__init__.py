"""Configurations before anything runs: readers by syntax, frameworks by name and version, rules across fields.

The rules are checks like all others, in ``checks/preflight``: they ask for ``settings.name``, and a configuration is a
run of one row that declares them. So a rule has one implementation for files, for live objects and for logs that
print their settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..diagnosis.catalogue import Catalogue
    from ..diagnosis.verdict import Diagnosis
    from .configuration import Configuration


def preflight(target: Any, *, catalogue: Catalogue | None = None) -> Diagnosis:
    """Judges the settings of a trainer before its first step.

    Args:
        target: the trainer's arguments (``GRPOConfig``, any dataclass, a mapping of settings), or the path of a
            configuration, of which the first training is judged.
        catalogue: the checks to run; by default all that judge settings.

    Returns:
        A diagnosis whose findings name settings; ``coverage`` says what could not be judged and why, and
        ``notes`` what was read.

    Raises:
        ReadError: the file cannot be read, or holds no settings.
    """
    from .judgement import judge

    return judge(*_configuration(target), catalogue)


def _configuration(target: Any) -> tuple[Configuration, str]:
    """The settings of a trainer or a file, and what they are called in a diagnosis. Raises `ReadError`."""
    from .live_objects import read_object
    from .reading import read

    if isinstance(target, str | Path):
        return read(Path(target))[0], str(target)
    return read_object(target), type(target).__name__


def words_before(target: Any) -> list[str]:
    """What is worth saying of a trainer's settings before its first step, a line each. Raises `ReadError`.

    The arithmetic of a step comes first, then each finding from warning on, then each known bug of the versions. Empty
    where nothing of reinforcement learning is set.
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
