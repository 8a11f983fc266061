"""The training loop (rollout, advantages, update, record), with checkpoints that resume to the same records."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..probes.entry_points import Ids
from ..record import StepRecord
from ..rollouts import Steps
from ..rollouts.tools import split
from ..run import Sample
from . import measure
from .engine import Engine, Prepared, undisturbed
from .measure import Fields, Rollout
from .task import Example

Veto = Callable[[StepRecord], str | None]
"""Function that is called before each optimizer step with the current record, and returns the reason to skip the
update, or None."""


class TrainingDied(RuntimeError):  # noqa: N818 - the run died; the caller made no mistake
    """Raised if the policy can no longer sample. All earlier steps are recorded."""


@dataclass
class Clock:
    """The time and the number of tokens that a run has used so far."""

    tokens: int = 0
    seconds: float = 0.0


class Trainer:
    """Runs the steps of an engine. One step is one rollout and ``num_iterations`` updates on it."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.settings = engine, engine.settings
        self.clock = Clock()
        torch.manual_seed(self.settings.seed)

    def run(self, veto: Veto | None = None) -> Iterator[tuple[StepRecord, list[Sample]]]:
        """Run the remaining steps; yield each record with its samples. Raises `TrainingDied`."""
        while self.engine.step_number < self.settings.max_steps:
            yield self.step(veto)

    def step(self, veto: Veto | None = None) -> tuple[StepRecord, list[Sample]]:
        """Generate, score and train on one batch."""
        engine, began = self.engine, time.perf_counter()
        engine.step_number += 1
        step = engine.step_number
        examples = self.batch(step)
        rollout = self.rollout(examples)
        rewards = self.rewards(rollout)  # [G, K]
        a = engine.advantages(rewards)  # [G, K]
        prepared = engine.assemble(rollout.prompts, rollout.responses, a.flatten(), rollout.drawn)
        fields: Fields = {
            **measure.reward_fields(engine, rollout, rewards),
            **measure.advantage_fields(engine, rewards, a),
            **measure.text_fields(engine, rollout),
            **measure.mask_fields(prepared),
            "epoch": (step * self.settings.prompts) / len(engine.task.examples),
        }
        if self.settings.skip_zero_advantages and not bool(a.any()):
            fields |= measure.policy_fields(engine, rollout, rewards, engine.score(prepared, self.tokens()))
            self.skip(fields, "all advantages are 0")
        else:
            self.update(prepared, rollout, rewards, fields, veto)
        self.clock.tokens += int(prepared.batch.attention_mask.sum())
        self.clock.seconds += time.perf_counter() - began
        fields |= {"tokens_seen": self.clock.tokens, "wall_time": self.clock.seconds}
        fields["optimizer_step"] = engine.optimizer_step
        record, samples = StepRecord(step=step, **measure.known(fields)), self.samples(step, rollout)
        if engine.tools is not None:
            record, _ = Steps().filled(record, samples)
        return record, samples

    # -- rollout ------------------------------------------------------------------------------------------------

    def batch(self, step: int) -> list[Example]:
        """Return the prompts of a step, each K times. The order of the prompts depends only on the seed and the
        step."""
        examples, size = self.engine.task.examples, self.settings.prompts
        chosen = []
        for place in range((step - 1) * size, step * size):
            epoch, i = divmod(place, len(examples))
            chosen.append(examples[_order(len(examples), self.settings.seed, epoch)[i]])
        return [example for example in chosen for _ in range(self.settings.num_generations)]

    def rollout(self, examples: list[Example]) -> Rollout:
        """Generate and score one response for each prompt."""
        engine = self.engine
        k = self.settings.num_generations
        prompts = [ids for example in examples[::k] for ids in [engine.render(example.dialogue)] * k]
        ids, mask = engine.pad_left(prompts)
        if not all(bool(p.isfinite().all()) for p in engine.parameters):  # sampling from NaN would make CUDA unusable
            raise TrainingDied(f"step {engine.step_number}: the weights are not finite, so generation is impossible")
        tokens, _ = engine.sample(ids, mask)
        assert engine.generated is not None
        responses = engine.extract(tokens, ids, mask)
        drawn = [engine.until_eos(row) for row in tokens[:, ids.shape[1] :].tolist()]
        texts = [engine.text(ids) for ids in responses]
        scores = engine.reward(examples, texts, [_ended(ids, engine.eos) for ids in responses])
        finished = [_ended(ids, engine.eos) for ids in drawn]
        own = scores
        if responses != drawn or type(engine).reward is not Engine.reward:
            own = engine.task.score(examples, [engine.text(ids) for ids in drawn], finished)
        return Rollout(examples, prompts, responses, drawn, engine.generated, texts, scores, own, finished)

    def rewards(self, rollout: Rollout) -> Tensor:
        """Return the rewards [G, K]."""
        flat = torch.tensor([score.reward for score in rollout.scores], device=self.engine.device)
        return flat.view(-1, self.settings.num_generations)

    def samples(self, step: int, rollout: Rollout) -> list[Sample]:
        """Return the responses in readable form."""
        task, found = self.engine.task, []
        rows = zip(rollout.examples, rollout.texts, rollout.scores, rollout.finished, strict=True)
        for example, text, score, finished in rows:
            sample = Sample(
                step=step,
                prompt=example.dialogue[-1]["content"],
                response=task.show(text),
                reward=score.reward,
                valid=score.valid,
                task=example.kind,
            )
            if self.engine.tools is not None:
                sample.response, sample.calls = split(text)
                sample.reference = [example.columns["answer"]]
                sample.finish = "stop" if finished else "length"
            found.append(sample)
        return found

    # -- update -------------------------------------------------------------------------------------------------

    def detailed(self) -> bool:
        """Return whether this step's record contains the statistics that need an extra pass over logits."""
        return (self.engine.step_number - 1) % self.settings.record_every == 0

    def due(self, often: int, until: int, later: int) -> bool:
        """Return whether this step measures quantities that need an extra pass. Among the steps with extra statistics,
        every ``often``-th step is measured up to the ``until``-th, and every ``later``-th step after that. Most runs
        that fail have failed by then."""
        number = (self.engine.step_number - 1) // self.settings.record_every + 1
        return self.detailed() and number % (often if number <= until else later) == 0

    def tokens(self) -> int | None:
        """Return the number of response tokens for logit statistics in this step, 0 for all, None for none."""
        return self.settings.record_tokens if self.detailed() else None

    def update(self, prepared: Prepared, rollout: Rollout, rewards: Tensor, fields: Fields, veto: Veto | None) -> None:
        """Run the optimizer steps on one rollout and record their effect in ``fields``.

        With one optimizer step, the old log-probabilities come from the forward pass of the update. With several
        optimizer steps, a separate pass in eval mode computes them. The ratio of the first step then shows whether both
        passes agree.
        """
        engine = self.engine
        if self.settings.num_iterations > 1:
            prepared = engine.score(prepared, self.tokens())
        before = [p.detach().clone() for p in engine.parameters]
        for iteration in range(self.settings.num_iterations):
            engine.model.train()
            kl_gradient = self.kl_gradient() if iteration == 0 else None
            value, scores = engine.accumulate(
                prepared, tokens=self.tokens() if prepared.scores is None else None, kl_gradient=kl_gradient
            )
            if prepared.scores is None:
                prepared = prepared._replace(scores=scores)
            losses = measure.loss_fields(engine, prepared, scores.logprobs, value)
            if iteration == 0:
                fields |= measure.policy_fields(engine, rollout, rewards, prepared) | losses
                if kl_gradient is not None:
                    fields["kl_grad_share"] = self.kl_gradient_share(kl_gradient)
            else:
                fields |= {name: losses[name] for name in ("clip_fraction", "ratio_mean", "ratio_max")}
            fields["grad_norm"] = engine.clip()
            if veto is not None and (why := veto(StepRecord(step=engine.step_number, **measure.known(fields)))):
                self.skip(fields, why)
                return
            fields["learning_rate"] = engine.apply()
        fields["update_applied"] = True
        moved = [p.detach() - b for p, b in zip(engine.parameters, before, strict=True)]
        fields["weight_delta"] = float(torch.stack([m.norm() for m in moved]).norm())
        if self.due(1, 10, 3):
            fields["policy_movement_kl"] = self.movement(prepared)

    def skip(self, fields: Fields, why: str) -> None:
        """Skip the optimizer step. Without gradients, not even momentum or weight decay changes a weight."""
        for p in self.engine.parameters:
            p.grad = None
        fields |= {"update_applied": False, "update_skipped_reason": why, "weight_delta": 0.0}

    @torch.no_grad()
    def movement(self, prepared: Prepared) -> float:
        """Measure how much the update changed the policy on its own samples, using the first response of each group."""
        engine = self.engine
        firsts = torch.arange(0, len(prepared.mask), self.settings.num_generations, device=engine.device)
        drawn, now = prepared.last(prepared.response)[firsts], []
        with undisturbed(engine.model):
            for part in engine.micro_batches(len(firsts)):
                ids, attention = (wide[firsts[part]] for wide in prepared.batch[:2])
                logits = engine.forward(engine.model, ids, attention, prepared.scored)
                now.append(engine.token_logprobs(logits, ids, self.settings.temperature))
        return measure.k3(prepared.old[firsts][drawn], torch.cat(now)[drawn])

    def kl_gradient(self) -> list[Tensor] | None:
        """Return buffers for the gradient of the KL term, or None if the gradient is not measured in this step."""
        beta, every = self.settings.beta, self.settings.kl_grad_share_every
        due = beta and every and self.due(every, 3 * every, 5 * every)
        return [torch.zeros_like(p) for p in self.engine.parameters] if due else None

    def kl_gradient_share(self, of_kl: Sequence[Tensor]) -> float:
        """Return the norm of the KL term's gradient, divided by the sum of this norm and the norm of the remaining
        gradient."""
        pairs = [(g, p.grad - g) for p, g in zip(self.engine.parameters, of_kl, strict=True) if p.grad is not None]
        kl, rest = (float(torch.stack([g.norm() for g in gradients]).norm()) for gradients in zip(*pairs, strict=True))
        return kl / (kl + rest) if kl + rest else 0.0

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the state that determines all later steps."""
        model = self.engine.model
        return {
            "step": self.engine.step_number,
            "optimizer_step": self.engine.optimizer_step,
            "tokens": self.clock.tokens,
            "seconds": self.clock.seconds,
            "training": model.training,
            "weights": {n: p.detach() for n, p in model.named_parameters() if p.requires_grad},
            "optimizer": self.engine.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state`."""
        engine = self.engine
        engine.step_number, engine.optimizer_step = state["step"], state["optimizer_step"]
        self.clock = Clock(state["tokens"], state["seconds"])
        named = dict(engine.model.named_parameters())
        with torch.no_grad():
            for name, weight in state["weights"].items():
                named[name].copy_(weight)
        engine.optimizer.load_state_dict(state["optimizer"])
        engine.model.train(state["training"])
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"]:
            torch.cuda.set_rng_state_all(state["cuda_rng"])

    def save(self, path: Path) -> None:
        """Write a checkpoint atomically. Raises OSError if writing fails."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".part")
        try:
            torch.save(self.state(), draft)
        except RuntimeError as error:  # torch's error for a full disk
            draft.unlink(missing_ok=True)
            raise OSError(
                errno.ENOSPC, f"the checkpoint could not be written completely ({error})", str(path)
            ) from error
        draft.replace(path)

    def load(self, path: Path) -> None:
        """Read a checkpoint."""
        self.restore(torch.load(path, map_location="cpu", weights_only=True))  # random states must stay on the CPU


def _ended(ids: Ids, eos: Ids) -> bool:
    return bool(ids) and ids[-1] in eos


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order
