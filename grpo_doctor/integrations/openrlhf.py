"""OpenRLHF: reads the metrics that OpenRLHF's TensorBoard and W&B loggers receive in the Ray worker that trains.

OpenRLHF trains in a Ray actor, so the integration uses Ray's setup hook for workers:

    ray job submit --runtime-env-json='{"worker_process_setup_hook": "grpo_doctor.integrations.openrlhf.connect"}' \\
      -- python3 -m openrlhf.cli.train_ppo_ray --logger.tensorboard_dir tb …

One of the two loggers must be enabled. ``GRPO_DOCTOR_OUT`` and ``GRPO_DOCTOR_ON`` (``warn`` and ``stop``) set the
options of `LoggedRun`. Tested on the logger module of openrlhf 0.11.2.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from typing import Any

from ..run import Sample
from .scalars import LoggedRun


def connect() -> None:
    """Wrap both logger classes in this process. A second call changes nothing."""
    from openrlhf.utils import logging_utils

    hook = _Hook()
    for logger in (logging_utils.TensorboardLogger, logging_utils.WandbLogger):
        if not hasattr(logger.log_train, "__wrapped__"):
            logger.__init__ = hook.keeping_the_config(logger.__init__)
            logger.log_train = hook.around(logger.log_train, hook.train)
            logger.log_eval = hook.around(logger.log_eval, hook.evaluation)


class _Hook:
    """The single run of this process, to which both loggers report."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.run: LoggedRun | None = None
        self.last, self.series = -1, dict[str, float]()

    def keeping_the_config(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def begin(logger: Any, args: Any) -> None:
            self.config = _nested(args)
            original(logger, args)

        return begin

    def around(self, original: Callable[..., Any], look: Callable[..., dict[str, float]]) -> Callable[..., Any]:
        def log(logger: Any, global_step: int, logs_dict: Mapping[str, Any]) -> None:
            original(logger, global_step, {**logs_dict, **look(global_step, dict(logs_dict))})
            self.started().raise_requested_stop()

        log.__wrapped__ = original  # type: ignore[attr-defined]
        return log

    def train(self, step: int, logs: dict[str, Any]) -> dict[str, float]:
        if step != self.last:  # the other logger may have reported this step
            self.last = step
            text, reward = logs.pop("generated_samples", None) or (None, None)
            samples = [Sample(step=step, response=str(text), reward=reward)] if text else []
            self.series = self.started().log(step, logs, samples)
        return self.series

    def evaluation(self, step: int, logs: dict[str, Any]) -> dict[str, float]:
        return self.started().log(step, {f"eval/{key}": value for key, value in logs.items()})

    def started(self) -> LoggedRun:
        if self.run is None:
            out, on = os.environ.get("GRPO_DOCTOR_OUT", "runs/openrlhf"), os.environ.get("GRPO_DOCTOR_ON", "error=warn")
            self.run = LoggedRun(self.config, framework="openrlhf", out=out, on=on)
            atexit.register(self.run.finish)
        return self.run


def _nested(args: Any) -> Any:
    """Convert a namespace, and the namespaces in it, to mappings."""
    return {key: _nested(value) for key, value in vars(args).items()} if hasattr(args, "__dict__") else args
