"""Formats the crafted input of a finding, and writes findings of probes as unit tests."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..diagnosis.check import Finding, Severity
from ..report import output
from .entry_points import AdapterError, Seams

MARK = "# written by `grpo-doctor probe --keep`"

_ROWS, _WIDE, _SMALL = 4, 12, 64


def as_code(name: str, *given: Any) -> str:
    """Return a call of an entry point as Python code, with ids as lists of int."""
    names = list(inspect.signature(getattr(Seams, name)).parameters)[1:]
    parts = [f"{n}={_shown(value)}" for n, value in zip(names, given, strict=False)]
    return f"{name}({', '.join(parts)})"


def _shown(value: Any) -> str:
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        short = value.ndim < 2 or (value.ndim == 2 and (not value.is_floating_point() or value.numel() <= _SMALL))
        return _shown(value.tolist()) if short else f"<{' x '.join(map(str, value.shape))}>"
    if isinstance(value, list | tuple):
        limit = _ROWS if any(isinstance(v, list | tuple | str | dict) for v in value) else _WIDE
        parts = [_shown(v) for v in value]
        if len(parts) > limit:  # a row may be padded on the left or right
            parts[limit // 2 : -limit // 2] = ["…"]
        return f"[{', '.join(parts)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"  # -0.0 becomes 0.0
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1]}"


def keep(path: Path, findings: Sequence[Finding], adapter: Path, trl: str | None = None) -> int:
    """Write one pytest case to ``path`` for each finding above info, and return the number of cases.

    Nothing is written without findings. Raises `AdapterError` if the file contains anything except generated tests, or
    cannot be written.
    """
    kept = [f for f in findings if f.level > Severity.INFO]
    try:
        if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:200]:
            raise AdapterError(f"{path}: contains code other than kept test cases; pass another file to --keep")
        if kept:
            output.replace(path, _module(path, kept, adapter, trl))
    except OSError as error:
        raise AdapterError(f"{path}: cannot be written: {error.strerror}") from None
    return len(kept)


def _module(path: Path, findings: Sequence[Finding], adapter: Path, trl: str | None) -> str:
    place = os.path.relpath(adapter.resolve(), path.resolve().parent)
    file = f"Path(__file__).parent / {place!r}"
    made = f"probes.load_adapter({file})" if trl is None else f"probes.trl_adapter_from({file}, {trl!r})"
    head = f'''{MARK}
"""What the probes found in {_line(str(place))}: each case fails until the trainer is fixed."""

from pathlib import Path

import pytest

from grpo_doctor import probes


@pytest.fixture(scope="module")
def adapter():
    return {made}
'''
    return head + "".join(_case(f) for f in findings)


def _case(finding: Finding) -> str:
    name = re.sub(r"\W", "_", finding.name.lower())
    shown = finding.evidence.get("crafted") or finding.evidence.get("response") or ""
    lines = [f"    # {_line(finding.message)}", *([f"    # shown by {_line(str(shown))}"] if shown else [])]
    return (
        f"\n\ndef test_{finding.code.lower()}_{name}(adapter):\n"
        + "\n".join(lines)
        + (f'\n    probes.holds(adapter, "{finding.code}")\n')
    )


def _line(text: str) -> str:
    """Return the text in a form that cannot end a comment or a docstring."""
    plain = "".join(c if c.isprintable() else " " for c in text).replace("\\", "/")
    return re.sub(r"\s+", " ", plain).replace('"""', "'''")
