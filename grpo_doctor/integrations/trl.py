"""``attach(trainer)``: live checks for TRL's ``GRPOTrainer``, without a subclass and without touching its random state.

It wraps ``compute_loss``, the reward functions, ``accelerator.clip_grad_norm_``, ``model.generate`` and ``log`` on
the instance, hooks the backbone (policy logits are never materialised since TRL 1.10) and adds a callback. Every
rank writes what it saw (``ranks/``), rank 0 merges the ranks into one record a step, examines it, and tells all of
them what to do. What a sharded model or vLLM keeps out of sight is left out and named in the diagnosis's notes.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor
from transformers import TrainerCallback

from ..catalogue import Catalogue
from ..check import Finding, Severity
from ..diagnosis import Diagnosis
from ..doctor import LiveDoctor
from ..engine.logits import logit_statistics
from ..record import RecordWriter, portable
from ..session import Folder, Session, Stopped, actions_of
from .trl_record import Ids, Local, merged

WEIGHTS = 4096
"""Weights whose movement is measured, spread over the trainable tensors."""


def attach(
    trainer: Any,
    *,
    out: str | Path = "runs/trl",
    on: str = "warning=warn,error=warn",
    record_tokens: int = 64,
    catalogue: Catalogue | None = None,
    on_finding: Callable[[Finding, str], None] | None = None,
) -> Attached:
    """Examines every step of a ``GRPOTrainer`` while it trains. Call it once, after the trainer is built.

    Args:
        trainer: a ``trl.GRPOTrainer``, 0.24 or later.
        out: folder for records.jsonl, samples.jsonl, config.json and the reports; it must not hold a run yet.
        on: ``SEVERITY=ACTION,…`` with warn, skip-update, stop or rollback.
        record_tokens: response positions a micro-batch whose logits are looked at; 0 leaves them out.
        catalogue: the checks; all by default.
        on_finding: called with each new finding and its action, on rank 0; prints a line by default.

    Raises:
        ConfigError: ``out`` holds a run, or ``on`` cannot be read.
    """
    attached = Attached(trainer, Path(out), on, record_tokens, catalogue, on_finding or _say)
    attached.connect()
    return attached


def _say(finding: Finding, action: str) -> None:
    print(f"grpo-doctor: step {finding.detected_step}: {finding.code} {finding.message} [{action}]", file=sys.stderr)


class Attached:
    """A trainer under examination; `diagnosis` after (or during) training, on rank 0."""

    def __init__(
        self,
        trainer: Any,
        out: Path,
        on: str,
        record_tokens: int,
        catalogue: Catalogue | None,
        on_finding: Callable[[Finding, str], None],
    ) -> None:
        self.trainer = trainer
        self.record_tokens = record_tokens
        self.actions = actions_of(on)
        self.rank: int = trainer.accelerator.process_index
        self.ranks: int = trainer.accelerator.num_processes
        self.settings = declared(trainer)
        self.folder = _TrlFolder(out, Path(trainer.args.output_dir))
        self.local = Local()
        self.alerts: dict[str, float] = {}
        self.session: Session | None = None
        self.rollback_to: Path | None = None
        self.last_step: int | None = None
        self.began = time.monotonic()
        if self.rank == 0:
            self._declare()
            doctor = LiveDoctor(self.settings, source=str(out / "records.jsonl"), catalogue=catalogue)
            self.session = Session(self.folder, doctor, self, self.actions, save_steps=sys.maxsize)
            self.session.on_finding = lambda finding, action: self._found(finding, action, on_finding)
        # of this rank alone; with one process the record is the same
        self.own = RecordWriter(out / "ranks" / f"records-rank{self.rank}.jsonl") if self.ranks > 1 else None
        # a private generator: the probe must not change what the trainer samples
        self._generator = torch.Generator().manual_seed(0)
        self._hidden: Tensor | None = None
        self._logprobs: Tensor | None = None
        self._listening = False
        self._before: list[tuple[Tensor, Tensor, int]] = []
        self._metrics_seen: dict[str, int] = {}

    # -- what a Session asks of a trainer: TRL saves its own checkpoints

    def save(self, path: Path) -> None:
        """Nothing: TRL saves what its settings say."""

    def load(self, path: Path) -> None:
        """Remembers the checkpoint; every rank loads it when the training has stopped."""
        self.rollback_to = path

    # -- wiring

    def connect(self) -> None:
        """Wraps the seams on the instance."""
        trainer = self.trainer
        trainer.compute_loss = self._around_loss(trainer.compute_loss)
        trainer.log = self._around_log(trainer.log)
        trainer.accelerator.clip_grad_norm_ = self._around_clip(trainer.accelerator.clip_grad_norm_)
        trainer.reward_funcs = [
            self._around_reward(i, function) if _plain_function(function) else function
            for i, function in enumerate(trainer.reward_funcs)
        ]
        trainer.model.generate = self._around_generate(trainer.model.generate)
        if hasattr(trainer, "_get_per_token_logps_and_entropies"):
            trainer._get_per_token_logps_and_entropies = self._around_logprobs(
                trainer._get_per_token_logps_and_entropies
            )
        self.backbone().register_forward_hook(self._keep_hidden)
        trainer.add_callback(_Callback(self))

    def base(self) -> Any:
        """The causal language model, without accelerate's and peft's wrappers."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        return model.get_base_model() if hasattr(model, "get_base_model") else model

    def backbone(self) -> Any:
        """The model below its head; its output is the last hidden state [B, L, H]."""
        return self.base().base_model

    def _keep_hidden(self, module: Any, arguments: Any, output: Any) -> None:
        if self._listening and self.record_tokens:
            states = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", None)
            self._hidden = None if states is None else states.detach()

    def _around_logprobs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def per_token(*arguments: Any, **named: Any) -> Any:
            found = original(*arguments, **named)
            if self._listening:
                self._logprobs = found[0].detach()
            return found

        return per_token

    def _around_loss(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compute_loss(model: Any, inputs: dict[str, Any], *arguments: Any, **named: Any) -> Any:
            if not model.training:
                return original(model, inputs, *arguments, **named)
            self._listening = True
            try:
                loss = original(model, inputs, *arguments, **named)
            finally:
                self._listening = False
            self._after_loss(inputs, loss)
            return loss

        return compute_loss

    @torch.no_grad()
    def _after_loss(self, inputs: Mapping[str, Any], loss: Tensor) -> None:
        logprobs, self._logprobs = self._logprobs, None
        self.local.batch(inputs, loss, self.ids.ends, logprobs)
        self._sharpness(inputs)

    def _around_reward(self, index: int, function: Callable[..., Any]) -> Callable[..., Any]:
        weights = self.trainer.reward_weights

        @functools.wraps(function)
        def rewards(*arguments: Any, **named: Any) -> Any:
            given = function(*arguments, **named)
            if self.trainer.model.training:
                name = getattr(function, "__name__", type(function).__name__)
                self._saw_rewards(name, float(weights[index]), list(given), named)
            return given

        return rewards

    def _saw_rewards(self, name: str, weight: float, given: list[Any], named: Mapping[str, Any]) -> None:
        self.local.rollout(name, weight, given, named, self.ids)

    def _around_generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        model = weakref.ref(self.trainer.model)

        @functools.wraps(original)
        def generate(*arguments: Any, **named: Any) -> Any:
            seen = model()
            if seen is not None:
                self.local.generation_training_mode = bool(seen.training)
                self.local.generation_checkpointing = _checkpointing(seen)
            return original(*arguments, **named)

        return generate

    def _around_clip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clip_grad_norm_(parameters: Any, *arguments: Any, **named: Any) -> Any:
            self._look_at_gradients()  # clipping by a NaN norm would make all of them NaN
            norm = original(parameters, *arguments, **named)
            if norm is not None:
                self.local.grad_norm = float(norm)
            return norm

        return clip_grad_norm_

    def _around_log(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def log(logs: dict[str, float], *arguments: Any, **named: Any) -> Any:
            logs.update(self.alerts)
            self.alerts.clear()
            logged = original(logs, *arguments, **named)
            self._metrics_seen = {}  # TRL begins its lists anew
            return logged

        return log

    # -- statistics of a step

    @functools.cached_property
    def ids(self) -> Ids:
        """Ids that end a response, pad it, or belong to the chat template."""
        known = getattr(self.trainer, "eos_token_ids", None) or getattr(self.trainer, "eos_token_id", None)
        known = known if known is not None else self.tokenizer.eos_token_id
        ends = frozenset(int(i) for i in (known if isinstance(known, list | tuple | set) else [known]))
        pad = self.tokenizer.pad_token_id
        special = set(self.tokenizer.all_special_ids) - {pad, self.tokenizer.unk_token_id}
        return Ids(ends, pad, frozenset(special - ends))

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, also of a processor."""
        return getattr(self.trainer.processing_class, "tokenizer", self.trainer.processing_class)

    def _sharpness(self, inputs: Mapping[str, Any]) -> None:
        """Statistics of the logits at some response positions; a sharded head is left out (`unseen` says so)."""
        hidden, self._hidden = self._hidden, None
        head = self.base().get_output_embeddings()
        if hidden is None or head is None or _sharded(head.weight):
            return
        mask = inputs["completion_mask"].bool()  # [B, T]
        rows = hidden[:, -mask.size(1) - 1 : -1][mask]  # states that predict a response token
        if not len(rows):
            return
        chosen = torch.randperm(len(rows), generator=self._generator)[: self.record_tokens].to(rows.device)
        logits = torch.nn.functional.linear(rows[chosen].to(head.weight.dtype), head.weight, head.bias)
        measured = logit_statistics(logits)
        ends = (logits[:, sorted(self.ids.ends)].float() - measured.normaliser[:, None]).exp().sum(1)
        self.local.sharpness(measured, ends)

    def unseen(self) -> list[str]:
        """What this set-up keeps out of sight, in words for the report."""
        trainer, said = self.trainer, []
        head = self.base().get_output_embeddings()
        if self.record_tokens and (head is None or _sharded(head.weight)):
            said.append("logit statistics were not recorded: the output head is sharded over ranks")
        if any(_sharded(p, matrix=False) for p in trainer.model.parameters()):
            said.append("weight_delta is of the shard of rank 0: the weights are sharded")
        if getattr(trainer, "is_deepspeed_enabled", False):
            said.append(
                "DeepSpeed updates within backward: gradients were not examined and an update cannot be skipped; "
                "grad_norm is DeepSpeed's own"
            )
        if getattr(trainer, "use_vllm", False):
            said.append("vLLM generates: the mode of the model during generation was not recorded")
        if getattr(trainer, "use_liger_kernel", False) or getattr(trainer.args, "use_liger_kernel", False):
            said.append("the Liger loss shows no log-probabilities: ratio and logp_advantage_cov were not recorded")
        unwrapped = len(trainer.reward_funcs) - sum(map(_plain_function, trainer.reward_funcs))
        if unwrapped:
            said.append(
                f"{unwrapped} of {len(trainer.reward_funcs)} rewards come from a model or a coroutine: rewards are the "
                "means that TRL logs, and rewards of single groups were not recorded"
            )
        return said

    def _look_at_gradients(self) -> None:
        """Names the first tensor whose gradient is not finite. One read of the gradients, one sync."""
        named = [(n, p.grad) for n, p in self.trainer.model.named_parameters() if p.grad is not None]
        self.local.looked_at_gradients = True
        if not named:
            return
        sums = torch.stack([_own_part(grad.detach()).float().sum() for _, grad in named])
        broken = (~torch.isfinite(sums)).nonzero()
        if len(broken):
            first = int(broken[0])
            self.local.not_finite = named[first][0], "NaN" if bool(sums[first].isnan()) else "infinite"

    def before_update(self, optimizer: Any) -> None:
        """The last moment before the weights move: rate, a sample of the weights, and whether to skip."""
        groups = getattr(optimizer, "param_groups", None)
        self.local.learning_rate = float(groups[0]["lr"]) if groups else None
        if not self.local.looked_at_gradients:
            self._look_at_gradients()
        self._before = _sampled_weights(self.trainer.model)
        why = self._veto()
        if why is not None:
            self.trainer.model.zero_grad(set_to_none=True)  # zeros would still move the weights by momentum
            self.local.skipped = why

    def _veto(self) -> str | None:
        """Why the update is skipped; the same on every rank, for a shard may hold the only NaN."""
        acts = [self.actions[s] for s in sorted(self.actions) if s <= Severity.CRITICAL]
        if not acts or set(acts) == {"warn"} or getattr(self.trainer, "is_deepspeed_enabled", False):
            return None
        found = [self.local.not_finite]
        broken = next((b for b in (gather_object(found) if self.ranks > 1 else found) if b is not None), None)
        if broken is not None and acts[-1] != "warn":
            return f"the gradient of {broken[0]} is not finite"
        if "skip-update" not in acts:
            return None
        parts = self._parts()
        decided: list[str | None] = [None]
        if self.session is not None:
            decided = [self.session.veto(merged(parts, self.trainer.state.global_step + 1, self.settings))]
        why: str | None = _from_rank_0(decided, self.ranks)[0]
        return why

    def _parts(self) -> list[Local]:
        """What every rank saw of this step."""
        self.local.metrics = self._new_metrics()
        parts: list[Local] = gather_object([self.local]) if self.ranks > 1 else [self.local]
        return parts

    def _new_metrics(self) -> dict[str, float]:
        """Means of what TRL has measured exactly in this step, over all ranks."""
        found: dict[str, float] = {}
        for key, values in getattr(self.trainer, "_metrics", {}).get("train", {}).items():
            seen = self._metrics_seen.get(key, 0)
            fresh = [v for v in values[seen if seen <= len(values) else 0 :] if v is not None and v == v]
            if fresh:
                found[key] = sum(fresh) / len(fresh)
        return found

    def end_step(self, control: Any) -> None:
        """The step is over: one record, one examination, one decision for all ranks."""
        state, step = self.trainer.state, self.trainer.state.global_step
        self.local.applied = self.local.skipped is None and not self.trainer.accelerator.optimizer_step_was_skipped
        self.local.moved = _movement(self._before)
        self.local.progress = {
            "epoch": state.epoch,
            "wall_time": time.monotonic() - self.began,
            "tokens_seen": state.num_input_tokens_seen or None,
        }
        if self.own is not None:
            self.own.write(merged([self.local], step, self.settings))
        parts = self._parts()
        decision: list[Any] = [None, None]
        if self.session is not None:
            if self.last_step is None:
                self._first(self.session)
            self.session.push(merged(parts, step, self.settings), parts[0].samples(step))
            decision = [self.session.stopped is not None, self.rollback_to]
        stop, self.rollback_to = _from_rank_0(decision, self.ranks)
        if stop:
            control.should_training_stop = True
        metrics = getattr(self.trainer, "_metrics", {}).get("train", {})
        self._metrics_seen = {key: len(values) for key, values in metrics.items()}
        self.local, self.last_step = Local(), step

    def _first(self, session: Session) -> None:
        """What only the first step shows: which log-probabilities the loss is given, and what is out of sight."""
        self.settings |= {f"{n}_logprobs": n in self.local.given for n in ("old", "reference", "sampling")}
        session.doctor.summary.settings.update(self.settings)
        session.doctor.summary.notes += self.unseen()
        self._declare()

    def _declare(self) -> None:
        self.folder.begin(json.loads(json.dumps(portable(self.settings), default=str)))

    def end_training(self) -> None:
        """Goes back to a checkpoint where a finding asked for it; writes the reports."""
        if self.rollback_to is not None:
            self.trainer._load_from_checkpoint(str(self.rollback_to))
        if self.own is not None:
            self.own.close()
        if self.session is not None and self.session.doctor.summary.steps.size:
            self.folder.write_reports(self.diagnosis())

    def diagnosis(self) -> Diagnosis:
        """The diagnosis so far, of all ranks. Raises RuntimeError on a rank other than 0."""
        if self.session is None:
            raise RuntimeError("rank 0 holds the diagnosis")
        return self.session.doctor.diagnosis()

    @property
    def stopped(self) -> Stopped | None:
        """Why the doctor stopped the training, on rank 0."""
        return None if self.session is None else self.session.stopped

    def _found(self, finding: Finding, action: str, tell: Callable[[Finding, str], None]) -> None:
        self.alerts[f"grpo_doctor/{finding.code}"] = float(finding.level)
        tell(finding, action)


class _TrlFolder(Folder):
    """A run folder whose checkpoints are those that TRL saved."""

    def __init__(self, path: Path, saved: Path) -> None:
        super().__init__(path)
        self.saved = saved

    def checkpoint(self, step: int) -> Path:
        return self.saved / f"checkpoint-{step}"

    def _numbered(self) -> list[int]:
        names = (path.name.removeprefix("checkpoint-") for path in self.saved.glob("checkpoint-*"))
        return [int(name) for name in names if name.isdigit()]

    def drop_after(self, step: int) -> None:
        """Nothing: TRL's checkpoints are the user's."""


class _Callback(TrainerCallback):
    def __init__(self, attached: Attached) -> None:
        self.attached = attached

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.before_update(named.get("optimizer"))

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.end_step(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.attached.end_training()


def declared(trainer: Any) -> dict[str, Any]:
    """What the trainer's settings say, under the names of the record fields where they mean the same."""
    args = trainer.args
    names = (
        "learning_rate beta temperature top_p top_k min_p repetition_penalty epsilon epsilon_high loss_type "
        "scale_rewards importance_sampling_level num_iterations num_generations max_completion_length "
        "gradient_checkpointing gradient_accumulation_steps entropy_coef entropy_target use_adaptive_entropy "
        "mask_truncated_completions use_vllm bf16 fp16 seed max_grad_norm steps_per_generation warmup_steps"
    ).split()
    settings: dict[str, Any] = {n: v for n in names if isinstance(v := getattr(args, n, None), int | float | str)}
    scale = str(getattr(args, "scale_rewards", "group"))
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


def _plain_function(function: Any) -> bool:
    """Models and coroutines are rewarded in other ways and are left as they are."""
    call = getattr(function, "__call__", function)  # noqa: B004 - an object's own method tells whether it is async
    awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return not isinstance(function, torch.nn.Module) and not awaited


def _checkpointing(model: Any) -> bool:
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def _sharded(weight: Any, matrix: bool = True) -> bool:
    """Whether a rank holds only a part: ZeRO-3 empties the tensor, FSDP2 makes it a DTensor, FSDP1 flattens it."""
    return hasattr(weight, "ds_id") or hasattr(weight, "device_mesh") or (matrix and weight.ndim != 2)


def _own_part(tensor: Any) -> Any:
    """What this rank holds of a tensor: a look at a DTensor would be a collective."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _sampled_weights(model: Any) -> list[tuple[Tensor, Tensor, int]]:
    """Some weights of every trainable tensor as view, copy and stride; whole tensors where they are small."""
    tensors = [_own_part(p.detach()).flatten() for p in model.parameters() if p.requires_grad]
    tensors = [t for t in tensors if t.numel()]
    each = max(1, WEIGHTS // max(1, len(tensors)))
    strides = [max(1, t.numel() // each) for t in tensors]
    return [(t[::s], t[::s].clone(), s) for t, s in zip(tensors, strides, strict=True)]


def _movement(before: list[tuple[Tensor, Tensor, int]]) -> float | None:
    """Norm of the change of the weights, estimated from the sampled ones; 0 only where none of them moved."""
    if not before:
        return None
    squares = [(now - then).float().square().sum() * stride for now, then, stride in before]
    return float(torch.stack(squares).sum().sqrt())


def _from_rank_0(values: list[Any], ranks: int) -> list[Any]:
    if ranks > 1:
        broadcast_object_list(values, from_process=0)
    return values
