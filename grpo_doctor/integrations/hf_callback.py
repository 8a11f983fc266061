"""A ``TrainerCallback`` with live checks for every subclass of the transformers Trainer.

Use the callback for trainers that `attach` does not support, such as ms-swift, axolotl, LLaMA-Factory and Unsloth, and
for supervised and preference training. The callback reads only the logged metrics. For a ``GRPOTrainer``, `attach`
records more.

    trainer.add_callback(DoctorCallback(on="error=stop"))

ms-swift loads the callback with ``--external_plugins FILE --callbacks grpo_doctor``. FILE contains

    from swift.callbacks import callbacks_map
    from grpo_doctor.integrations.hf_callback import DoctorCallback
    callbacks_map["grpo_doctor"] = lambda args, trainer: DoctorCallback()
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..diagnosis.verdict import Diagnosis
from .scalars import LoggedRun, Told, actions_from_outside
from .session import say


class DoctorCallback(TrainerCallback):
    """Checks every row that the trainer logs, on the first process only, because the other processes do not log.

    Args:
        out: folder of the run. The default is ``grpo-doctor`` in the folder of the checkpoints.
        on: ``SEVERITY=ACTION,…`` with warn and stop.
        on_finding: called with each new finding and its action; prints a line by default.

    Raises:
        ConfigError: ``on`` is invalid, or needs an action that only `attach` supports.
    """

    def __init__(
        self, out: str | Path | None = None, *, on: str = "warning=warn,error=warn", on_finding: Told = say
    ) -> None:
        actions_from_outside(on)  # errors appear before the training, not at its first step
        self.out, self.on, self.on_finding = out, on, on_finding
        self.run: LoggedRun | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if state.is_world_process_zero:
            out = self.out or Path(args.output_dir) / "grpo-doctor"
            config = {k: v for k, v in vars(args).items() if isinstance(v, str | int | float)}
            self.run = LoggedRun(config, framework="trl", out=out, on=self.on, on_finding=self.on_finding)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **named: Any) -> None:
        if self.run is None or not logs or "train_runtime" in logs:  # the summary at the end of training is not a step
            return
        self.run.log(state.global_step, logs)
        if self.run.stopped is not None:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if self.run is not None:
            self.run.finish()

    def diagnosis(self) -> Diagnosis:
        """Return the current diagnosis. Raises RuntimeError on a process that does not log."""
        if self.run is None:
            raise RuntimeError("the diagnosis is available only in the first process")
        return self.run.diagnosis()
