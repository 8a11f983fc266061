"""A sampler that says what it is told: crafted responses come out of a trainer's own rollout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .crafted_inputs import device_of, flat_ids, pad_left, special_ids
from .entry_points import Ids, Unjudged
from .generations import SERVING, scripted_generate
from .tokenizers import readable


@dataclass
class Completion:
    """One answer, with the names of vLLM's ``CompletionOutput``."""

    text: str
    token_ids: Ids
    index: int = 0
    finish_reason: str = "stop"
    logprobs: Any = None
    cumulative_logprob: float | None = None


@dataclass
class Request:
    """The answers to one prompt, with the names of vLLM's ``RequestOutput``."""

    prompt: str
    prompt_token_ids: Ids
    outputs: list[Completion] = field(default_factory=list)
    finished: bool = True


class ScriptedSampler:
    """Gives a trainer's own rollout the responses that are wanted, whoever samples in it.

    Two ways, and both at once are fine. Inside ``with sampler.saying(responses):`` every ``model.generate`` and every
    sampling loop over the model gives these responses, in order::

        sampler = probes.ScriptedSampler(tokenizer, model)

        def loss(prompts, responses, advantages):
            with sampler.saying(responses):
                batch = my_trainer.make_batch(prompts)      # rollout, mask and old log-probabilities of its own
            return my_trainer.loss(batch | {"advantages": advantages})

    And where the trainer samples with an engine of its own, the sampler takes that engine's place: it has vLLM's
    ``generate`` and ``chat`` (``my_trainer.llm = sampler``). Probes script it as they script a model.
    """

    def __init__(self, tokenizer: Any, model: Any = None) -> None:
        self.tokenizer, self.model = readable(tokenizer, model), model

    @contextmanager
    def saying(self, responses: Sequence[Ids]) -> Iterator[None]:
        """Generation gives these responses (lists of ids, EOS included), in order and over again."""
        special = special_ids(self.tokenizer)
        with scripted_generate(self.model, responses, special.pad, special.eos):
            yield

    def generate(
        self, prompts: Any = None, sampling_params: Any = None, *, prompt_token_ids: Any = None, **ignored: Any
    ) -> list[Request]:
        """Answers as vLLM's ``LLM.generate`` does: prompts are texts, lists of ids, or mappings that hold either."""
        given = prompt_token_ids if prompt_token_ids is not None else prompts
        single = isinstance(given, str | dict)
        return self._answered([self._ids(p) for p in ([given] if single else given)], sampling_params)

    def chat(self, messages: Any, sampling_params: Any = None, **ignored: Any) -> list[Request]:
        """Answers as vLLM's ``LLM.chat`` does: one conversation, or a list of them."""
        chats = [messages] if messages and isinstance(messages[0], dict) else messages
        render = self.tokenizer.apply_chat_template
        rows = [flat_ids(render(chat, tokenize=True, add_generation_prompt=True)) for chat in chats]
        return self._answered(rows, sampling_params)

    def _ids(self, prompt: Any) -> Ids:
        if isinstance(prompt, dict):
            prompt = prompt.get("prompt_token_ids", prompt.get("prompt"))
        return list(self.tokenizer.encode(prompt)) if isinstance(prompt, str) else flat_ids(prompt)

    def _answered(self, rows: list[Ids], sampling_params: Any) -> list[Request]:
        if not SERVING:
            raise Unjudged("a scripted sampler says nothing by itself: use it inside `with sampler.saying(responses):`")
        times = int(getattr(sampling_params, "n", 1) or 1)
        special = special_ids(self.tokenizer)
        repeated = [row for row in rows for _ in range(times)]
        said = SERVING[-1](*pad_left(repeated, special.pad, device_of(self.model)), self)
        found = [Request(self.tokenizer.decode(row), row) for row in rows]
        for n, answer in enumerate(said):
            ended = bool(answer) and answer[-1] == special.eos
            text = self.tokenizer.decode(answer, skip_special_tokens=True)
            reason = "stop" if ended else "length"
            found[n // times].outputs.append(Completion(text, list(answer), n % times, reason))
        return found
