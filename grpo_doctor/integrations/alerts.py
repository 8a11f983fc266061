"""Sends findings as alerts, and the report as an artifact, to the experiment tracker that the training run already
uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..diagnosis.check import Finding, Severity
from ..fault_isolation import FaultGuard, tell


def alert(finding: Finding) -> None:
    """Send a finding at warning or above to W&B and trackio, if this process has an open run there. Errors of a tracker
    are printed and do not stop training.
    """
    if finding.level < Severity.WARNING:
        return
    title = f"grpo-doctor: {finding.code} {finding.name}"
    text = f"Step {finding.detected_step}: {finding.message}"
    for name, send in _open_trackers(finding.level >= Severity.ERROR):
        _tried(f"{name} rejected an alert", send, title, text)


def keep_report(report: Path) -> None:
    """Add the HTML report to the open W&B and MLflow runs of this process. Errors of a tracker are printed."""
    wandb, mlflow = sys.modules.get("wandb"), sys.modules.get("mlflow")

    def to_wandb() -> None:
        if wandb is not None and getattr(wandb, "run", None) is not None:
            artifact = wandb.Artifact(f"grpo-doctor-{wandb.run.id}", type="report")
            artifact.add_file(str(report))
            wandb.run.log_artifact(artifact)

    def to_mlflow() -> None:
        if mlflow is not None and mlflow.active_run() is not None:
            mlflow.log_artifact(str(report), "grpo-doctor")

    _tried("W&B rejected the report", to_wandb)
    _tried("MLflow rejected the report", to_mlflow)


def _tried(otherwise: str, send: Callable[..., None], *arguments: Any) -> None:
    """Call a tracker, and print the error that it raises, if any."""
    sent = FaultGuard()
    sent(send, *arguments)
    if sent.failure is not None:
        tell(f"grpo-doctor: {otherwise}: {sent.failure.strip().splitlines()[-1]}")


def _open_trackers(error: bool) -> Iterator[tuple[str, Callable[[str, str], None]]]:
    """Yield the name and the alert function of each tracker in which the trainer has started a run."""
    wandb = sys.modules.get("wandb")
    if wandb is not None and getattr(wandb, "run", None) is not None:
        yield "W&B", lambda title, text: wandb.run.alert(title, text, level="ERROR" if error else "WARN")
    trackio, variables = sys.modules.get("trackio"), sys.modules.get("trackio.context_vars")
    if trackio is not None and variables is not None and variables.current_run.get() is not None:
        level = trackio.AlertLevel.ERROR if error else trackio.AlertLevel.WARN
        yield "trackio", lambda title, text: trackio.alert(title, text, level=level)
