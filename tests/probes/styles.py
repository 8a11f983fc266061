"""Correct trainers in common styles: one class per style, and options that every style has.

`Left` pads prompts on the left and responses on the right, `Shifted` gives the model ``ids[:, :-1]`` of repacked rows,
`Packed` joins all samples in one row under a block-diagonal mask, `Turns` interacts with an environment whose tokens
are between those of the policy. `plain_logprobs` scores one sample alone, without padding: every style must agree with
it.
"""

from __future__ import annotations

import copy
import json
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, PreTrainedTokenizerFast

from grpo_doctor.probes import Adapter
from tests.probes.reference import MERGES, PROMPTS, TEMPLATE
from tests.quick import QuickLlama

WORDS = [f"[w{n:02d}]" for n in range(40)]


def make_tokenizer(kind: str = "characters", pad: str = "own", bos: bool = False) -> Any:
    """A tokenizer of one of the common kinds; ``pad`` is "own", "eos" or "none"."""
    if kind == "bytes":
        pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE(vocab={p: n for n, p in enumerate(pieces)}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    elif kind == "pieces":
        pieces = ["<unk>", "\u2581", *(chr(i) for i in range(33, 127)), "\n"]
        pieces += ["\u2581the", "\u2581a", "in", "on", "er"]
        scores = [(p, -10.0 if len(p) == 1 else -5.0) for p in pieces]
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=False))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    else:
        characters = [chr(i) for i in range(32, 127)] + ["\n"]
        vocabulary = {token: n for n, token in enumerate([*characters, *("".join(m) for m in MERGES)])}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=MERGES, fuse_unk=False))
        tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in WORDS])
    make: Any = PreTrainedTokenizerFast
    pads = {"own": {"pad_token": "<|pad|>"}, "eos": {"pad_token": "<|end|>"}, "none": {}}[pad]
    fast = make(
        tokenizer_object=tokenizer, eos_token="<|end|>", bos_token="<|begin|>",
        additional_special_tokens=["<|start|>", "<|tool|>"], padding_side="left", **pads,
    )  # fmt: skip
    fast.chat_template = ("{{ bos_token }}" if bos else "") + TEMPLATE
    if bos:
        fast.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", fast.bos_token_id)]
        )
    return fast


def make_model(tokenizer: Any, arch: str = "llama", seed: int = 0) -> Any:
    """A tiny model whose tokens depend on the context."""
    torch.manual_seed(seed)
    size, eos = len(tokenizer), tokenizer.eos_token_id
    model: Any
    if arch == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(
            vocab_size=size, n_embd=32, n_layer=1, n_head=4, n_positions=512, initializer_range=0.3, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=eos, pad_token_id=tokenizer.pad_token_id,
        ))  # fmt: skip
        return model.eval()
    model = QuickLlama(LlamaConfig(
        vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.3, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=eos, pad_token_id=tokenizer.pad_token_id,
    ))  # fmt: skip
    return model.eval()


class Scores(NamedTuple):
    """Scores of the tokens that may be trained, all of one shape."""

    logprobs: Tensor
    entropy: Tensor
    mask: Tensor


