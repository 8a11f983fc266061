"""Records a ``GRPOTrainer`` during training by wrapping its methods on the instance.

Every wrapper calls the trainer's own function outside the error boundary and returns its result. Data is recorded
afterwards, inside the boundary, so an error while recording cannot affect training.
"""

from __future__ import annotations

import functools
import inspect
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..engine.logits import logit_statistics
from ..fault_isolation import FaultGuard
from ..mismatch.batch import MOST_RESPONSES
from .trl_batch import token_batch
from .trl_record import Ids, Local, trained_mask

WEIGHTS = 4096
"""Number of weights on which changes are measured, spread over the trainable tensors."""


class Seams:
    """Wraps the methods of one trainer and collects data of the current step."""

    def __init__(self, trainer: Any, record_tokens: int, record_batches: int, boundary: FaultGuard) -> None:
        self.trainer, self.record_tokens, self.boundary = trainer, record_tokens, boundary
        self.record_batches = record_batches
        self.local = Local()
        self.series: dict[str, float] = {}
        # a separate generator, because sampling positions must not change the trainer's random state
        self._generator = torch.Generator().manual_seed(0)
        self._hidden: Tensor | None = None
        self._logprobs: Tensor | None = None
        self._entropies: Tensor | None = None
        self._listening = False
        self._sampled: tuple[list[Tensor], Tensor] | None = None
        self._before = torch.empty(0)
        self._metrics_seen: dict[str, int] = {}

    def connect(self) -> None:
        """Wrap the methods on the instance."""
        trainer = self.trainer
        trainer.compute_loss = self._around_loss(trainer.compute_loss)
        trainer.log = self._around_log(trainer.log)
        trainer.accelerator.clip_grad_norm_ = self._after(trainer.accelerator.clip_grad_norm_, self._keep_norm)
        trainer.reward_funcs = [
            self._around_reward(i, function) if plain_function(function) else function
            for i, function in enumerate(trainer.reward_funcs)
        ]
        trainer.model.generate = self._around_generate(trainer.model.generate)
        for name, look in (
            ("_get_per_token_logps_and_entropies", self._keep_logprobs),
            ("_generate_and_score_completions", self._keep_rollout),
        ):
            if hasattr(trainer, name):
                setattr(trainer, name, self._after(getattr(trainer, name), look))
        self.backbone().register_forward_hook(self._keep_hidden)

    @functools.cached_property
    def base(self) -> Any:
        """Return the causal language model, without the wrappers of accelerate and peft."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        return model.get_base_model() if hasattr(model, "get_base_model") else model

    def backbone(self) -> Any:
        """Return the part of the model before the head; the output of this part is the last hidden state [B, L, H]."""
        return self.base.base_model

    def _keep_hidden(self, module: Any, arguments: Any, output: Any) -> None:
        if self._listening and self.record_tokens:
            states = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", None)
            self._hidden = None if states is None else states.detach()

    # -- wrappers

    def _after(self, original: Callable[..., Any], look: Callable[[Any], None]) -> Callable[..., Any]:
        """Wrap a function so that ``look`` records the function's result."""

        @functools.wraps(original)
        def called(*arguments: Any, **named: Any) -> Any:
            found = original(*arguments, **named)
            self.boundary(look, found)
            return found

        return called

    def _keep_logprobs(self, found: tuple[Any, ...]) -> None:
        if self._listening:
            self._logprobs = found[0].detach()
            self._entropies = None if found[1] is None else found[1].detach()

    def _keep_rollout(self, batch: Mapping[str, Any]) -> None:
        if self.trainer.model.training:
            self.local.counted(batch.get("tool_mask"), self.ids)

    def _keep_norm(self, norm: Any) -> None:
        self.local.grad_norm = None if norm is None else float(norm)

    def _around_loss(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compute_loss(model: Any, inputs: dict[str, Any], *arguments: Any, **named: Any) -> Any:
            if not model.training or self.boundary.failure is not None:
                return original(model, inputs, *arguments, **named)
            self._listening = True
            try:
                loss = original(model, inputs, *arguments, **named)
            finally:
                self._listening = False
            self.boundary(self.after_loss, inputs, loss)
            return loss

        return compute_loss

    def _around_reward(self, index: int, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def rewards(*arguments: Any, **named: Any) -> Any:
            given = function(*arguments, **named)
            if isinstance(given, Iterator):  # the trainer can consume a generator only once
                given = list(given)
            if self.trainer.model.training:
                self.boundary(self.saw_rewards, index, function, given, named)
            return given

        return rewards

    def _around_generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        model = weakref.ref(self.trainer.model)

        def look() -> None:
            if (seen := model()) is not None:
                self.local.generation_training_mode = bool(seen.training)
                self.local.generation_checkpointing = _checkpointing(seen)

        @functools.wraps(original)
        def generate(*arguments: Any, **named: Any) -> Any:
            self.boundary(look)
            return original(*arguments, **named)

        return generate

    def _around_log(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def log(logs: dict[str, float], *arguments: Any, **named: Any) -> Any:
            logs.update(self.series)
            self.series.clear()
            logged = original(logs, *arguments, **named)
            self._metrics_seen = {}  # TRL starts new lists
            return logged

        return log

    # -- recording

    @torch.no_grad()
    def after_loss(self, inputs: Mapping[str, Any], loss: Tensor) -> None:
        """Record a micro-batch and its loss."""
        logprobs, self._logprobs = self._logprobs, None
        self.local.batch(inputs, loss, self.ids.ends, logprobs)
        wanted = self.record_batches and self.trainer.state.global_step % self.record_batches == 0
        if wanted and len(self.local.token_batch) < MOST_RESPONSES:
            self.local.token_batch += token_batch(inputs, logprobs, self._entropies)
        self._sharpness(inputs)

    def saw_rewards(self, index: int, function: Any, given: Any, named: Mapping[str, Any]) -> None:
        """Record the result of a reward function."""
        name = getattr(function, "__name__", type(function).__name__)
        self.local.rollout(name, float(self.trainer.reward_weights[index]), list(given), named, self.ids)

    @functools.cached_property
    def ids(self) -> Ids:
        """Return the ids that end or pad a response, or belong to the chat template."""
        trainer = self.trainer
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)  # a processor has one too
        known = getattr(trainer, "eos_token_ids", None) or getattr(trainer, "eos_token_id", None)
        known = known if known is not None else tokenizer.eos_token_id
        ends = frozenset(int(i) for i in (known if isinstance(known, list | tuple | set) else [known]))
        pad = tokenizer.pad_token_id
        special = set(tokenizer.all_special_ids) - {pad, tokenizer.unk_token_id}
        return Ids(ends, pad, frozenset(special - ends))

    def _sharpness(self, inputs: Mapping[str, Any]) -> None:
        """Record logit statistics at some response positions. If the head is sharded, nothing is recorded, and
        `not_recorded` reports this."""
        hidden, self._hidden = self._hidden, None
        head = self.base.get_output_embeddings()
        if hidden is None or head is None or sharded(head.weight):
            return
        mask = trained_mask(inputs)  # [B, T]
        rows = hidden[:, -mask.size(1) - 1 : -1][mask]  # states that predict a response token
        if not len(rows):
            return
        chosen = torch.randperm(len(rows), generator=self._generator)[: self.record_tokens].to(rows.device)
        logits = torch.nn.functional.linear(rows[chosen].to(head.weight.dtype), head.weight, head.bias)
        measured = logit_statistics(logits)
        ends = (logits[:, sorted(self.ids.ends)].float() - measured.normaliser[:, None]).exp().sum(1)
        self.local.sharpness(measured, ends)

    def before_update(self, optimizer: Any) -> None:
        """Record the learning rate, whether the gradient is finite, and a sample of the weights before the optimizer
        step."""
        groups = getattr(optimizer, "param_groups", None)
        self.local.learning_rate = float(groups[0]["lr"]) if groups else None
        # a norm is finite only if every gradient is, so no second pass is needed
        norm = self.local.grad_norm if self.local.grad_norm is not None else _sum_of_gradients(self.trainer.model)
        if not math.isfinite(norm):
            self.local.not_finite = "NaN" if math.isnan(norm) else "infinite"
        self._sampled = _sampled_weights(self.trainer.model)
        if self._sampled is not None:
            self._before = _weights_at(self._sampled[0])

    def after_update(self) -> None:
        """Record whether the update was applied, the weight change, and the training progress."""
        trainer, local = self.trainer, self.local
        local.applied = local.skipped is None and not trainer.accelerator.optimizer_step_was_skipped
        if self._sampled is not None:  # the change is 0 only if no sampled weight changed
            places, stands_for = self._sampled
            local.moved = float(((_weights_at(places) - self._before).square() * stands_for).sum().sqrt())
        local.progress |= {
            "epoch": trainer.state.epoch,
            "tokens_seen": trainer.state.num_input_tokens_seen or None,
        }

    def take_metrics(self) -> None:
        """Store the mean of each of TRL's own metrics for this step."""
        self.local.metrics = {}
        for key, values in self._metrics().items():
            seen = self._metrics_seen.get(key, 0)
            fresh = [v for v in values[seen if seen <= len(values) else 0 :] if v is not None and v == v]
            if fresh:
                self.local.metrics[key] = sum(fresh) / len(fresh)

    def begin_step(self) -> None:
        """Discard the data of the last step."""
        self._metrics_seen = {key: len(values) for key, values in self._metrics().items()}
        self.local = Local()

    def _metrics(self) -> dict[str, list[float]]:
        metrics: dict[str, list[float]] = getattr(self.trainer, "_metrics", {}).get("train", {})
        return metrics

    def not_recorded(self) -> list[str]:
        """Return sentences for the report on the quantities that cannot be recorded in this setup."""
        trainer, said = self.trainer, []
        head = self.base.get_output_embeddings()
        if self.record_tokens and (head is None or sharded(head.weight)):
            said.append("logit statistics were not recorded: the output head is sharded over ranks")
        if any(sharded(p, matrix=False) for p in trainer.model.parameters()):
            said.append("weight_delta covers only the shard of rank 0, because the weights are sharded")
        if getattr(trainer, "is_deepspeed_enabled", False):
            said.append(
                "DeepSpeed updates the weights inside backward: gradients were not checked and updates cannot be "
                "skipped; grad_norm is the value that DeepSpeed reports"
            )
        if getattr(trainer, "use_vllm", False):
            said.append("vLLM generates the responses: the model's mode during generation was not recorded")
        if getattr(trainer, "use_liger_kernel", False) or getattr(trainer.args, "use_liger_kernel", False):
            said.append(
                "the Liger loss does not return log-probabilities: ratio and logp_advantage_cov were not recorded"
            )
        unwrapped = len(trainer.reward_funcs) - sum(map(plain_function, trainer.reward_funcs))
        if unwrapped:
            said.append(
                f"{unwrapped} of {len(trainer.reward_funcs)} reward functions are models or coroutines: rewards "
                "are TRL's logged means, and rewards per group were not recorded"
            )
        return said


def plain_function(function: Any) -> bool:
    """Return whether a reward function is neither a model nor a coroutine. Models and coroutines are not wrapped."""
    call = getattr(function, "__call__", function)  # noqa: B004 - an object's own method shows whether it is async
    awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return not isinstance(function, torch.nn.Module) and not awaited


def _checkpointing(model: Any) -> bool:
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def sharded(weight: Any, matrix: bool = True) -> bool:
    """Return whether a rank has only a part of a tensor. ZeRO-3 empties the tensor, FSDP2 converts it to a DTensor, and
    FSDP1 flattens it."""
    return hasattr(weight, "ds_id") or hasattr(weight, "device_mesh") or (matrix and weight.ndim != 2)


def _own_part(tensor: Any) -> Any:
    """Return this rank's part of a tensor. An operation on the DTensor itself would be a collective."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _sum_of_gradients(model: Any) -> float:
    """Return the sum of all gradients on this rank, which is not finite if any gradient is not finite. The sum is
    needed for trainers that compute no norm."""
    grads = [p.grad.detach() for p in model.parameters() if p.grad is not None]
    return sum(float(_own_part(grad).float().sum()) for grad in grads)


def _sampled_weights(model: Any) -> tuple[list[Tensor], Tensor] | None:
    """Return views of some weights of every trainable tensor (all weights of a small tensor). The second result [M] is
    the number of weights that each of the M values represents. Return None if this rank has no trainable weight."""
    tensors = [t for p in model.parameters() if p.requires_grad and (t := _own_part(p.detach())).numel()]
    if not tensors:
        return None
    each = max(1, WEIGHTS // len(tensors))
    strides = [max(1, t.numel() // each) for t in tensors]
    places = [t.flatten()[::stride] for t, stride in zip(tensors, strides, strict=True)]
    lengths = torch.tensor([len(place) for place in places])
    return places, torch.tensor(strides).repeat_interleave(lengths).to(tensors[0].device)


def _weights_at(places: list[Tensor]) -> Tensor:
    """Return the current values [M] of these weights in float32, on the device of the first weight."""
    return torch.cat([place.to(places[0].device) for place in places]).float()
