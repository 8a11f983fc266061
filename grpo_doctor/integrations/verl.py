"""verl: an additional logger. Set ``trainer.logger='["console","grpo_doctor"]'``.

verl 0.9 and later load this module automatically, even in Ray actors, because it is an entry point of ``verl.plugins``.
For older versions, set ``VERL_USE_EXTERNAL_MODULES=grpo_doctor.integrations.verl``. Options are part of verl's
configuration:

    '+trainer.grpo_doctor.on="error=stop"' +trainer.grpo_doctor.out=runs/mine

A stop raises `TrainingStopped` after the step's checkpoint and the other loggers. With ``trainer.rollout_data_dir``,
every step is checked together with its responses, but one step later, when the responses are on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verl.utils.tracking import Tracking

from ..fault_isolation import FaultGuard
from .scalars import LoggedRun

NAME = "grpo_doctor"


class Backend:
    """A logger of verl's `Tracking`."""

    def __init__(self, tracking: Any, project: str, experiment: str, config: Mapping[str, Any] | None) -> None:
        trainer = (config or {}).get("trainer") or {}
        options = dict(trainer.get(NAME) or {})
        options.setdefault("out", Path("runs") / f"{project}-{experiment}".replace("/", "-"))
        self.tracking, self.newest = tracking, 0
        self.run = LoggedRun(config or {}, framework="verl", **options)
        rollouts = trainer.get("rollout_data_dir")
        self.rollouts = Path(rollouts) if rollouts else None
        self.held: tuple[int, dict[str, Any]] | None = None

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Log a step; verl calls this method at every step. Raises `TrainingStopped` if a finding requires a stop."""
        self.newest = step
        if self.rollouts is None:
            self.examine(step, data)
        else:
            self.flush()
            self.held = step, dict(data)
        self.run.raise_requested_stop()

    def examine(self, step: int, data: Mapping[str, Any]) -> None:
        """Check one step, and send its series to verl's other loggers at the newest step, because W&B drops values for
        earlier steps."""
        responses = None if self.rollouts is None else self.rollouts / f"{step}.jsonl"
        series = self.run.log(step, data, responses=responses)
        others = [name for name in self.tracking.logger if name not in (NAME, "console")]
        if series:
            FaultGuard()(self.tracking.log, series, self.newest, others)

    def flush(self) -> None:
        """Check the step that was waiting for its responses."""
        held, self.held = self.held, None
        if held is not None:
            self.examine(*held)

    def finish(self) -> None:
        """Write the reports."""
        self.flush()
        self.run.finish()


def register(tracking: Any = Tracking) -> None:
    """Add the logger to verl's loggers. A second call changes nothing."""
    if NAME in tracking.supported_backend:
        return
    tracking.supported_backend.append(NAME)
    begin, finish = tracking.__init__, getattr(tracking, "finish", None)

    def begin_with_it(
        self: Any, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
    ) -> None:
        begin(self, project_name, experiment_name, default_backend, config)
        if NAME in ([default_backend] if isinstance(default_backend, str) else default_backend):
            self.logger[NAME] = Backend(self, project_name, experiment_name, config)

    def finish_all(self: Any, *arguments: Any, **named: Any) -> None:
        if NAME in getattr(self, "logger", {}):
            self.logger[NAME].finish()
        if finish is not None:
            finish(self, *arguments, **named)

    tracking.__init__, tracking.finish = begin_with_it, finish_all


register()
