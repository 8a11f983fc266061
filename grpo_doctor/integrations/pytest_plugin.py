"""A pytest plugin with a ``diagnose`` fixture. Its option ``--grpo-doctor-run PATH`` adds a test that fails if the run
is failing.

>>> def test_smoke_run(diagnose):  # doctest: +SKIP
...     assert diagnose("runs/smoke/records.jsonl").verdict != "failing"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..diagnosis.verdict import Diagnosis
    from ..record import StepRecord
    from ..run import Run

    Diagnosable = str | Path | Run | Iterable[StepRecord]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--grpo-doctor-run``."""
    parser.getgroup("grpo-doctor").addoption(
        "--grpo-doctor-run",
        action="append",
        default=[],
        metavar="PATH",
        help="A log or folder of a run as a test: it fails if the run fails or cannot be judged; repeatable.",
    )


@pytest.fixture
def diagnose() -> Callable[[Diagnosable], Diagnosis]:
    """Return a function that maps a path, a `Run` or records to a `Diagnosis`; a path must contain one run."""
    return _diagnose


def _diagnose(what: Diagnosable) -> Diagnosis:
    from .. import Run, diagnose
    from ..run import run_of

    return diagnose(what if isinstance(what, str | Path | Run) else run_of(what))


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add one test for every path of ``--grpo-doctor-run``."""
    items.extend(RunItem.from_parent(session, name=path) for path in config.getoption("--grpo-doctor-run"))


class RunError(Exception):
    """A run that is failing or could not be judged; the message is the report of the run."""


class RunItem(pytest.Item):
    """A test that fails if a run is failing or could not be judged."""

    def runtest(self) -> None:
        """Raise `RunError`, with the report, if the run is failing or could not be judged."""
        from .. import diagnose
        from ..readers import read
        from ..report.model import Options, render

        bad = [d for d in map(diagnose, read(Path(self.name))) if d.verdict in ("failing", "unjudged")]
        if bad:
            raise RunError(render("text", bad, Options(samples=False)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report, or one line that explains why a path cannot be read."""
        from ..readers import ReadError

        if isinstance(excinfo.value, RunError | ReadError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the path of the log as the location of the test."""
        return Path(self.name), None, f"grpo-doctor: {self.name}"
