"""``attach(trainer)``: live checks for TRL's ``GRPOTrainer``, without a subclass, and without any effect on the random
state.

The trainer's methods are wrapped on the instance (`trl_hooks`). Every rank writes its records (``ranks/``). Rank 0
merges the data of all ranks into one record per step, checks this record, and sends the action to all ranks. Values
that cannot be recorded with a sharded model or vLLM are omitted; the notes of the diagnosis name them.

An error in this package never ends training. After an error, each rank still takes part in the collectives of the step.
At the end of the step, all ranks learn of the error, and training continues without checks.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerCallback

from ..config import ConfigError
from ..diagnosis.catalogue import Catalogue
from ..diagnosis.check import Finding, Severity
from ..diagnosis.live import LiveDoctor
from ..diagnosis.verdict import Diagnosis
from ..fault_isolation import FaultGuard, tell, unwatched
from ..mismatch import TokenBatch
from ..preflight import words_before
from ..record import RecordWriter, portable
from ..run import RANKS
from .alerts import alert
from .session import Folder, Session, Stopped, actions_of, holds_a_run, say, say_end, unused
from .trl_hooks import Seams
from .trl_record import Local, merged, rollouts


def attach(
    trainer: Any,
    *,
    out: str | Path = "runs/trl",
    on: str = "warning=warn,error=warn",
    record_tokens: int = 64,
    record_batches: int = 10,
    catalogue: Catalogue | None = None,
    on_finding: Callable[[Finding, str], None] | None = None,
) -> Attached:
    """Check every step of a ``GRPOTrainer`` or ``RLOOTrainer``. Call `attach` once, after creating the trainer.

    Args:
        trainer: a ``trl.GRPOTrainer`` or ``trl.RLOOTrainer``, 0.24 or later.
        out: folder for records.jsonl, samples.jsonl, config.json and the reports; a number is added if the folder
            already contains a run (a requeued job, a repeated cell), and for a second ``train()`` that starts from step
            0 (``out-2``).
        on: ``SEVERITY=ACTION,…`` with warn, skip-update, stop or rollback.
        record_tokens: number of response positions per micro-batch for logit statistics; 0 for none.
        record_batches: number of steps between token batches, which require the rollout engine's log-probabilities; 0
            for none.
        catalogue: the checks to run; by default all.
        on_finding: called with each new finding and its action, on rank 0; prints a line by default.

    Raises:
        ConfigError: ``out`` cannot be written, the trainer is already attached or has no groups and rewards (supervised
            and preference training), or ``on`` is invalid.
    """
    if not (hasattr(getattr(trainer, "args", None), "num_generations") and hasattr(trainer, "reward_funcs")):
        raise ConfigError(
            f"attach needs a TRL GRPOTrainer or RLOOTrainer, not {type(trainer).__name__}; for other trainers "
            "use trainer.add_callback(DoctorCallback()) from grpo_doctor.integrations.hf_callback"
        )
    if any(isinstance(c, _Callback) for c in trainer.callback_handler.callbacks):
        raise ConfigError("this trainer is already attached: call attach only once, after creating the trainer")
    ranks = trainer.accelerator.num_processes
    folder = Path(_from_rank_0(str(unused(Path(out).absolute(), holds_a_run)), ranks))
    if folder != Path(out).absolute() and trainer.accelerator.is_main_process:
        tell(f"grpo-doctor: {out} already contains a run; writing to {folder}")
    attached = Attached(trainer, folder, on, record_tokens, record_batches, catalogue, on_finding or say)
    trainer.add_callback(_Callback(attached))
    attached.boundary(attached.seams.connect)
    attached.boundary(attached.tell_settings)
    return attached


class Attached:
    """A trainer with live checks; `diagnosis` is available on rank 0 during and after training."""

    def __init__(
        self,
        trainer: Any,
        out: Path,
        on: str,
        record_tokens: int,
        record_batches: int,
        catalogue: Catalogue | None,
        on_finding: Callable[[Finding, str], None],
    ) -> None:
        self.trainer, self.out, self.catalogue, self.on_finding = trainer, out, catalogue, on_finding
        self.actions = actions_of(on)
        self.rank: int = trainer.accelerator.process_index
        self.ranks: int = trainer.accelerator.num_processes
        self.settings = declared(trainer)
        self.boundary = FaultGuard()
        self.told: list[str] = []
        """The lines about the settings that were printed before the first step."""
        self.watching = True
        """Whether steps are checked. The value is the same on all ranks, because all ranks change it together."""
        self.seams = Seams(trainer, record_tokens, record_batches, self.boundary)
        self.rollback_to: Path | None = None
        self.last_step: int | None = None
        self.runs = 0
        self.begin_run()

    def tell_settings(self) -> None:
        """Report settings and preflight findings before the first step."""
        if self.rank == 0:
            self.told = words_before(self.trainer.args)
            for line in self.told:
                tell(f"grpo-doctor: {line}")

    # -- the trainer interface of a Session: TRL saves its own checkpoints

    def save(self, path: Path) -> None:
        """Do nothing: TRL saves its own checkpoints."""

    def load(self, path: Path) -> None:
        """Store the checkpoint. Every rank loads it after training has stopped."""
        self.rollback_to = path

    # -- a run and its folder

    def begin_run(self) -> None:
        """Open a folder and start live checks. Raises `ConfigError`."""
        self.runs += 1
        out = self.out if self.runs == 1 else self.out.with_name(f"{self.out.name}-{self.runs}")
        self.folder = _TrlFolder(out, Path(self.trainer.args.output_dir))
        self.session: Session | None = None
        self.last_step, self.began = None, time.monotonic()
        if self.rank == 0:
            self.folder.begin(self._declared())
            doctor = LiveDoctor(self.settings, source=str(out / "records.jsonl"), catalogue=self.catalogue)
            self.session = Session(self.folder, doctor, self, self.actions, save_steps=sys.maxsize)
            self.session.on_finding = self._found
        self.own: RecordWriter | None = None

    def begin_training(self) -> None:
        """Start a new run if a second ``train()`` counts its steps from 0 again."""
        if self.last_step is not None and self.trainer.state.global_step < self.last_step:
            self.boundary(self.begin_run)
        elif self.session is not None:
            self.boundary(self.folder.claim)

    def _declared(self) -> dict[str, Any]:
        return dict(json.loads(json.dumps(portable(self.settings), default=str)))

    def _first(self, session: Session) -> None:
        """Record facts that are known only after the first step: which log-probabilities the loss uses, and which
        quantities cannot be recorded."""
        given = self.seams.local.given
        self.settings |= {f"{n}_logprobs": n in given for n in ("old", "reference", "sampling")}
        session.doctor.summary.settings.update(self.settings)
        session.doctor.summary.notes += self.seams.not_recorded()
        self.folder.declare(self._declared())

    # -- a step, on every rank

    def before_update(self, optimizer: Any) -> None:
        """Decide, before the optimizer step, whether to skip the update."""
        if not self.watching:
            return
        self.boundary(self.seams.before_update, optimizer)
        why = self._veto()
        if why is not None:
            self.trainer.model.zero_grad(
                set_to_none=True
            )  # with zero gradients, momentum would still change the weights
            self.seams.local.skipped = why

    def _veto(self) -> str | None:
        """Return why the update is skipped. The result is made identical on all ranks, because a NaN may be in only one
        shard."""
        acts = [self.actions[s] for s in sorted(self.actions) if s <= Severity.CRITICAL]
        if not acts or set(acts) == {"warn"} or getattr(self.trainer, "is_deepspeed_enabled", False):
            return None
        found = _from_all_ranks(self.seams.local.not_finite, self.ranks)
        broken = next((b for b in found if b is not None), None)
        if broken is not None and acts[-1] != "warn":
            return f"the gradient is {broken}"
        if "skip-update" not in acts:
            return None
        self.boundary(self.seams.take_metrics)
        parts: list[Local] = _from_all_ranks(self.seams.local, self.ranks)
        session, step = self.session, self.trainer.state.global_step + 1
        ahead = self.boundary(lambda: session.veto(merged(parts, step, self.settings)) if session else None)
        why: str | None = _from_rank_0(ahead, self.ranks)
        return why

    def end_step(self, control: Any) -> None:
        """Finish the step with one record, one check and one decision for all ranks."""
        if not self.watching:
            return
        step = self.trainer.state.global_step
        self.boundary(self._finish, step)
        seen = _from_all_ranks((self.seams.local, self.boundary.failure), self.ranks)
        failure = next((failed for _, failed in seen if failed is not None), None)
        stop = False
        if failure is None:
            parts = [local for local, _ in seen]
            self.boundary(self._examine, parts, step)
            stopped = self.session is not None and self.session.stopped is not None
            decided = _from_rank_0((stopped, self.rollback_to, self.boundary.failure), self.ranks)
            stop, self.rollback_to, failure = decided
        if stop:
            control.should_training_stop = True
        if failure is not None:
            self._go_unwatched(failure, step)
        self.last_step = step

    def _finish(self, step: int) -> None:
        """Complete the data of this rank for the step."""
        self.seams.local.progress["wall_time"] = time.monotonic() - self.began
        self.seams.after_update()
        self.seams.take_metrics()
        if self.ranks > 1:  # with one process, the record of rank 0 is the same
            path = self.folder.path / RANKS / f"records-rank{self.rank}.jsonl"
            self.own = self.own or RecordWriter(path)
            self.own.write(merged([self.seams.local], step, self.settings))

    def _examine(self, parts: list[Local], step: int) -> None:
        """Build and check the record of all ranks on rank 0."""
        if self.session is not None:
            if self.last_step is None:
                self._first(self.session)
            record, responses = merged(parts, step, self.settings), [r for p in parts for r in p.token_batch]
            batch = TokenBatch(step=step, responses=responses, weight_version=step - 1, settings=self.settings)
            fresh = self.session.push(record, [], rollouts(parts, self.settings), batch if responses else None)
            self.seams.series |= self.session.series(fresh)
        self.seams.begin_step()

    def _go_unwatched(self, failure: str, step: int) -> None:
        self.watching = False
        self.boundary.failure = failure
        if self.rank == 0:
            tell(unwatched(failure, f"at step {step}"))
        if self.session is not None:
            why = failure.strip().splitlines()[-1]
            self.session.doctor.summary.notes.append(
                f"grpo-doctor failed at step {step} and checked no later step: {why}"
            )

    # -- the end

    def end_training(self) -> None:
        """Roll back to a checkpoint if a finding requires a rollback, and write the reports."""
        if self.rollback_to is not None:
            self.trainer._load_from_checkpoint(str(self.rollback_to))
            self.rollback_to = None
        end = FaultGuard()  # also report the records from before a failure
        end(self._report)
        end(self.folder.release)
        if end.failure is not None and self.watching:
            self._go_unwatched(end.failure, self.trainer.state.global_step)

    def _report(self) -> None:
        if self.session is not None and self.session.doctor.summary.steps.size:
            diagnosis = self.diagnosis()
            say_end(diagnosis, self.folder.write_reports(diagnosis))

    def diagnosis(self) -> Diagnosis:
        """Return the current diagnosis. Raises RuntimeError on ranks other than 0."""
        if self.session is None:
            raise RuntimeError("the diagnosis is available only on rank 0")
        return self.session.diagnosis()

    @property
    def stopped(self) -> Stopped | None:
        """Return why grpo-doctor stopped training; None if it did not, and on ranks other than 0."""
        return None if self.session is None else self.session.stopped

    def _found(self, finding: Finding, action: str) -> None:
        alert(finding)
        told = any(line.startswith(f"settings: {finding.code} ") for line in self.told)
        if not (told and action == "warn" and self.on_finding is say):  # printed before the first step
            self.on_finding(finding, action)


class _TrlFolder(Folder):
    """A run folder whose checkpoints are those that TRL saved."""

    elsewhere = onward = "name another folder: attach(trainer, out=…)"

    def __init__(self, path: Path, saved: Path) -> None:
        super().__init__(path)
        self.saved = saved

    def checkpoint(self, step: int) -> Path:
        return self.saved / f"checkpoint-{step}"

    def _numbered(self) -> list[int]:
        names = (path.name.removeprefix("checkpoint-") for path in self.saved.glob("checkpoint-*"))
        return [int(name) for name in names if name.isdigit()]

    def drop_after(self, step: int) -> None:
        """Do nothing: TRL's checkpoints belong to the user."""


