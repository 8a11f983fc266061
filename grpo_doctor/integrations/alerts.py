"""Sends findings as alerts to the tracker that the training already uses: W&B or trackio."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from ..diagnosis.check import Finding, Severity
from ..fault_isolation import Boundary, tell


def alert(finding: Finding) -> None:
    """Sends a finding at warning or above to W&B and trackio where this process has a run open in them.

    What the tracker refuses is said and ends nothing.
    """
    if finding.level < Severity.WARNING:
        return
    title = f"grpo-doctor: {finding.code} {finding.name}"
    text = f"Step {finding.detected_step}: {finding.message}"
    for name, send in _open_trackers(finding.level >= Severity.ERROR):
        sent = Boundary()
        sent(send, title, text)
        if sent.failure is not None:
            tell(f"grpo-doctor: {name} rejected an alert: {sent.failure.strip().splitlines()[-1]}")


def _open_trackers(error: bool) -> Iterator[tuple[str, Callable[[str, str], None]]]:
    """Return the trackers that the training has imported and started a run in."""
    wandb = sys.modules.get("wandb")
    if wandb is not None and getattr(wandb, "run", None) is not None:
        yield "W&B", lambda title, text: wandb.run.alert(title, text, level="ERROR" if error else "WARN")
    trackio, variables = sys.modules.get("trackio"), sys.modules.get("trackio.context_vars")
    if trackio is not None and variables is not None and variables.current_run.get() is not None:
        level = trackio.AlertLevel.ERROR if error else trackio.AlertLevel.WARN
        yield "trackio", lambda title, text: trackio.alert(title, text, level=level)
