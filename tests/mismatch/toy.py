"""A small transformer as trainer and as rollout engine, with each kind of mismatch produced between the two. Rounding
is real: the engine computes in bf16, and its experts are chosen by the router's own scores.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from grpo_doctor.mismatch import Response, TokenBatch

VOCABULARY, WIDTH, LAYERS, EXPERTS, CHOSEN = 256, 48, 2, 8, 2
PROMPT, RESPONSE, RESPONSES, UPDATES = 16, 64, 24, 24


class Router(nn.Module):
    """Feed-forward experts; the two with the highest scores serve a token."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.first = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH**0.5)
        self.second = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH**0.5)
        self.noise = 0.0
        self.chosen = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.scores(x)
        if self.noise:
            scores = scores + self.noise * torch.randn_like(scores)
        best, self.chosen = scores.topk(CHOSEN, dim=-1)  # (B, L, 2)
        weights = best.softmax(-1)
        hidden = torch.einsum("blw,ewh->bleh", x, self.first).relu()
        out = torch.einsum("bleh,ehw->blew", hidden, self.second)
        picked = out.gather(2, self.chosen[..., None].expand(*self.chosen.shape, WIDTH))
        mixed: Tensor = (weights[..., None] * picked).sum(2)
        return mixed


class Block(nn.Module):
    """Causal attention that prefers nearby tokens, and a feed-forward layer."""

    def __init__(self, experts: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        dense = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.feed: nn.Module = Router() if experts else dense
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        ago = torch.arange(x.size(1))[:, None] - torch.arange(x.size(1))
        scores = q @ k.mT / WIDTH**0.5 - 0.1 * ago.to(x.dtype)
        x = x + self.out(scores.masked_fill(ago < 0, -math.inf).softmax(-1) @ v)
        fed: Tensor = self.feed(self.norms[1](x))
        return x + fed


class Toy(nn.Module):
    """Token ids (B, L) to logits (B, L, V)."""

    def __init__(self, experts: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block(experts) for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.head.weight, std=4.5 / WIDTH**0.5)

    def forward(self, ids: Tensor, last: int = 0) -> Tensor:
        """Return the logits of all positions, or of this many last ones."""
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x[:, -last:]))
        return logits

    def chosen(self) -> Tensor:
        """Experts (B, L, layers x 2) of the last forward, in ascending order in each layer."""
        routers = [module for module in self.modules() if isinstance(module, Router)]
        return torch.cat([router.chosen.sort(-1).values for router in routers], -1)


class Trained(NamedTuple):
    """A policy after its updates, and its weights before each of them."""

    policy: Toy
    history: list[Toy]


@functools.lru_cache(maxsize=16)
@torch.enable_grad()
def trained(seed: int, experts: bool = False) -> Trained:
    """A policy that policy-gradient updates with Adam have moved towards some tokens."""
    torch.manual_seed(seed)
    policy = Toy(experts)
    liked = torch.randn(VOCABULARY)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    history = []
    for _ in range(UPDATES):
        history.append(copy.deepcopy(policy).eval())
        ids = sampled(policy, torch.randint(VOCABULARY, (16, PROMPT)), 24)
        said = ids[:, PROMPT:]
        reward = liked[said].mean(1)
        advantage = (reward - reward.mean()) / reward.std()
        logprobs = scored(policy, ids, PROMPT)[0]
        loss = -(advantage[:, None] * logprobs).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return Trained(policy.eval(), history)