class _Callback(TrainerCallback):
    def __init__(self, attached: Attached) -> None:
        self.attached = attached

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.begin_training()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.before_update(named.get("optimizer"))

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.end_step(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.end_training()


def declared(trainer: Any) -> dict[str, Any]:
    """Return the trainer's settings under the names of record fields."""
    args = trainer.args
    names = (
        "learning_rate beta temperature top_p top_k min_p repetition_penalty epsilon epsilon_high loss_type "
        "scale_rewards importance_sampling_level num_iterations num_generations max_completion_length "
        "gradient_checkpointing gradient_accumulation_steps entropy_coef entropy_target use_adaptive_entropy "
        "mask_truncated_completions use_vllm bf16 fp16 seed max_grad_norm steps_per_generation warmup_steps"
    ).split()
    settings: dict[str, Any] = {n: v for n in names if isinstance(v := getattr(args, n, None), int | float | str)}
    leave_one_out = getattr(args, "normalize_advantages", None)  # for RLOO, which may divide by the spread of the batch
    scale = str(getattr(args, "scale_rewards", "group")) if leave_one_out is None else ("none", "batch")[leave_one_out]
    settings |= {
        "framework": "trl",
        "use_peft": hasattr(trainer.accelerator.unwrap_model(trainer.model), "peft_config"),
        "group_size": args.num_generations,
        "kl_coef": args.beta,
        "max_new_tokens": args.max_completion_length,
        "normaliser": {"True": "group", "False": "none"}.get(scale, scale),
        "advantage_ddof": 1,
        "reward_functions": len(trainer.reward_funcs),
    }
    return settings


def _from_all_ranks(value: Any, ranks: int) -> list[Any]:
    """Gather one value per rank on all ranks."""
    return list(gather_object([value])) if ranks > 1 else [value]


def _from_rank_0(value: Any, ranks: int) -> Any:
    values = [value]
    if ranks > 1:
        broadcast_object_list(values, from_process=0)
    return values[0]
