"""The report as JSON: a versioned contract, schema ``grpo-doctor/report/1``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from grpo_doctor import Diagnosis
from grpo_doctor.record import portable
from grpo_doctor.report import Options

_HIDDEN = ("columns",)


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """One object with a list of runs; non-finite numbers are strings."""
    import grpo_doctor

    tool = {"name": "grpo-doctor", "version": grpo_doctor.__version__}
    report = {"schema": "grpo-doctor/report/1", "tool": tool, "runs": [_run(d) for d in diagnoses]}
    return json.dumps(portable(report), indent=2, ensure_ascii=False, allow_nan=False)


def _run(diagnosis: Diagnosis) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(diagnosis, name))
        for name in diagnosis.__struct_fields__
        if name not in ("run", "tables")
    }
    for finding in plain["findings"]:
        for name in _HIDDEN:
            del finding[name]
    return plain
