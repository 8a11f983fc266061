"""A small trainer in a common style, with fine and composite entry points; `broken_reference.py` has wrong variants.

The tokenizer is a character BPE: line breaks matter, and some ids do not survive decoding and encoding.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models
from torch import Tensor
from transformers import LlamaConfig, LogitsProcessorList, PreTrainedTokenizerFast

from grpo_doctor.probes import Adapter, Batch
from tests.quick import QuickLlama

TEMPLATE = (
    "{% for m in messages %}{{ '<|start|>' + m['role'] + '\n' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)
PROMPTS = [
    [{"role": "user", "content": "copy a"}],
    [{"role": "system", "content": "one line"}, {"role": "user", "content": "name the tools\nthen stop"}],
    [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "again?"},
    ],
]
ANSWERS = ["done", "a b c", "ok"]
MERGES = [("t", "h"), ("th", "e"), ("i", "n"), ("o", "n"), ("l", "l")]


def make_tokenizer(pad_is_eos: bool = False) -> Any:
    """Characters, a few merges, 60 ordinary words, and the special tokens of a chat template."""
    characters = [chr(i) for i in range(32, 127)] + ["\n"]
    vocabulary = {token: n for n, token in enumerate([*characters, *("".join(m) for m in MERGES)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES, fuse_unk=False))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens([AddedToken(f"[w{n:02d}]", normalized=False) for n in range(60)])
    make: Any = PreTrainedTokenizerFast
    fast = make(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>" if pad_is_eos else "<|pad|>",
        bos_token="<|begin|>", additional_special_tokens=["<|start|>"], padding_side="left",
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    return fast


def make_model(tokenizer: Any, seed: int = 0) -> Any:
    """A tiny Llama, peaked enough that its tokens depend on the context."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model: Any = QuickLlama(config)
    return model.eval()