class Wrapper(torch.nn.Module):
    """Behaves like a data-parallel wrapper: the model is `.module`."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class Left:
    """Prompts padded on the left, responses on the right; mask to the first end token, else the full width.

    Args:
        lora: "plain" (the adapter's model is the PeftModel), "inner" (it is the model inside), "merged" (generation
            merges the adapter and takes it out again).
        sampler: "copy" is a second module that is given the weights before every rollout; "synced" after `sync`.
        called: how the model is called: "call", "forward", "tuple", "head" (backbone and head apart), "wrapper".
        returns: what `rollout` returns.
    """

    temperature, entropy_coef, kl_coef, epsilon = 1.0, 0.0, 0.02, 0.2

    def __init__(
        self, *, tokenizer: str = "characters", pad: str = "own", bos: bool = False, arch: str = "llama",
        precision: str = "fp32", lora: str = "", sampler: str = "", called: str = "call", returns: str = "ids",
        attended_end: bool = True, truncated: str = "trained", maximize: bool = False, checkpointing: bool = False,
        temperature: float = 1.0, multiple: int = 1, train: bool = True, old: bool = True, entropy: float = 0.0,
        clamped: bool = False,
    ) -> None:  # fmt: skip
        self.tok, self.rendered = make_tokenizer(tokenizer, pad, bos), {}  # type: ignore[var-annotated]
        self.pad = self.tok.pad_token_id if self.tok.pad_token_id is not None else self.tok.eos_token_id
        model = self.built(arch)
        if precision == "bf16":
            model = model.bfloat16()
        self.reference: Any = copy.deepcopy(model).requires_grad_(False)
        self.autocast = precision == "autocast"
        self.lora, self.called, self.returns, self.attended_end = lora, called, returns, attended_end
        self.truncated, self.maximize, self.multiple, self.train_mode = truncated, maximize, multiple, train
        self.old, self.temperature, self.entropy_coef, self.clamped = old, temperature, entropy, clamped
        self.declared: dict[str, Any] = {}
        if lora:
            from peft import LoraConfig, get_peft_model

            targets = ["c_attn"] if arch == "gpt2" else ["q_proj", "v_proj"]
            model = get_peft_model(model, LoraConfig(r=4, target_modules=targets)).eval()
            self.reference = None
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.model = Wrapper(model) if called == "wrapper" else model
        self.inner = model
        self.synchronised = sampler
        self.sampler = copy.deepcopy(model) if sampler else model
        own = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(own, lr=1e-3, maximize=maximize)

    def built(self, arch: str) -> Any:
        return make_model(self.tok, arch)

    # rollout

    def render(self, prompt: Any) -> list[int]:
        key = json.dumps(prompt)
        if key not in self.rendered:
            self.rendered[key] = self.tok.apply_chat_template(prompt, tokenize=True, add_generation_prompt=True)[
                "input_ids"
            ]
        return list(self.rendered[key])

    def sync(self) -> None:
        if self.sampler is not self.inner:
            self.sampler.load_state_dict(self.inner.state_dict())

    def padded(self, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        """Return the input of generation: ids and attention, padded on the left."""
        width = max(map(len, rows))
        width = -(-width // self.multiple) * self.multiple
        ids = torch.tensor([[self.pad] * (width - len(r)) + r for r in rows])
        return ids, torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])

    def generation(self) -> dict[str, Any]:
        return {"do_sample": True, "temperature": self.temperature, "top_k": 0, "max_new_tokens": 16}

    def cut(self, tokens: Tensor, width: int) -> list[list[int]]:
        """Return responses up to and including their end token."""
        rows = []
        for row in tokens[:, width:].tolist():
            stop = row.index(self.tok.eos_token_id) + 1 if self.tok.eos_token_id in row else len(row)
            rows.append(row[:stop])
        return rows

    def generate(self, rows: list[list[int]]) -> list[list[int]]:
        ids, real = self.padded(rows)
        if self.synchronised == "copy":
            self.sync()
        was = self.sampler.training
        self.sampler.eval()
        if self.lora == "merged":
            self.sampler.merge_adapter()
        with torch.no_grad(), self.precision():
            out = self.sampler.generate(
                input_ids=ids, attention_mask=real, pad_token_id=self.pad, **self.generation()
            )  # fmt: skip
        if self.lora == "merged":
            self.sampler.unmerge_adapter()
        self.sampler.train(was)
        return self.cut(out, ids.shape[1])

    def rollout(self, prompts: Any) -> Any:
        found = self.generate([self.render(p) for p in prompts])
        if self.returns == "text":
            return self.tok.batch_decode(found, skip_special_tokens=True)
        if self.returns == "text with end":
            return self.tok.batch_decode(found)
        return found

    # loss

    def precision(self) -> Any:
        return torch.autocast("cpu", dtype=torch.bfloat16) if self.autocast else nullcontext()

    def logits(self, model: Any, ids: Tensor, **more: Any) -> Tensor:
        """(N, T, V)"""
        with self.precision():
            if self.called == "forward":
                out = model.forward(ids, **more).logits
            elif self.called == "tuple":
                out = model(input_ids=ids, return_dict=False, **more)[0]
            elif self.called == "head":
                base = getattr(model, "get_base_model", lambda: model)()
                out = base.lm_head(base.base_model(input_ids=ids, **more).last_hidden_state)
            else:
                out = model(input_ids=ids, **more).logits
        assert isinstance(out, Tensor)
        return out

    def gathered(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels, and the entropy at temperature 1 where each of them is predicted."""
        table, plain = (logits.float() / t for t in (self.temperature, 1.0))
        table, plain = table.log_softmax(-1), plain.log_softmax(-1)
        return table.gather(-1, labels[..., None]).squeeze(-1), -(plain.exp() * plain).sum(-1)

    def batch(self, prompts: Any, responses: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, attention and the mask of what is trained, (N, T) each."""
        p, r = max(map(len, prompts)), max(map(len, responses))
        pairs = list(zip(prompts, responses, strict=True))
        said = torch.tensor([[*b, *[self.pad] * (r - len(b))] for _, b in pairs])
        is_end = said == self.tok.eos_token_id
        end = torch.where(is_end.any(1), is_end.int().argmax(1), r)
        trained = (torch.arange(r)[None] <= end[:, None]).long()
        ids = torch.cat([torch.tensor([[self.pad] * (p - len(a)) + a for a, _ in pairs]), said], 1)
        attended = trained if self.attended_end else trained * (~is_end)
        if self.truncated == "left out":
            trained = trained * is_end.any(1)[:, None]
        front = torch.tensor([[0] * (p - len(a)) + [1] * len(a) for a, _ in pairs])
        return ids, torch.cat([front, attended], 1), torch.cat([torch.zeros_like(front), trained], 1)

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        """Return the scores of the tokens that may be trained."""
        ids, real, trained = self.batch(prompts, responses)
        position = (real.cumsum(-1) - 1).clamp(min=0)
        logits = self.logits(model, ids, attention_mask=real, position_ids=position)
        return Scores(*self.gathered(logits[:, :-1], ids[:, 1:]), trained[:, 1:])

    def reference_scores(self, prompts: Any, responses: Any) -> Tensor:
        with torch.no_grad():
            if self.reference is not None:
                return self.scores(self.reference, prompts, responses).logprobs
            with self.inner.disable_adapter():
                return self.scores(self.model, prompts, responses).logprobs

    def old_scores(self, prompts: Any, responses: Any) -> Tensor | None:
        """Return None if the only update on these samples divides by its own log-probabilities."""
        with torch.no_grad():
            return self.scores(self.model, prompts, responses).logprobs if self.old else None

    def surrogate(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """Return the maximised value per token."""
        return torch.min(ratio * advantages, ratio.clamp(1 - self.epsilon, 1 + self.epsilon) * advantages)

    def difference(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the difference of log-probabilities that is passed to exp."""
        return (one - other).clamp(-20, 20) if self.clamped else one - other

    def ratio(self, new: Tensor, old: Tensor) -> Tensor:
        return self.difference(new, old).exp()

    def divergence(self, new: Tensor, reference: Tensor) -> Tensor:
        d = self.difference(reference, new)
        return d.exp() - d - 1

    def averaged(self, per_token: Tensor, mask: Tensor) -> Tensor:
        return (per_token * mask).sum() / mask.sum().clamp(min=1)

    def entropy_term(self, entropy: Tensor, mask: Tensor) -> Tensor:
        return -self.entropy_coef * self.averaged(entropy, mask)

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        per_token = self.kl_coef * self.divergence(new.logprobs, reference)
        per_token = per_token - self.surrogate(self.ratio(new.logprobs, old), advantages)
        return self.averaged(per_token, new.mask) + self.entropy_term(new.entropy, new.mask)

    def spread(self, advantages: Tensor, lengths: list[int], shape: Any) -> Tensor:
        """Return the advantages in the layout of the log-probabilities; ``lengths`` are those of the whole samples."""
        return advantages[:, None].expand(shape)

    def taken(self, prompts: Any, responses: Any) -> tuple[Any, Any]:
        """The ids of prompts and responses from which the loss makes its batch."""
        return prompts, responses

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        if self.train_mode:
            self.model.train()
        rows, said = self.taken([self.render(p) for p in prompts], [list(r) for r in responses])
        old = self.old_scores(rows, said)
        new = self.scores(self.model, rows, said)
        old = new.logprobs.detach() if old is None else old
        lengths = [len(p) + len(r) for p, r in zip(rows, said, strict=True)]
        advantages = self.spread(advantages, lengths, new.logprobs.shape)
        total = self.objective(new, old, self.reference_scores(rows, said), advantages)
        return -total if self.maximize else total

    # entry points

    def settings(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature, "entropy_coef": self.entropy_coef, "kl_coef": self.kl_coef,
            "epsilon": self.epsilon, "group_size": 4, **self.declared,
        }  # fmt: skip

    def advantages(self, rewards: Tensor) -> Tensor:
        centred = rewards - rewards.nanmean(1, keepdim=True)
        spread = centred.square().nanmean(1, keepdim=True).sqrt()
        return torch.nan_to_num(torch.where(spread < 1e-6, 0.0, centred / (spread + 1e-4)))

    def optimised(self) -> list[Any]:
        """The parameters whose gradient is clipped."""
        return list(self.model.parameters())

    def share(self, part: tuple[Any, Any], whole: tuple[Any, Any]) -> float:
        """Return the share of the trained tokens in a micro-batch; both are prompts and responses."""
        own, everything = (self.batch([self.render(p) for p in ps], rs)[2].sum() for ps, rs in (part, whole))
        return float(own / everything)

    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = prompts[start : start + size], responses[start : start + size]
            value = self.loss(*part, advantages[start : start + size])
            torch.autograd.backward(value * self.share(part, (prompts, responses)))

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        self.optimizer.zero_grad()
        self.backward(prompts, responses, advantages)
        torch.nn.utils.clip_grad_norm_(self.optimised(), 1.0)
        self.optimizer.step()

    def adapter(self, *names: str) -> Adapter:
        """Return an adapter with all entry points, or with the named ones."""
        names = names or ("rollout", "loss", "backward", "advantages", "step", "sync")
        model = self.inner.get_base_model() if self.lora == "inner" else self.model
        return Adapter(
            name=type(self).__name__, model=model, tokenizer=self.tok, reference=self.reference,
            optimizer=self.optimizer, prompts=PROMPTS, settings=self.settings(),
            seams={name: getattr(self, name) for name in names},
        )  # fmt: skip


class Shifted(Left):
    """Left-aligned rows; the model gets all tokens but the last one, and its logits are those of the labels."""

    def batch(self, prompts: Any, responses: Any) -> tuple[Tensor, Tensor, Tensor]:
        rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([r + [self.pad] * (width - len(r)) for r in rows])
        real = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
        trained = real.clone()
        for n, prompt in enumerate(prompts):
            trained[n, : len(prompt)] = 0
        return ids, real, trained

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        ids, real, trained = self.batch(prompts, responses)
        logits = self.logits(model, ids[:, :-1], attention_mask=real[:, :-1])
        return Scores(*self.gathered(logits, ids[:, 1:]), trained[:, 1:])


class Packed(Left):
    """All samples in one row; a block-diagonal mask separates them, and positions restart."""

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
        ids = torch.tensor([[i for row in rows for i in row]])
        sample = torch.tensor([n for n, row in enumerate(rows) for _ in row])
        position = torch.tensor([[n for row in rows for n in range(len(row))]])
        sees = (sample[:, None] == sample[None]) & torch.ones(len(sample), len(sample)).tril().bool()
        kind = next(model.parameters()).dtype if not self.autocast else torch.bfloat16
        block = torch.zeros(sees.shape, dtype=kind).masked_fill(~sees, torch.finfo(kind).min)
        logits = self.logits(model, ids, attention_mask=block[None, None], position_ids=position)
        trained = torch.zeros_like(ids)
        end = 0
        for row, response in zip(rows, responses, strict=True):
            end += len(row)
            trained[0, end - len(response) : end] = 1
        return Scores(*self.gathered(logits[:, :-1], ids[:, 1:]), trained[:, 1:])

    def spread(self, advantages: Tensor, lengths: list[int], shape: Any) -> Tensor:
        return advantages.repeat_interleave(torch.tensor(lengths))[None, 1:]


class Turns(Left):
    """After every answer the environment replies and the policy continues, twice."""

    turns = 2

    def feedback(self) -> list[int]:
        return list(self.tok.encode("<|tool|>ok<|tool|>", add_special_tokens=False))

    def so_far(self, prompt: list[int], said: list[int]) -> list[int]:
        """Return the conversation as the input of the next turn."""
        return [*prompt, *said]

    def rollout(self, prompts: Any) -> Any:
        rows = [self.render(p) for p in prompts]
        said: list[list[int]] = [[] for _ in rows]
        for turn in range(self.turns):
            new = self.generate([self.so_far(p, s) for p, s in zip(rows, said, strict=True)])
            for n, answer in enumerate(new):
                said[n] += answer + (self.feedback() if turn + 1 < self.turns else [])
        return said

    def spoken(self, response: list[int]) -> list[int]:
        """1 on the policy's tokens, 0 between two tool tokens and on them."""
        tool, inside, out = self.tok.convert_tokens_to_ids("<|tool|>"), False, []
        for i in response:
            out.append(int(not inside and i != tool))
            inside = inside != (i == tool)
        return out

    def batch(self, prompts: Any, responses: Any) -> tuple[Tensor, Tensor, Tensor]:
        rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([[self.pad] * (width - len(r)) + r for r in rows])
        real = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])
        trained = torch.zeros_like(ids)
        for n, response in enumerate(responses):
            trained[n, width - len(response) :] = torch.tensor(self.spoken(response))
        return ids, real, trained


def plain_logprobs(trainer: Left, prompt: list[int], response: list[int]) -> Tensor:
    """(R,) log-probabilities of one sample alone, without padding."""
    with torch.no_grad():
        ids = torch.tensor([[*prompt, *response]])
        logits = trainer.inner(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        return trainer.gathered(logits, ids[0, len(prompt) :])[0]
