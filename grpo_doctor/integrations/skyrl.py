"""SkyRL: reads the metrics that SkyRL's tracker receives.

    class Exp(BasePPOExp):
        def get_tracker(self):
            return grpo_doctor.integrations.skyrl.watched(super().get_tracker(), self.cfg, on="error=stop")

Tested on a tracker with the signature of SkyRL's ``Tracking`` (skyrl/train/utils/tracking.py, 0.3).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from .scalars import LoggedRun


def watched(tracker: Any, config: Any, *, out: str = "runs/skyrl", on: str = "error=warn") -> Any:
    """Return the tracker with ``log`` and ``finish`` wrapped. The wrapped ``log`` adds the verdict and new findings to
    the metrics of the step. If a finding requires a stop, the wrapped ``log`` raises `TrainingStopped` after the
    tracker has logged the step.
    """
    run = LoggedRun(_mapping(config), framework="skyrl", out=out, on=on)
    log, finish = tracker.log, tracker.finish

    @functools.wraps(log)
    def log_and_examine(data: Mapping[str, Any], step: int, *arguments: Any, **named: Any) -> None:
        log({**data, **run.log(step, data)}, step, *arguments, **named)
        run.raise_requested_stop()

    @functools.wraps(finish)
    def finish_and_report() -> None:
        run.finish()
        finish()

    tracker.log, tracker.finish = log_and_examine, finish_and_report
    return tracker


def _mapping(config: Any) -> dict[str, Any]:
    """Convert a dataclass, or an omegaconf object, to a mapping."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return dataclasses.asdict(config)
    return {key: _mapping(value) if isinstance(value, Mapping) else value for key, value in config.items()}