class Reference:
    """The correct trainer with fine entry points. A wrong variant overrides the part with its fault."""

    temperature = 1.0
    entropy_coef = 0.05
    kl_coef = 0.02
    epsilon = 0.2
    ddof = 1

    def __init__(self, pad_is_eos: bool = False) -> None:
        self.tok, self.rendered = make_tokenizer(pad_is_eos), {}  # type: ignore[var-annotated]
        self.model = make_model(self.tok)
        self.reference = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    # prompts

    def render(self, prompt: Any) -> list[int]:
        key = json.dumps(prompt)
        if key not in self.rendered:
            ids = self.tok.apply_chat_template(prompt, tokenize=True, add_generation_prompt=True)["input_ids"]
            self.rendered[key] = list(ids)
        return list(self.rendered[key])

    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        return [*self.render(prompt), *self.tok.encode(answer, add_special_tokens=False), self.tok.eos_token_id]

    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        rows = [self.render_sft(p, a) for p, a in zip(prompts, answers, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([r + [self.tok.pad_token_id] * (width - len(r)) for r in rows])
        labels = ids.clone()
        for n, (prompt, row) in enumerate(zip(prompts, rows, strict=True)):
            labels[n, : len(self.render(prompt))] = -100
            labels[n, len(row) :] = -100
        return ids, labels

    # rollout

    def processors(self, prompt_length: int) -> list[Callable[[Tensor, Tensor], Tensor]]:
        return []

    def generation(self) -> dict[str, Any]:
        return {"do_sample": True, "temperature": self.temperature, "top_k": 0, "max_new_tokens": 16}

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        was = self.model.training
        self.model.eval()
        out = self.model.generate(
            input_ids=input_ids, attention_mask=attention_mask, pad_token_id=self.tok.pad_token_id,
            logits_processor=LogitsProcessorList(self.processors(input_ids.shape[1])), **self.generation(),
        )  # fmt: skip
        self.model.train(was)
        return out

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        rows = []
        for row in tokens[:, input_ids.shape[1] :].tolist():
            stop = row.index(self.tok.eos_token_id) + 1 if self.tok.eos_token_id in row else len(row)
            rows.append(row[:stop])
        return rows

    def rollout(self, prompts: Any) -> Any:
        """The composite of render, sample and extract."""
        rows = [self.render(p) for p in prompts]
        width = max(map(len, rows))
        ids = torch.tensor([[self.tok.pad_token_id] * (width - len(r)) + r for r in rows])
        real = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])
        return self.extract(self.sample(ids, real), ids, real)

    # loss

    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        """(N, T-1) in the coordinates of the labels; responses are flush right."""
        total = ids.shape[1]
        mask = torch.zeros(len(ids), total - 1)
        for n, length in enumerate(lengths):
            mask[n, total - 1 - length : total - 1] = 1
        return mask

    def mask(self, prompts: Any, responses: Any) -> Any:
        rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([[self.tok.pad_token_id] * (width - len(r)) + r for r in rows])
        real = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])
        return Batch(ids, real, self.response_mask(ids, [len(r) for r in responses]))

    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        logits = model(input_ids=ids, attention_mask=real, position_ids=position).logits[:, :-1]
        table = (logits / self.temperature).log_softmax(-1)
        return table.gather(-1, ids[:, 1:, None]).squeeze(-1), -(table.exp() * table).sum(-1)

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.scores(self.model, input_ids, attention_mask)[0]

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        with torch.no_grad():
            return self.scores(self.reference, input_ids, attention_mask)[0]

    def advantages(self, rewards: Tensor) -> Any:
        if rewards.shape[1] < 2:
            raise ValueError("a group needs at least two samples")
        centred = rewards - rewards.mean(1, keepdim=True)
        dead = rewards.amax(1, keepdim=True) - rewards.amin(1, keepdim=True) < 1e-8
        return torch.where(dead, 0.0, centred / (rewards.std(1, keepdim=True, correction=self.ddof) + 1e-4))

    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        return -self.entropy_coef * (entropy * mask).sum() / mask.sum()

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        ids, real, mask = self.mask([self.render(p) for p in prompts], responses)
        logp, entropy = self.scores(self.model, ids, real)
        mask = torch.as_tensor(mask)[:, -logp.shape[1] :].float()
        mask = torch.nn.functional.pad(mask, (logp.shape[1] - mask.shape[1], 0))
        return self.objective(
            logp, self.old_logprobs(ids, real, logp), self.reference_logprobs(ids, real), advantages, mask, entropy
        )

    def old_logprobs(self, ids: Tensor, real: Tensor, logp: Tensor) -> Tensor:
        with torch.no_grad():
            return self.scores(self.model, ids, real)[0]

    def surrogate(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """Return the maximised value, (N, T-1)."""
        return torch.min(ratio * advantages, ratio.clamp(1 - self.epsilon, 1 + self.epsilon) * advantages)

    def divergence(self, logp: Tensor, reference: Tensor) -> Tensor:
        d = reference - logp
        return d.exp() - d - 1

    def averaged(self, per_token: Tensor, mask: Tensor) -> Tensor:
        return (per_token * mask).sum() / mask.sum()

    def objective(
        self, logp: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        per_token = -self.surrogate((logp - old).exp(), advantages[:, None])
        per_token = per_token + self.kl_coef * self.divergence(logp, reference)
        return self.averaged(per_token, mask) + self.entropy_term(entropy, logp, mask, advantages)

    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = slice(start, start + size)
            loss = self.loss(prompts[part], responses[part], advantages[part])
            torch.autograd.backward(loss * self.share(responses[part], responses))

    def share(self, part: Any, whole: Any) -> float:
        """Return the share of a micro-batch with these responses in the mean over the batch."""
        return sum(map(len, part)) / sum(map(len, whole))

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        self.model.train()
        self.optimizer.zero_grad()
        self.backward(prompts, responses, advantages)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    names = (
        "render", "render_sft", "collate_sft", "sample", "extract", "mask", "logprobs", "reference_logprobs",
        "advantages", "loss", "backward", "step",
    )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature, "entropy_coef": self.entropy_coef, "kl_coef": self.kl_coef,
            "epsilon": self.epsilon,
        }  # fmt: skip

    def adapter(self, *names: str, **more: Any) -> Adapter:
        """Return an adapter with all entry points, or with the named ones."""
        seams = {name: getattr(self, name) for name in names or self.names} | more
        return Adapter(
            name=type(self).__name__, model=self.model, tokenizer=self.tok, reference=self.reference,
            optimizer=self.optimizer, prompts=PROMPTS, settings=self.settings(), seams=seams,
        )  # fmt: skip
