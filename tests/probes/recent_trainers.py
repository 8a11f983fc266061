"""Correct trainers of three kinds that are common today, each with a complete loop.

`Replayed` fills a buffer from an engine, draws from it in another order, and weighs samples by importance; `Agent`
calls a tool over several turns and packs the conversations; `Looking` gives its model an image with every prompt. Their
`loss` lets the loop sample, so an adapter scripts the sampler. `iterate` is the loop as it is run.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig

from grpo_doctor.probes import Adapter, ScriptedSampler
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left, Scores
from tests.quick import QuickLlama


@dataclass
class Episode:
    """One response, or one conversation, to one prompt."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    behaviour: list[float] = field(default_factory=list)
    """Log-probabilities of the response as the engine drew it; 0 where a tool wrote."""
    generated: list[int] = field(default_factory=list)
    advantage: float = 0.0
    version: int = 0

    def add(self, ids: Sequence[int], behaviour: Sequence[float], generated: int) -> None:
        self.response += ids
        self.behaviour += behaviour
        self.generated += [generated] * len(ids)


class Engine:
    """Generates with its own weights, and returns the tokens with their log-probabilities."""

    def __init__(self, trainer: Loop) -> None:
        self.trainer, self.version = trainer, 0
        self.model = copy.deepcopy(trainer.inner)

    def load(self, weights: dict[str, Tensor], version: int) -> None:
        self.model.load_state_dict(weights)
        self.version = version

    def told(self, generated: Any) -> Tensor:
        """Return (N, R, V) the values from which its log-probabilities are computed."""
        return torch.stack(generated.scores, 1).float()

    def generate(self, rows: list[list[int]], **inputs: Any) -> list[tuple[list[int], list[float]]]:
        ids, real = self.trainer.padded(rows)
        with torch.no_grad():
            out = self.model.generate(
                input_ids=ids, attention_mask=real, pad_token_id=self.trainer.pad, return_dict_in_generate=True,
                output_scores=True, output_logits=True, **self.trainer.generation(), **inputs,
            )  # fmt: skip
        new = out.sequences[:, ids.shape[1] :]
        picked = self.told(out).log_softmax(-1).gather(-1, new[..., None]).squeeze(-1)
        answers = self.trainer.cut(out.sequences, ids.shape[1])
        return [(a, picked[n, : len(a)].tolist()) for n, a in enumerate(answers)]


class Loop(Left):
    """Common parts of the three: rollouts from an engine, rewards, advantages, an update, new weights."""

    group, passes = 4, 1
    seams = ("rollout", "loss", "backward", "advantages", "step", "sync")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.script, self.version, self.data = ScriptedSampler(self.tok, self.inner), 0, list(PROMPTS)
        self.engine = self.started()

    def started(self) -> Any:
        return Engine(self)

    def sync(self) -> None:
        self.engine.load(self.inner.state_dict(), self.version)

    def collect(self, prompts: Any) -> list[Episode]:
        raise NotImplementedError

    def assigned(self, episodes: list[Episode], advantages: Tensor) -> list[Episode]:
        for episode, advantage in zip(episodes, advantages.tolist(), strict=True):
            episode.advantage = advantage
        return episodes

    def prepared(self, episodes: list[Episode]) -> Any:
        """Fix the parts that stay constant while a batch is used: its order, old log-probabilities, advantages."""
        raise NotImplementedError

    def loss_of(self, batch: Any) -> Tensor:
        raise NotImplementedError

    def rewards(self, episodes: list[Episode]) -> list[float]:
        """Return the share of even ids among the generated ones."""
        return [sum(i % 2 == 0 for i in e.response) / len(e.response) for e in episodes]

    def update(self, episodes: list[Episode]) -> None:
        batch = self.prepared(episodes)
        for _ in range(self.passes):
            self.optimizer.zero_grad()
            torch.autograd.backward(self.loss_of(batch))
            torch.nn.utils.clip_grad_norm_(self.optimised(), 1.0)
            self.optimizer.step()
        self.version += 1

    def iterate(self) -> None:
        """One step as it is run."""
        prompts = [p for p in self.data for _ in range(self.group)]
        episodes = self.collect(prompts)
        rewards = torch.tensor(self.rewards(episodes)).view(-1, self.group)
        self.update(self.assigned(episodes, self.advantages(rewards).flatten()))
        if self.version % 2 == 0:
            self.sync()

    # what an adapter gives: the same, on responses and advantages of others

    def rollout(self, prompts: Any) -> Any:
        return [e.response for e in self.collect(prompts)]

    def said(self, prompts: Any, responses: Any, advantages: Tensor) -> list[Episode]:
        with self.script.saying(responses):
            return self.assigned(self.collect(prompts), advantages)

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        return self.loss_of(self.prepared(self.said(prompts, responses, advantages)))

    def backward(self, prompts: Any, responses: Any, advantages: Tensor) -> None:  # type: ignore[override]
        torch.autograd.backward(self.loss(prompts, responses, advantages))

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        self.update(self.said(prompts, responses, advantages))

    def adapter(self, *names: str) -> Adapter:
        return Adapter(
            name=type(self).__name__, model=self.model, tokenizer=self.tok, reference=self.reference,
            optimizer=self.optimizer, prompts=self.data, settings=self.settings(),
            seams={name: getattr(self, name) for name in names or self.seams},
        )  # fmt: skip


