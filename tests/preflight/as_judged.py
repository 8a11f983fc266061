"""`grpo_doctor.testing` for rules of configurations: a framework brings its capabilities, as in `judge`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_doctor import testing
from grpo_doctor.diagnosis.check import Finding
from grpo_doctor.preflight.frameworks import frameworks

CAPABLE = {f.name: dict(f.capabilities) for f in frameworks()}


def run_check(code: str, settings: Mapping[str, Any] | None = None, **columns: Any) -> Finding | None:
    """Return the finding of a check, or None."""
    given = settings or {}
    return testing.run_check(code, CAPABLE.get(str(given.get("framework")), {}) | dict(given), **columns)


def find(code: str, settings: Mapping[str, Any] | None = None, **columns: Any) -> Finding:
    """Return the finding of a check; fail if there is none."""
    found = run_check(code, settings, **columns)
    assert found is not None
    return found