def scored(model: Toy, ids: Tensor, start: int, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """Log-probabilities (B, R) of the tokens after ``start`` in float32, and entropies."""
    table = (model(ids)[:, start - 1 : -1].float() / temperature).log_softmax(-1)
    return table.gather(-1, ids[:, start:, None]).squeeze(-1), -(table.exp() * table).sum(-1)


def filtered(logits: Tensor, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """Logits (B, V) with -inf where the sampler excludes a token."""
    if not top_k and top_p == 1:
        return logits
    order = logits.sort(-1, descending=True)
    if top_k:
        logits = logits.masked_fill(logits < order.values[:, top_k - 1, None], -math.inf)
    if top_p < 1:
        mass = order.values.softmax(-1).cumsum(-1)
        out = (mass - order.values.softmax(-1)) >= top_p
        logits = logits.masked_fill(out.scatter(-1, order.indices, out), -math.inf)
    return logits


@torch.no_grad()
def sampled(model: Toy, prompts: Tensor, count: int) -> Tensor:
    """Prompts (B, P) with tokens drawn from the model."""
    ids = prompts
    for _ in range(count):
        ids = torch.cat([ids, model(ids, 1)[:, -1].float().softmax(-1).multinomial(1)], 1)
    return ids


STRENGTHS: dict[str, tuple[float, float, float]] = {
    "healthy": (1, 2, 3),  # other seeds
    "precision": (1, 2, 3),  # bf16 head, bf16 model, bf16 model and log-probabilities
    "quantised": (1, 2, 3),  # int8 per tensor, float8, int5; as the settings declare
    "stale": (3, 6, 12),  # updates
    "initial-weights": (1, 2, 3),  # other seeds
    "other-weights": (0.03, 0.06, 0.12),  # size of a foreign adapter
    "routing": (0.003, 0.01, 0.03),  # noise of the router; the engine is in bf16
    "routing-unrecorded": (0.003, 0.01, 0.03),  # the same, without the chosen experts
    "temperature": (1.1, 0.8, 1.4),
    "top-p": (0.95, 0.9, 0.8),
    "top-k": (20, 8, 4),
    "prompt": (2, 4, 8),  # last prompt tokens that differ
    "retokenised": (1, 2, 3),  # merges per response
    "shift": (1, -1, 2),
    "reference": (0.05, 0.2, 0),  # size of a foreign adapter before any update; the policy itself after updates
}
"""Each kind with its parameter at three strengths."""
TOLD_AS = {"healthy": "", "top-p": "filter", "top-k": "filter", "routing-unrecorded": "routing"}
"""The cause that a kind is reported as, where the names differ."""
CODES = {
    "stale": "MIS001", "initial-weights": "MIS001", "other-weights": "MIS002", "quantised": "MIS003",
    "precision": "MIS004", "routing": "MIS005", "temperature": "MIS006", "filter": "MIS007", "prompt": "MIS008",
    "retokenised": "MIS009", "shift": "MIS010", "reference": "MIS011",
}  # fmt: skip
"""The check that reports each cause."""


def _rounded(model: Toy, kind: float) -> None:
    """Replaces every matrix by its quantised values."""
    for parameter in model.parameters():
        if parameter.dim() < 2:
            continue
        if kind == 2:
            scale = parameter.abs().amax() / 448
            parameter.data = (parameter.data / scale).to(torch.float8_e4m3fn).float() * scale
        else:
            scale = parameter.abs().amax() / (127 if kind == 1 else 15)
            parameter.data = (parameter.data / scale).round() * scale


def _engine(made: Trained, faults: Mapping[str, float]) -> Toy:
    """The engine's weights, still in float32."""
    back = int(faults.get("stale", 0)) or (UPDATES if "initial-weights" in faults else 0)
    engine = copy.deepcopy(made.history[-back] if back else made.policy)
    if "other-weights" in faults:
        _adapted(engine, faults["other-weights"])
    if "quantised" in faults:
        _rounded(engine, faults["quantised"])
    for block in engine.blocks:
        if isinstance(block.feed, Router):
            block.feed.noise = faults.get("routing", faults.get("routing-unrecorded", 0.0))
    return engine


def _adapted(model: Toy, size: float) -> None:
    """Adds a foreign adapter of rank 2 to every matrix."""
    for parameter in model.parameters():
        if parameter.dim() == 2:
            low = torch.randn(parameter.size(0), 2) @ torch.randn(2, parameter.size(1)) / 2**0.5
            parameter.data += size * parameter.std() * low


@torch.no_grad()
def made(faults: Mapping[str, float], seed: int) -> TokenBatch:
    """A token batch whose engine has these faults."""
    moe = not faults.keys().isdisjoint(("routing", "routing-unrecorded"))
    base = trained(seed % 4, moe)
    if faults.get("reference"):  # a wrong reference shows before any update
        base = Trained(base.history[0], base.history[:1])
    torch.manual_seed(1000 + seed)
    engine = _engine(base, faults)
    bits = faults.get("precision", 2 if moe else 0)
    head = engine.head
    if bits == 1:
        engine.head = head.bfloat16()
    elif bits:
        engine = engine.bfloat16()
    temperature, top_p, top_k = faults.get("temperature", 1.0), faults.get("top-p", 1.0), int(faults.get("top-k", 0))
    prompts = torch.randint(VOCABULARY, (RESPONSES, PROMPT))
    own = prompts.clone()
    if other := int(faults.get("prompt", 0)):
        own[:, -other:] = torch.randint(VOCABULARY, (RESPONSES, other))
    if bits == 1:
        engine.norm.register_forward_hook(lambda module, given, out: out.bfloat16())
    ids, recorded, experts = own, [], []
    for _ in range(RESPONSE):
        logits = filtered(engine(ids, 1)[:, -1].float() / temperature, top_p, top_k)
        table = logits.log_softmax(-1)
        token = table.exp().multinomial(1)
        recorded.append(table.gather(-1, token))
        if "routing" in faults:
            experts.append(engine.chosen()[:, -1])
        ids = torch.cat([ids, token], 1)
    logprobs = torch.cat(recorded, 1)
    if bits == 3:
        logprobs = logprobs.bfloat16().float()
    said = ids[:, PROMPT:]
    if lag := int(faults.get("shift", 0)):
        logprobs = logprobs.roll(lag, 1)
    batch = _batch(base, faults, prompts, said, logprobs, experts)
    return _merged(batch, int(faults.get("retokenised", 0)))


def _merged(batch: TokenBatch, merges: int) -> TokenBatch:
    """The batch of a trainer that re-encodes the text: some pairs of tokens become one, and later tokens move up. A
    model treats equivalent tokens alike, so the trainer's log-probabilities are those of the same text, except near a
    merge; the engine's keep their positions.
    """
    for response in batch.responses if merges else ():
        for place in sorted(torch.randint(8, RESPONSE - 16, (merges,)).tolist(), reverse=True):
            at = response.prompt_length + place
            response.token_ids[at : at + 2] = [(response.token_ids[at] + response.token_ids[at + 1]) % VOCABULARY]
            for values in (response.old_logprobs, response.reference_logprobs, response.entropy):
                assert values is not None
                values[place : place + 2] = [values[place] + values[place + 1]]
                for near in range(place + 1, place + 3):
                    values[near] += -0.5 * float(torch.rand(1))
            for chosen in (response.engine_experts, response.trainer_experts):
                if chosen is not None:  # the engine's keep their places too
                    at = place if chosen is response.trainer_experts else response.length
                    del chosen[at * LAYERS * CHOSEN : (at + 1) * LAYERS * CHOSEN]
        assert response.engine_logprobs is not None
        response.engine_logprobs = response.engine_logprobs[: response.length]
    return batch


def _batch(
    base: Trained, faults: Mapping[str, float], prompts: Tensor, said: Tensor, engine: Tensor, experts: list[Tensor]
) -> TokenBatch:
    whole = torch.cat([prompts, said], 1)
    reference = base.history[0]
    if "reference" in faults:
        reference = copy.deepcopy(base.policy)
        _adapted(reference, faults["reference"])
    trainer, entropy = scored(base.policy, whole, PROMPT)
    chosen = base.policy.chosen()[:, PROMPT - 1 : -1] if experts else None
    others = scored(reference, whole, PROMPT)[0]
    responses = [
        Response(
            token_ids=whole[n].tolist(),
            prompt_length=PROMPT,
            engine_logprobs=engine[n].tolist(),
            old_logprobs=trainer[n].tolist(),
            reference_logprobs=others[n].tolist(),
            entropy=entropy[n].tolist(),
            engine_experts=torch.stack(experts, 1)[n].flatten().tolist() if experts else None,
            trainer_experts=chosen[n].flatten().tolist() if chosen is not None else None,
        )
        for n in range(len(whole))
    ]
    version, settings = 0 if faults.get("reference") else UPDATES, {}
    if "quantised" in faults:
        settings["quantization"] = ("int8", "float8", "int5")[int(faults["quantised"]) - 1]
    return TokenBatch(step=1, responses=responses, weight_version=version, settings=settings)