class Replayed(Loop):
    """Draws in random order from a buffer of rollouts that its engine generated with older weights. The ratio is to the
    policy at the time when the batch is drawn; the distance from the engine is a constant, truncated importance weight.
    """

    max_lag, cap = 2, 2.0

    def collect(self, prompts: Any) -> list[Episode]:
        rows = [self.render(p) for p in prompts]
        episodes = [Episode(row, version=self.engine.version) for row in rows]
        for episode, (ids, behaviour) in zip(episodes, self.engine.generate(rows), strict=True):
            episode.add(ids, behaviour, 1)
        return episodes

    def kept(self, episodes: list[Episode]) -> list[Episode]:
        """Return the rollouts that are not too old."""
        return [e for e in episodes if self.version - e.version <= self.max_lag]

    def drawn(self, episodes: list[Episode]) -> list[Episode]:
        return [episodes[n] for n in torch.randperm(len(episodes))]

    def behaved(self, episode: Episode) -> list[float]:
        return episode.behaviour

    def behaviour(self, episodes: list[Episode], prompts: Any, responses: Any) -> Tensor:
        """(N, T-1) the engine's log-probabilities, padded as the batch is."""
        p, r = max(map(len, prompts)), max(map(len, responses))
        rows = [self.behaved(e)[: len(said)] for e, said in zip(episodes, responses, strict=True)]
        return torch.tensor([[0.0] * p + row + [0.0] * (r - len(row)) for row in rows])[:, 1:]

    def weight(self, near: Tensor, behaviour: Tensor, mask: Tensor) -> Tensor:
        """Return the ratio of a token's probability under the policy to that under the engine, at most `cap`."""
        return ((near - behaviour) * mask).exp().clamp(max=self.cap).detach()

    def prepared(self, episodes: list[Episode]) -> Any:
        batch = self.drawn(self.kept(episodes))
        samples = self.taken([e.prompt for e in batch], [e.response for e in batch])
        behaviour = self.behaviour(batch, *samples)
        return samples, self.old_scores(*samples), behaviour, torch.tensor([e.advantage for e in batch])

    def loss_of(self, batch: Any) -> Tensor:
        samples, near, behaviour, advantages = batch
        new = self.scores(self.model, *samples)
        weight = self.weight(near, behaviour, new.mask)
        advantages = self.spread(advantages, [], new.logprobs.shape)
        return self.weighted(new, near, self.reference_scores(*samples), advantages, weight)

    def weighted(self, new: Scores, near: Tensor, reference: Tensor, advantages: Tensor, weight: Tensor) -> Tensor:
        surrogate = self.surrogate(self.ratio(new.logprobs, near), advantages) * weight
        per_token = self.kl_coef * self.divergence(new.logprobs, reference) - surrogate
        return self.averaged(per_token, new.mask) + self.entropy_term(new.entropy, new.mask)


