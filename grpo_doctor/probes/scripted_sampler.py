"""A sampler with scripted answers, which makes a trainer's own rollout return crafted responses."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import device_of, flat_ids, pad_left, pad_right, special_ids
from .entry_points import Ids, Unjudged
from .generations import SERVING, sampled_with, scripted_generate
from .intercept import kept_in, logits_of
from .model_modes import without_dropout
from .sampling import LONGEST, end_ids, finished
from .tokenizers import readable

_SAMPLING: list[bool] = []
"""Not empty while samplers without a script sample from their model."""


def real_sampling() -> AbstractContextManager[bool]:
    """Make scripted samplers sample from their model inside the block, with the parameters that the trainer passes to
    its engine."""
    return kept_in(_SAMPLING, True)


class Logprob(NamedTuple):
    """The log-probability of one token, with the attribute names of vLLM's ``Logprob``."""

    logprob: float
    rank: int
    decoded_token: str


class Completion:
    """One answer, with the attribute names of vLLM's ``CompletionOutput``. The log-probabilities of its tokens are
    those of the model at the sampling temperature, and are computed on first use.
    """

    def __init__(self, text: str, token_ids: Ids, index: int, finish_reason: str, scores: _Scores, row: int) -> None:
        self.text, self.token_ids, self.index, self.finish_reason = text, token_ids, index, finish_reason
        self.stop_reason = None
        self._scores, self._row = scores, row

    @property
    def logprobs(self) -> list[dict[int, Logprob]]:
        """Return one mapping per token, from the token to its log-probability."""
        return self._scores.of(self._row)

    @property
    def cumulative_logprob(self) -> float:
        """Return the sum of the log-probabilities."""
        return sum(entry.logprob for one in self.logprobs for entry in one.values())


@dataclass
class Request:
    """The answers to one prompt, with the attribute names of vLLM's ``RequestOutput``."""

    prompt: str
    prompt_token_ids: Ids
    outputs: list[Completion] = field(default_factory=list)
    finished: bool = True
    weight_version: int = 0
    """Number of weight updates before the answer."""


