"""NeMo-RL: an additional logger in ``Logger.loggers``.

    logger = Logger(master_config.logger)
    logger.loggers.append(DoctorLogger(master_config.model_dump(), on="error=stop"))

Written against NeMo-RL's ``LoggerInterface`` (nemo_rl/utils/logger.py, August 2026); not tested on NeMo-RL itself,
which is not on PyPI.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from typing import Any

from .scalars import LoggedRun

SEEN = ("", "train", "validation")
"""Prefixes of training and validation metrics; all other metrics are about timings, hardware and weight transfers."""


class DoctorLogger:
    """A logger for NeMo-RL. A step is checked when it is complete, or when the next step begins."""

    def __init__(self, config: Mapping[str, Any], *, out: str = "runs/nemo-rl", on: str = "error=warn") -> None:
        self.run = LoggedRun(config, framework="nemo-rl", out=out, on=on)
        self.step, self.metrics = 0, dict[str, Any]()
        atexit.register(self.close)

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: int,
        prefix: str | None = "",
        step_metric: str | None = None,
        step_finished: bool = False,
    ) -> None:
        """Add metrics of a step. Raises `TrainingStopped` if a finding requires a stop."""
        if step != self.step:
            self.flush()
            self.step = step
        if (prefix or "") in SEEN:
            self.metrics |= {f"{prefix}/{key}" if prefix else key: value for key, value in metrics.items()}
        if step_finished:
            self.flush()

    def flush(self) -> None:
        """Check the current step."""
        self._log()
        self.run.raise_requested_stop()

    def close(self) -> None:
        """Write the reports."""
        self._log()
        self.run.finish()

    def _log(self) -> None:
        metrics, self.metrics = self.metrics, {}
        if metrics:
            self.run.log(self.step, metrics)

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:
        """Do nothing: the configuration was passed to the constructor."""

    def log_histogram(self, histogram: list[Any], step: int, name: str) -> None:
        """Do nothing: no check uses histograms."""

    def log_plot(self, figure: Any, step: int, name: str) -> None:
        """Do nothing: no check uses plots."""