class Agent(Loop):
    """Calls a calculator over up to three turns; conversations are packed into rows of at most `width` tokens.

    The engine's own log-probabilities are the old ones; the clip has a larger upper bound (DAPO).
    """

    turns, width, epsilon_high = 3, 400, 0.28
    call = re.compile(r"<call>(\d+)\+(\d+)</call>")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        use = [{"role": "system", "content": "To add numbers write <call>1+2</call>."}]
        self.data = [[*use, *prompt] for prompt in PROMPTS]

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"epsilon_high": self.epsilon_high}

    def result(self, answer: list[int]) -> str | None:
        """Return the tool's result for an answer; None without a call."""
        found = self.call.search(self.tok.decode(answer))
        return None if found is None else str(int(found[1]) + int(found[2]))

    def reply(self, result: str) -> list[int]:
        return list(self.tok.encode(f"<|start|>tool\n{result}<|end|><|start|>assistant\n", add_special_tokens=False))

    def context(self, episode: Episode) -> list[int]:
        return [*episode.prompt, *episode.response]

    def collect(self, prompts: Any) -> list[Episode]:
        episodes = [Episode(self.render(p)) for p in prompts]
        active = list(episodes)
        for turn in range(self.turns):
            answers = self.engine.generate([self.context(e) for e in active])
            active = self.answered(active, answers, last=turn == self.turns - 1)
            if not active:
                break
        return episodes

    def answered(self, active: list[Episode], answers: Any, last: bool) -> list[Episode]:
        """Return the conversations that continue after these answers."""
        going = []
        for episode, (ids, behaviour) in zip(active, answers, strict=True):
            self.extended(episode, ids, behaviour)
            result = None if last else self.result(ids)
            if result is not None:
                self.told(episode, self.reply(result))
                going.append(episode)
        return going

    def extended(self, episode: Episode, ids: list[int], behaviour: list[float]) -> None:
        episode.add(ids, behaviour, 1)

    def told(self, episode: Episode, reply: list[int]) -> None:
        episode.add(reply, [0.0] * len(reply), 0)

    def packs(self, episodes: list[Episode]) -> list[list[Episode]]:
        """Pack the longest conversations first, each into the first row with enough room."""
        packs: list[list[Episode]] = []
        for e in sorted(episodes, key=lambda e: -len(e.prompt) - len(e.response)):
            size = len(e.prompt) + len(e.response)
            fits = (p for p in packs if size + sum(len(o.prompt) + len(o.response) for o in p) <= self.width)
            row = next(fits, None)
            if row is None:
                packs.append([e])
            else:
                row.append(e)
        return packs

    def positions(self, pack: list[Episode]) -> list[int]:
        return [n for e in pack for n in range(len(e.prompt) + len(e.response))]

    def segments(self, pack: list[Episode]) -> list[int]:
        return [n for n, e in enumerate(pack) for _ in (*e.prompt, *e.response)]

    def marks(self, episode: Episode) -> list[int]:
        """1 where a token of a conversation is trained."""
        return [0] * len(episode.prompt) + episode.generated

    def olds(self, episode: Episode) -> list[float]:
        return [0.0] * len(episode.prompt) + episode.behaviour

    def row(self, pack: list[Episode]) -> dict[str, Tensor]:
        """Return (1, T) the content of one row."""
        spread = [e.advantage for e in pack for _ in (*e.prompt, *e.response)]
        columns: dict[str, list[Any]] = {
            "ids": [i for e in pack for i in (*e.prompt, *e.response)],
            "position": self.positions(pack),
            "segment": self.segments(pack),
            "mask": [m for e in pack for m in self.marks(e)],
            "old": [x for e in pack for x in self.olds(e)],
            "advantage": spread,
        }
        return {name: torch.tensor([values]) for name, values in columns.items()}

    def row_logits(self, model: Any, row: dict[str, Tensor]) -> Tensor:
        segment = row["segment"][0]
        sees = (segment[:, None] == segment[None]) & torch.ones(len(segment), len(segment)).tril().bool()
        block = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)
        return self.logits(model, row["ids"], attention_mask=block[None, None], position_ids=row["position"])

    def labelled(self, row: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The labels, and which of them are trained."""
        return row["ids"][:, 1:], row["mask"][:, 1:]

    def row_scores(self, model: Any, row: dict[str, Tensor]) -> Scores:
        labels, mask = self.labelled(row)
        return Scores(*self.gathered(self.row_logits(model, row)[:, :-1], labels), mask)

    def row_reference(self, row: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            return self.row_scores(self.reference, row).logprobs

    def surrogate(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        return torch.min(ratio * advantages, ratio.clamp(1 - self.epsilon, 1 + self.epsilon_high) * advantages)

    def of_row(self, row: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(1, T-1) the loss of each token, and the mask."""
        new = self.row_scores(self.model, row)
        ratio = self.ratio(new.logprobs, row["old"][:, 1:])
        per_token = -self.surrogate(ratio, row["advantage"][:, 1:])
        per_token = per_token + self.kl_coef * self.divergence(new.logprobs, self.row_reference(row))
        return per_token - self.entropy_coef * new.entropy, new.mask

    def totalled(self, rows: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The mean over all tokens of all rows."""
        return torch.stack([(x * m).sum() for x, m in rows]).sum() / sum(m.sum() for _, m in rows)

    def prepared(self, episodes: list[Episode]) -> Any:
        return [self.row(pack) for pack in self.packs(episodes)]

    def loss_of(self, batch: Any) -> Tensor:
        return self.totalled([self.of_row(row) for row in batch])


class Tokens(torch.nn.Embedding):
    """The token embeddings; positions of an image get its features."""

    features: Tensor | None = None
    image = -1

    def forward(self, ids: Tensor) -> Tensor:
        found = super().forward(ids)
        if self.features is None:
            return found
        each = self.features.numel() // found.shape[-1] // len(ids)
        places = (ids == self.image) & ((ids == self.image).cumsum(-1) <= each)  # one that was drawn is text
        if int(places.sum()) * found.shape[-1] != self.features.numel():
            raise ValueError("image features and image tokens do not match")
        return found.masked_scatter(places[..., None], self.features.reshape(-1))


class SeeingLlama(QuickLlama):  # type: ignore[no-untyped-call]
    """A Llama that takes (N, 3, 4, 4) `pixel_values`: four patches, each at the position of an image token."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model.embed_tokens = Tokens(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.model.embed_tokens.image = config.image_token_id
        self.vision = torch.nn.Linear(12, config.hidden_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, input_ids: Any = None, pixel_values: Any = None, **more: Any) -> Any:  # type: ignore[override]
        table: Any = self.model.embed_tokens
        if pixel_values is not None:
            patches = pixel_values.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
            table.features = self.vision(patches)
        try:
            return super().forward(input_ids, **more)
        finally:
            table.features = None


SeeingLlama.__name__ = "LlamaForCausalLM"

Pictured = list[dict[str, Any]]


def pictured(prompts: Any) -> list[Pictured]:
    """Chat messages whose last one has an image in front of its text."""
    out = []
    for n, prompt in enumerate(prompts):
        image = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(n))
        parts = [{"type": "image", "image": image}, {"type": "text", "text": prompt[-1]["content"]}]
        out.append([*prompt[:-1], {"role": "user", "content": parts}])
    return out


class Looking(Loop):
    """A vision-language trainer: rows of unequal length padded on the left, one image per prompt."""

    def __init__(self, **options: Any) -> None:
        self.images: Tensor | None = None
        super().__init__(**options)
        self.data = pictured(PROMPTS)

    def built(self, arch: str) -> Any:
        self.tok.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|tool|>", "<|image|>"]})
        self.image = self.tok.convert_tokens_to_ids("<|image|>")
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(self.tok), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.3, tie_word_embeddings=False,
            bos_token_id=None, eos_token_id=self.tok.eos_token_id, pad_token_id=self.tok.pad_token_id,
        )  # fmt: skip
        config.image_token_id = self.image
        model: Any = SeeingLlama(config)
        return model.eval()

    def render(self, prompt: Any) -> list[int]:
        """Each image is represented by four image tokens."""
        plain = [
            m if isinstance(m["content"], str) else m | {"content": "".join(self.part(p) for p in m["content"])}
            for m in prompt
        ]
        return super().render(plain)

    def part(self, part: dict[str, Any]) -> str:
        return str(part["text"]) if part["type"] == "text" else "<|image|>" * 4

    def pixels(self, prompts: Any) -> Tensor:
        """(N, 3, 4, 4) the images of prompts."""
        return torch.stack([p["image"] for m in prompts for p in m[-1]["content"] if p["type"] == "image"])

    def seen(self, model: Any) -> Tensor | None:
        """Return the images for a scoring forward pass of a model."""
        return self.images

    def logits(self, model: Any, ids: Tensor, **more: Any) -> Tensor:
        return super().logits(model, ids, pixel_values=self.seen(model), **more)

    def collect(self, prompts: Any) -> list[Episode]:
        rows = [self.render(p) for p in prompts]
        self.images = self.pixels(prompts)
        episodes = [Episode(row) for row in rows]
        for episode, (ids, behaviour) in zip(
            episodes, self.engine.generate(rows, pixel_values=self.shown(self.images)), strict=True
        ):
            episode.add(ids, behaviour, 1)
        return episodes

    def shown(self, images: Tensor) -> Tensor:
        """Return the images that the engine receives."""
        return images

    def prepared(self, episodes: list[Episode]) -> Any:
        samples = self.taken([e.prompt for e in episodes], [e.response for e in episodes])
        return samples, self.old_scores(*samples), torch.tensor([e.advantage for e in episodes])

    def loss_of(self, batch: Any) -> Tensor:
        samples, old, advantages = batch
        new = self.scores(self.model, *samples)
        advantages = self.spread(advantages, [], new.logprobs.shape)
        return self.objective(new, old, self.reference_scores(*samples), advantages)


def first_call(answer: list[int]) -> str | None:
    """In a run of a few steps, a tiny policy writes no tool call, so every other answer counts as one."""
    return str(len(answer)) if answer[0] % 2 else None


def run(trainer: Loop, steps: int = 3) -> list[Any]:
    """Return the state after a few steps: every weight, and what the engine then generates."""
    torch.manual_seed(7)
    trainer.passes = 2
    if isinstance(trainer, Agent):
        trainer.result = first_call  # type: ignore[method-assign]
    for _ in range(steps):
        trainer.iterate()
    with torch.no_grad():
        weights = torch.cat([p.detach().float().flatten() for p in trainer.model.parameters()])
    return [weights, [e.response for e in trainer.collect(trainer.data)]]
