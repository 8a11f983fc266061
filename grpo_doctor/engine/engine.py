"""The methods of the trainer, named as in `grpo_doctor.probes.entry_points`.

N responses, G groups of K; prompts of width P, responses of width R, T = P + R. A fault (`faults/`) is a subclass that
overrides one of these methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..config import ConfigError
from ..probes.entry_points import Batch, Ids
from .generation import Generated, enable_checkpointing, generate, generation_state
from .logits import LogitStatistics, logit_statistics
from .losses import Terms, advantages, objective_terms
from .settings import Settings
from .task import Dialogue, Example, Score, Task
from .tools import CLOSES, OPENS, ToolTask, places


class Scores(NamedTuple):
    """The results of one forward pass over a batch. The logit statistics cover M response tokens."""

    logprobs: Tensor  # [N, R] at the sampling temperature
    raw: Tensor  # [N, R] log-probabilities at temperature 1
    statistics: LogitStatistics | None  # over M response tokens, row by row
    rows: Tensor | None  # [M] row of each of the M tokens
    eos_probability: Tensor | None  # [M]


class Prepared(NamedTuple):
    """A batch with all data that the update needs. The last R tokens of each row are scored."""

    batch: Batch
    response: Tensor  # [N, T] of bool: tokens that the policy sampled, whatever the mask contains
    mask: Tensor  # [N, R] float
    reference: Tensor | None  # [N, R] log-probabilities under the reference
    advantages: Tensor  # [N]
    scores: Scores | None = None  # of the policy before the update; None before the first pass

    @property
    def before(self) -> Scores:
        """The scores from before the update, which are available after the first pass."""
        assert self.scores is not None
        return self.scores

    @property
    def old(self) -> Tensor:
        """The log-probabilities [N, R] from before the update."""
        return self.before.logprobs

    @property
    def scored(self) -> int:
        """R."""
        return self.mask.shape[1]

    def last(self, wide: Tensor) -> Tensor:
        """Return the scored columns [N, R] of a tensor [N, T]."""
        return wide[:, wide.shape[1] - self.scored :]


class Engine:
    """One policy, its reference and its task, as replaceable methods."""

    def __init__(self, settings: Settings, model: Any, tokenizer: Any, task: Task) -> None:
        self.settings, self.model, self.tokenizer, self.task = settings, model, tokenizer, task
        self.adapted = hasattr(model, "disable_adapter")
        self.device = next(model.parameters()).device
        self.base = model if self.adapted else deepcopy(model).requires_grad_(False).eval()
        if settings.gradient_checkpointing:
            enable_checkpointing(model)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.eos: Ids = end_ids(model, tokenizer)
        self.pad: int = tokenizer.pad_token_id
        self.tools = task if isinstance(task, ToolTask) else None
        if self.tools is not None and CLOSES not in tokenizer.get_vocab():
            raise ConfigError("--task tools: choose --model embedded or embedded-small, whose tokens its calls are")
        self.step_number = 0
        self.optimizer_step = 0
        self.generated: Generated | None = None

    # -- rollout ------------------------------------------------------------------------------------------------

    def render(self, prompt: Dialogue) -> Ids:
        """Return the ids of a prompt with the header of the answer, rendered by the tokenizer's chat template."""
        return list(self.tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False))

    def render_sft(self, prompt: Dialogue, answer: str) -> Ids:
        """Return the ids of a supervised example: the prompt as in `render`, the answer, and the end of the turn."""
        text = self.tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        return list(self.tokenizer(text + answer, add_special_tokens=False)["input_ids"]) + self.eos[:1]

    def pad_left(self, prompts: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        """Return ids [N, P] and attention mask [N, P], padded on the left."""
        width = max(map(len, prompts))
        ids = [[self.pad] * (width - len(p)) + p for p in prompts]
        mask = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)

    def generating(self) -> AbstractContextManager[None]:
        """Switch to the state for generating responses inside the block."""
        return generation_state(self.model)

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens [N, P + R] for prompts [N, P], and the log-probabilities [N, R] of the sampled tokens."""
        with self.generating(), self.precision():
            self.generated = generate(
                self.model, input_ids, attention_mask, self.settings, self.eos, self.pad, self.next_logits
            )
        return self.generated.tokens, self.generated.logprobs

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        """Apply penalties to the logits [N, V] of one generation step. By default, there are no penalties."""
        return logits

    def next_logits(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        """Return the logits [N, V] of the next tokens after penalties. While a tool is answering, only the next token
        of the answer has a finite logit."""
        logits = self.penalize(tokens, logits, prompt_length)
        if self.tools is None:
            return logits
        for row, ids in enumerate(tokens[:, prompt_length:].tolist()):
            words = self.tokenizer.convert_ids_to_tokens(ids)
            if place := places(words)[-1]:
                answer = [OPENS, *self.reply(call_of(words[: len(words) + 1 - place]), row), CLOSES]
                logits[row] = float("-inf")
                logits[row, self.tokenizer.convert_tokens_to_ids(answer[place - 1])] = 0
        return logits

    def reply(self, call: Sequence[str], row: int) -> list[str]:
        """Return the answer of a tool to a call. A call consists of the name of the tool and the words between the
        tags."""
        assert self.tools is not None
        return self.tools.reply(call)

    def written(self, response: Ids) -> list[bool]:
        """Return, for each token of a response, whether the policy wrote it. Tools wrote all other tokens."""
        if self.tools is None:
            return [True] * len(response)
        return [place == 0 for place in places(self.tokenizer.convert_ids_to_tokens(response))[:-1]]

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> list[Ids]:
        """Return the responses, which begin after the padded width of the prompts and end with their first EOS."""
        return [self.until_eos(row) for row in tokens[:, input_ids.shape[1] :].tolist()]

    def until_eos(self, ids: Ids) -> Ids:
        """Return the ids up to and including the first EOS."""
        end = next((i for i, token in enumerate(ids) if token in self.eos), len(ids) - 1)
        return ids[: end + 1]

    def text(self, response: Ids) -> str:
        """Return the text that the reward function reads."""
        return str(self.tokenizer.decode(response, skip_special_tokens=True))

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Score each response; the policy trains on this reward."""
        return self.task.score(examples, texts, finished)

    def rollout(self, prompts: Sequence[Dialogue]) -> list[Ids]:
        """Render, sample and extract: one response per prompt."""
        ids, mask = self.pad_left([self.render(prompt) for prompt in prompts])
        tokens, _ = self.sample(ids, mask)
        return self.extract(tokens, ids, mask)

    # -- training batch ----------------------------------------------------------------------------------------

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        """Pad prompts on the left and responses on the right. Return ids, attention mask and response mask, each [N,
        T]."""
        p, r = max(map(len, prompts)), max(map(len, responses))
        pairs = list(zip(prompts, responses, strict=True))
        ids = [[self.pad] * (p - len(a)) + a + b + [self.pad] * (r - len(b)) for a, b in pairs]
        attention = [[0] * (p - len(a)) + [1] * (len(a) + len(b)) + [0] * (r - len(b)) for a, b in pairs]
        trained = [[0] * p + list(map(int, self.written(b))) + [0] * (r - len(b)) for _, b in pairs]
        return Batch(*(torch.tensor(rows, device=self.device) for rows in (ids, attention, trained)))

    def forward(self, model: Any, input_ids: Tensor, attention_mask: Tensor, scored: int) -> Tensor:
        """Return the logits [N, R, V], in float32 or wider, that predict the last R = ``scored`` tokens of each row."""
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
        with self.precision():
            out = model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=positions,
                logits_to_keep=scored + 1,
                use_cache=False,
            )
        logits: Tensor = out.logits[:, :-1]
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def token_logprobs(self, logits: Tensor, input_ids: Tensor, temperature: float) -> Tensor:
        """Return the log-probabilities [N, R] of the last R tokens, given the logits [N, R, V] that predict the
        tokens."""
        labels = input_ids[:, input_ids.shape[1] - logits.shape[1] :]
        scaled = logits if temperature == 1 else logits / temperature
        return scaled.log_softmax(-1).gather(2, labels[:, :, None]).squeeze(2)

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the policy's log-probabilities [N, T-1] at the sampling temperature, with gradient."""
        logits = self.forward(self.model, input_ids, attention_mask, input_ids.shape[1] - 1)
        return self.token_logprobs(logits, input_ids, self.settings.temperature)

    @torch.no_grad()
    def old_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the log-probabilities of `logprobs` from before the update."""
        return self.logprobs(input_ids, attention_mask)

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the log-probabilities of `logprobs` under the reference."""
        return self._reference(input_ids, attention_mask, input_ids.shape[1] - 1)

    @torch.no_grad()
    def _reference(self, input_ids: Tensor, attention_mask: Tensor, scored: int) -> Tensor:
        with self.model.disable_adapter() if self.adapted else nullcontext():
            logits = self.forward(self.base, input_ids, attention_mask, scored)
        return self.token_logprobs(logits, input_ids, self.settings.temperature)

    def advantages(self, rewards: Tensor) -> Tensor:
        """Return advantages [G, K] for rewards [G, K]."""
        return advantages(rewards, self.settings)

    def terms(
        self, logprobs: Tensor, old: Tensor, reference: Tensor | None, a: Tensor, mask: Tensor, entropy: Tensor
    ) -> Terms:
        """Return the terms of the objective."""
        return objective_terms(logprobs, old, reference, a, mask, entropy, self.settings)

    def objective(
        self,
        logprobs: Tensor,
        old_logprobs: Tensor,
        reference_logprobs: Tensor | None,
        advantages: Tensor,
        mask: Tensor,
        entropy: Tensor,
    ) -> Tensor:
        """Return the scalar to minimise, from [N, R] tensors and advantages [N]."""
        terms = self.terms(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy)
        return terms.policy + self.settings.beta * terms.kl - self.settings.entropy_coef * terms.entropy

    def precision(self) -> AbstractContextManager[Any]:
        """Use bf16 arithmetic inside the block if the settings require it."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.settings.bf16 else nullcontext()

    # -- update -------------------------------------------------------------------------------------------------

    def assemble(
        self, prompts: Sequence[Ids], responses: Sequence[Ids], a: Tensor, drawn: Sequence[Ids] | None = None
    ) -> Prepared:
        """Build the batch, with the reference's log-probabilities, before the policy scores the batch.

        Args:
            prompts, responses, a: ids of prompts and responses, and advantages [N]. drawn: the ids that the generator
                sampled, if they may differ from ``responses``.
        """
        batch = self.mask(prompts, responses)
        response = self.response_positions(batch, responses if drawn is None else drawn)
        width = batch.input_ids.shape[1]
        first = int((batch.mask.bool() | response).any(0).int().argmax())
        scored = width - max(first, 1)
        reference = None
        if self.settings.beta:
            parts = [(batch.input_ids[r], batch.attention_mask[r]) for r in self.micro_batches(len(responses))]
            reference = torch.cat([self._reference(ids, attention, scored) for ids, attention in parts])
        return Prepared(batch, response, batch.mask[:, width - scored :].float(), reference, a)

    @torch.no_grad()
    def score(self, prepared: Prepared, tokens: int | None = None) -> Prepared:
        """Score the batch with the policy in a separate pass, in eval mode.

        Args:
            prepared: the batch from `assemble`.
            tokens: number of response tokens for logit statistics, 0 for all, None for none.
        """
        self.model.eval()
        parts = []
        for rows in self.micro_batches(len(prepared.mask)):
            logits = self.policy_logits(prepared, rows)
            logprobs = self.token_logprobs(logits, prepared.batch.input_ids[rows], self.settings.temperature)
            parts.append(self._scores(prepared, rows, logits, logprobs, tokens))
        return prepared._replace(scores=_joined(parts))

    def prepare(
        self, prompts: Sequence[Ids], responses: Sequence[Ids], a: Tensor, tokens: int | None = None
    ) -> Prepared:
        """Run `assemble` and `score`."""
        return self.score(self.assemble(prompts, responses, a), tokens)

    def micro_batches(self, count: int, parts: int | None = None) -> Iterator[slice]:
        """Split ``count`` samples into equal parts."""
        size = -(-count // (parts or self.settings.gradient_accumulation_steps))
        yield from (slice(start, min(start + size, count)) for start in range(0, count, size))

    def response_positions(self, batch: Batch, responses: Sequence[Ids]) -> Tensor:
        """Return a bool mask [N, T] of the positions of the responses, which are the last attended tokens of each
        row."""
        place = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
        end = (batch.attention_mask * (place + 1)).amax(1)  # the position after the last attended token
        lengths = torch.tensor([len(r) for r in responses], device=end.device)
        return self.own((place < end[:, None]) & (place >= (end - lengths)[:, None]), responses)

    def own(self, there: Tensor, responses: Sequence[Ids]) -> Tensor:
        """Return the positions ``there`` of the responses, except positions of tokens that tools wrote."""
        written = torch.tensor([own for ids in responses for own in self.written(ids)], device=there.device)
        return there.masked_scatter(there, written)

    @torch.no_grad()
    def _scores(self, prepared: Prepared, rows: slice, logits: Tensor, logprobs: Tensor, tokens: int | None) -> Scores:
        """Compute scores from the policy's logits [n, R, V] and log-probabilities [n, R] of some rows."""
        logits, logprobs, s = logits.detach(), logprobs.detach(), self.settings
        raw = logprobs if s.temperature == 1 else self.token_logprobs(logits, prepared.batch.input_ids[rows], 1.0)
        if tokens is None:
            return Scores(logprobs, raw, None, None, None)
        row, column = prepared.last(prepared.response)[rows].nonzero(as_tuple=True)
        share = -(-tokens * len(logits) // len(prepared.mask))
        if tokens and len(row) > share:
            kept = torch.linspace(0, len(row) - 1, share, device=row.device).long()
            row, column = row[kept], column[kept]
        at = logits[row, column]  # [M, V]
        statistics = logit_statistics(at)
        eos = (at[:, self.eos] - statistics.normaliser[:, None]).exp().sum(1)
        return Scores(logprobs, raw, statistics, row + rows.start, eos)

    def accumulate(
        self,
        prepared: Prepared,
        parts: int | None = None,
        tokens: int | None = None,
        kl_gradient: Sequence[Tensor] | None = None,
    ) -> tuple[float, Scores]:
        """Add the gradient of the whole objective to ``p.grad``, micro-batch by micro-batch.

        Returns the objective and the scores of the forward pass. ``tokens`` has the same meaning as in `score`. If
        ``kl_gradient`` is given (one tensor per parameter), the gradient of the KL term is added to these tensors.
        """
        value, passes = 0.0, []
        for rows in self.micro_batches(len(prepared.mask), parts):
            loss, kl, scores = self.micro_loss(prepared, rows, tokens)
            if kl_gradient is not None:
                found = torch.autograd.grad(kl, self.parameters, retain_graph=True, allow_unused=True)
                for total, part in zip(kl_gradient, found, strict=True):
                    total += 0 if part is None else part
            loss.backward()  # type: ignore[no-untyped-call]
            value += float(loss.detach())
            passes.append(scores)
        return value, _joined(passes)

    def micro_loss(self, prepared: Prepared, rows: slice, tokens: int | None = None) -> tuple[Tensor, Tensor, Scores]:
        """Return the contribution of a batch slice to the objective and to its KL term, and the scores of the slice.

        If there was no earlier pass, the samples come from the current weights. Without an earlier pass, the old
        log-probabilities are those of this pass, and the ratio is 1.
        """
        logits = self.policy_logits(prepared, rows)
        logprobs, entropy = self.of_logits(logits, prepared, rows)
        scores = self._scores(prepared, rows, logits, logprobs, tokens)
        old = scores.logprobs if prepared.scores is None else prepared.old[rows]
        reference = None if prepared.reference is None else prepared.reference[rows]
        inputs = (logprobs, old, reference, prepared.advantages[rows], prepared.mask[rows], entropy)
        share = self.share(prepared, rows)
        return share * self.objective(*inputs), share * self.settings.beta * self.terms(*inputs).kl, scores

    def share(self, prepared: Prepared, rows: slice) -> float:
        """Return the weight of a batch slice in the mean over all samples, in proportion to its token count or its
        number of samples."""
        if self.settings.loss_type == "dapo":
            return float(prepared.mask[rows].sum() / prepared.mask.sum().clamp(min=1))
        return len(prepared.mask[rows]) / len(prepared.mask)

    def policy_logits(self, prepared: Prepared, rows: slice) -> Tensor:
        """Return logits [n, R, V] of the current policy."""
        return self.forward(
            self.model, prepared.batch.input_ids[rows], prepared.batch.attention_mask[rows], prepared.scored
        )

    def of_logits(self, logits: Tensor, prepared: Prepared, rows: slice) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropy [n, R] for the objective, from the logits [n, R, V] of some rows."""
        logprobs = self.token_logprobs(logits, prepared.batch.input_ids[rows], self.settings.temperature)
        if not self.settings.entropy_coef:
            return logprobs, torch.zeros_like(logprobs)
        all_logprobs = logits.log_softmax(-1)
        return logprobs, -(all_logprobs.exp() * all_logprobs).sum(-1)

    def current(self, prepared: Prepared, rows: slice) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropy [n, R] of the current policy, with gradient."""
        return self.of_logits(self.policy_logits(prepared, rows), prepared, rows)

    def loss(self, prompts: Sequence[Dialogue], responses: Sequence[Ids], advantages: Tensor) -> Tensor:
        """Return the whole objective on these samples, with gradient."""
        prepared = self.prepare([self.render(p) for p in prompts], responses, advantages)
        return self.micro_loss(prepared, slice(0, len(responses)))[0]

    def backward(
        self, prompts: Sequence[Dialogue], responses: Sequence[Ids], advantages: Tensor, micro_batches: int = 1
    ) -> float:
        """Add the gradient that the optimizer uses to ``p.grad``; return the objective."""
        prepared = self.prepare([self.render(p) for p in prompts], responses, advantages)
        self.model.train()
        return self.accumulate(prepared, micro_batches)[0]

    def step(self, prompts: Sequence[Dialogue], responses: Sequence[Ids], advantages: Tensor) -> None:
        """Run one whole update."""
        self.backward(prompts, responses, advantages, self.settings.gradient_accumulation_steps)
        self.clip()
        self.apply()

    def clip(self) -> float:
        """Clip the gradient; return the norm before clipping."""
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm))

    def apply(self) -> float:
        """Run one optimizer step, and return the learning rate of this step."""
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.optimizer_step += 1
        self.sync()
        return rate

    def learning_rate(self) -> float:
        """Return the next learning rate, which rises linearly from 0 during the warm-up, and is then constant or decays
        linearly to 0."""
        s, done = self.settings, self.optimizer_step
        if done < s.warmup_steps:
            return s.learning_rate * done / s.warmup_steps
        if s.lr_scheduler_type == "linear":
            return s.learning_rate * max(0.0, 1 - done / (s.max_steps * s.num_iterations))
        return s.learning_rate

    def sync(self) -> None:
        """Send new weights to the generator. By default, do nothing, because the generator is the policy itself."""


def _joined(parts: Sequence[Scores]) -> Scores:
    """Join the scores of micro-batches."""
    return Scores(*(_concatenated(column) for column in zip(*parts, strict=True)))


def _concatenated(column: Sequence[Any]) -> Any:
    if column[0] is None:
        return None
    if isinstance(column[0], LogitStatistics):
        return LogitStatistics(*map(torch.cat, zip(*column, strict=True)))
    return torch.cat(list(column))


def call_of(words: Sequence[str]) -> list[str]:
    """Return the tool call at the end of a response: the name of the tool and the words between its tags."""
    name = words[-1].strip("</>")
    opened = max((place for place, word in enumerate(words) if word == f"<{name}>"), default=len(words))
    return [name, *words[opened + 1 : -1]]


def end_ids(model: Any, tokenizer: Any) -> Ids:
    """Return every token that ends a response: the end token of the tokenizer and those in the model's generation
    settings."""
    named = getattr(model.generation_config, "eos_token_id", None)
    more = named if isinstance(named, list) else [] if named is None else [named]
    return list(dict.fromkeys([tokenizer.eos_token_id, *more]))


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Use eval mode inside the block, and restore the mode of every module afterwards. A measurement must not hide that
    a model was left in train mode."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