class _Scores:
    """The log-probabilities of all answers of one call, computed in one forward pass."""

    def __init__(self, sampler: ScriptedSampler, model: Any, rows: list[Ids], said: list[Ids], temperature: float):
        self.tokenizer, self.model, self.rows, self.said = sampler.tokenizer, model, rows, said
        self.temperature = temperature

    def of(self, row: int) -> list[dict[int, Logprob]]:
        picked, ranks = self.table
        return [
            {token: Logprob(float(picked[row, n]), int(ranks[row, n]), self.tokenizer.decode([token]))}
            for n, token in enumerate(self.said[row])
        ]

    @functools.cached_property
    def table(self) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities (N, R) of the tokens of the answers, and their ranks."""
        if self.model is None:
            raise Unjudged("the trainer reads log-probabilities: pass the adapter's model to the scripted sampler")
        pad, device, width = special_ids(self.tokenizer).pad, device_of(self.model), max(map(len, self.said))
        ids, real = pad_left(self.rows, pad, device)
        written = [[1] * len(answer) + [0] * (width - len(answer)) for answer in self.said]
        answers = pad_right(self.said, pad, device)
        real = torch.cat([real, torch.tensor(written, device=device)], 1)
        tokens = torch.cat([ids, answers], 1)
        sampled_with(tokens)
        with torch.no_grad(), without_dropout(self.model):
            logits = logits_of(self.model, tokens, real)[:, ids.shape[1] - 1 : -1].float()
        table = (logits / self.temperature).log_softmax(-1)
        picked = table.gather(-1, answers[..., None])
        return picked.squeeze(-1), (table > picked).sum(-1) + 1


class ScriptedSampler:
    """Makes a trainer's own rollout produce the given responses, with any sampler.

    A scripted sampler can be used in two ways, which can be combined. Inside ``with sampler.saying(responses):`` every
    ``model.generate`` and every sampling loop over the model gives these responses, in order::

        sampler = probes.ScriptedSampler(tokenizer, model)

        def loss(prompts, responses, advantages): with sampler.saying(responses): batch = my_trainer.make_batch(prompts)
            # its own rollout, mask and old log-probabilities return my_trainer.loss(batch | {"advantages": advantages})

    If the trainer samples with its own engine, the sampler replaces that engine: it has vLLM's ``generate`` and
    ``chat`` (``my_trainer.llm = sampler``). Probes script the sampler like a model. The sampler's answers contain the
    model's own log-probabilities; `update_weights` increments the version in each request.
    """

    def __init__(self, tokenizer: Any, model: Any = None) -> None:
        self.tokenizer, self.model = readable(tokenizer, model), model
        self.weight_version = 0

    def update_weights(self, *ignored: Any, **also_ignored: Any) -> None:
        """Accept new weights, which scripted answers do not use."""
        self.weight_version += 1

    @contextmanager
    def saying(self, responses: Sequence[Ids]) -> Iterator[None]:
        """Make generation return these responses (lists of ids, including EOS), in order, starting again after the last
        one."""
        special = special_ids(self.tokenizer)
        with scripted_generate(self.model, responses, special.pad, special.eos):
            yield

    def generate(
        self, prompts: Any = None, sampling_params: Any = None, *, prompt_token_ids: Any = None, **ignored: Any
    ) -> list[Request]:
        """Answer as vLLM's ``LLM.generate`` does. Prompts are texts, lists of ids, or mappings with a text or a list of
        ids."""
        given = prompt_token_ids if prompt_token_ids is not None else prompts
        single = isinstance(given, str | dict)
        return self._answered([self._ids(p) for p in ([given] if single else given)], sampling_params)

    def chat(self, messages: Any, sampling_params: Any = None, **ignored: Any) -> list[Request]:
        """Answer as vLLM's ``LLM.chat`` does, for one conversation or a list of conversations."""
        chats = [messages] if messages and isinstance(messages[0], dict) else messages
        render = self.tokenizer.apply_chat_template
        rows = [flat_ids(render(chat, tokenize=True, add_generation_prompt=True)) for chat in chats]
        return self._answered(rows, sampling_params)

    def _ids(self, prompt: Any) -> Ids:
        if isinstance(prompt, dict):
            prompt = prompt.get("prompt_token_ids", prompt.get("prompt"))
        return list(self.tokenizer.encode(prompt)) if isinstance(prompt, str) else flat_ids(prompt)

    def _answered(self, rows: list[Ids], sampling_params: Any) -> list[Request]:
        special, times = special_ids(self.tokenizer), int(_parameter(sampling_params, "n") or 1)
        model = self.model if self.model is not None or not SERVING else SERVING[-1].model
        repeated = [row for row in rows for _ in range(times)]
        given = pad_left(repeated, special.pad, device_of(model))
        said = SERVING[-1].answer(*given, self) if SERVING else self._sampled(*given, sampling_params)
        scores = _Scores(self, model, repeated, said, float(_parameter(sampling_params, "temperature") or 1.0))
        found = [Request(self.tokenizer.decode(row), row, weight_version=self.weight_version) for row in rows]
        for n, answer in enumerate(said):
            ended = bool(answer) and answer[-1] == special.eos
            text = self.tokenizer.decode(answer, skip_special_tokens=True)
            reason = "stop" if ended else "length"
            found[n // times].outputs.append(Completion(text, list(answer), n % times, reason, scores, n))
        return found

    def _sampled(self, ids: Tensor, real: Tensor, sampling_params: Any) -> list[Ids]:
        """Return the model's answers to prompts (N, P), sampled with these parameters."""
        if self.model is None or not _SAMPLING:
            raise Unjudged("a scripted sampler has no answers: use it inside `with sampler.saying(responses):`")
        asked = {
            name: _parameter(sampling_params, name) for name in ("temperature", "top_p", "min_p", "repetition_penalty")
        }
        how = {name: value for name, value in asked.items() if value is not None}
        how |= {"top_k": max(int(_parameter(sampling_params, "top_k") or 0), 0), "max_new_tokens": LONGEST}
        special = special_ids(self.tokenizer)
        tokens = self.model.generate(
            input_ids=ids,
            attention_mask=real,
            do_sample=True,
            pad_token_id=special.pad,
            eos_token_id=special.eos,
            **how,
        )
        return finished(tokens, ids.shape[1], end_ids(self.tokenizer, self.model))


def _parameter(sampling_params: Any, name: str) -> Any:
    """Return a sampling parameter from an object or a mapping."""
    return sampling_params.get(name) if isinstance(sampling_params, dict) else getattr(sampling_params, name, None)
