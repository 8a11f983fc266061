"""A plain ``TrainerCallback``: live checks for whatever subclasses the Trainer of transformers.

For trainers that `attach` does not know (ms-swift, axolotl, LLaMA-Factory, Unsloth, supervised and preference
training): it sees what the trainer logs and nothing else. `attach` sees more of a ``GRPOTrainer``.

    trainer.add_callback(DoctorCallback(on="error=stop"))

ms-swift takes it by ``--external_plugins FILE --callbacks grpo_doctor``, where FILE holds

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
    """Examines every row that the trainer logs; acts on the first process alone, which is the one that logs.

    Args:
        out: folder of the run; ``grpo-doctor`` in the folder of the checkpoints by default.
        on: ``SEVERITY=ACTION,…`` with warn and stop.
        on_finding: called with each new finding and its action; prints a line by default.

    Raises:
        ConfigError: ``on`` cannot be read, or asks for what only `attach` can do.
    """

    def __init__(
        self, out: str | Path | None = None, *, on: str = "warning=warn,error=warn", on_finding: Told = say
    ) -> None:
        actions_from_outside(on)  # before the training, not at its first step
        self.out, self.on, self.on_finding = out, on, on_finding
        self.run: LoggedRun | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if state.is_world_process_zero:
            out = self.out or Path(args.output_dir) / "grpo-doctor"
            config = {k: v for k, v in vars(args).items() if isinstance(v, str | int | float)}
            self.run = LoggedRun(config, framework="trl", out=out, on=self.on, on_finding=self.on_finding)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **named: Any) -> None:
        if self.run is None or not logs or "train_runtime" in logs:  # the summary of the whole training is no step
            return
        self.run.log(state.global_step, logs)
        if self.run.stopped is not None:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        if self.run is not None:
            self.run.finish()

    def diagnosis(self) -> Diagnosis:
        """The diagnosis so far. Raises RuntimeError on a process that does not log."""
        if self.run is None:
            raise RuntimeError("the diagnosis is available only in the first process")
        return self.run.diagnosis()
