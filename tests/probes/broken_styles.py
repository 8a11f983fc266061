"""Wrong variants of the correct trainers in `tests.probes.styles`, one fault each: ``python -m
tests.probes.broken_styles``.

A fault replaces methods of a style; each replacement takes the trainer, the method that it replaces, and its arguments.
The command probes every variant with all its entry points and with `rollout` and `loss` alone, and prints which code
was the cause and how many were caught.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence, Set
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Finding, Severity
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from tests.probes.recent_trainers import Agent, Looking, Replayed
from tests.probes.styles import Left, Packed, Scores, Shifted, Turns

TWO = ("rollout", "loss")
STYLES: dict[str, type[Left]] = {"left": Left, "shifted": Shifted, "packed": Packed, "turns": Turns}
RECENT: dict[str, type[Left]] = {"replayed": Replayed, "agent": Agent, "looking": Looking}


class Fault(NamedTuple):
    """One wrong variant: its name, the code that must catch it, the styles that it applies to, and what it changes."""

    name: str
    code: str
    styles: str
    methods: dict[str, Callable[..., Any]]
    options: dict[str, Any] = {}  # noqa: RUF012  (nothing changes it)
    made: Callable[[Any], None] | None = None
    """Change of the trainer after it is built."""
    two: bool = True
    """Whether `rollout` and `loss` alone show it."""

    def trainer(self, style: str) -> Left:
        """Return the wrong trainer."""
        kind = type("Faulty", ({**STYLES, **RECENT}[style],), {n: _method(n, f) for n, f in self.methods.items()})
        trainer: Left = kind(**self.options)
        if self.made is not None:
            self.made(trainer)
        return trainer


def _method(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return change(self, getattr(super(type(self), self), name), *args, **kwargs)

    return method


def masked(change: Callable[[Tensor], Tensor]) -> dict[str, Callable[..., Any]]:
    """The mask of what is trained, changed."""

    def scores(s: Any, right: Any, model: Any, prompts: Any, responses: Any) -> Scores:
        found: Scores = right(model, prompts, responses)
        return found._replace(mask=change(found.mask))

    return {"scores": scores}


def said(change: Callable[[Any, list[list[int]]], list[list[int]]]) -> dict[str, Callable[..., Any]]:
    """The responses of the loss, changed."""
    return {"taken": lambda s, right, p, r: right(p, change(s, r))}


def asked(change: Callable[[Any, list[int]], list[int]]) -> dict[str, Callable[..., Any]]:
    """The prompts of the loss, changed."""
    return {"taken": lambda s, right, p, r: right([change(s, x) for x in p], r)}


def sampled(**options: Any) -> dict[str, Callable[..., Any]]:
    """Other arguments of generation."""
    return {"generation": lambda s, right: right() | options}


def given(**changes: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Other arguments of the model's forward, None for an argument that is left out."""

    def logits(s: Any, right: Any, model: Any, ids: Tensor, **more: Any) -> Any:
        changed = more | {name: change(more.get(name)) for name, change in changes.items() if name in more}
        return right(model, ids, **{name: value for name, value in changed.items() if value is not None})

    return {"logits": logits}


def in_reference(**options: Any) -> Callable[..., Any]:
    """A reference pass that runs with attributes of the trainer changed."""

    def reference_scores(s: Any, right: Any, prompts: Any, responses: Any) -> Any:
        kept = {name: getattr(s, name) for name in options}
        vars(s).update(options)
        try:
            return right(prompts, responses)
        finally:
            vars(s).update(kept)

    return reference_scores


def own_reference(s: Any, right: Any, prompts: Any, responses: Any) -> Tensor:
    with torch.no_grad():
        return s.scores(s.model, prompts, responses).logprobs  # type: ignore[no-any-return]


def nudged(s: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in s.reference.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=generator))


def shares(s: Any) -> None:
    for own, other in zip(s.model.parameters(), s.reference.parameters(), strict=True):
        other.data = own.data


def drops(s: Any) -> None:
    for module in s.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.2


def nth_end(s: Any, right: Any, tokens: Tensor, width: int) -> list[list[int]]:
    """Everything after the end is kept: padding counts as text."""
    return [row[width:] for row in tokens.tolist()]


def right_padded(s: Any, right: Any, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([r + [s.pad] * (width - len(r)) for r in rows])
    return ids, torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])


def at_longest(s: Any, right: Any, rows: Any) -> Any:
    """Cuts at the longest prompt although the batch was padded to a multiple of 8."""
    ids, real = s.padded(rows)
    ids, real = (torch.nn.functional.pad(x, (8, 0), value=v) for x, v in ((ids, s.pad), (real, 0)))
    with torch.no_grad():
        out = s.sampler.generate(input_ids=ids, attention_mask=real, pad_token_id=s.pad, **s.generation())
    return s.cut(out, ids.shape[1] - 8)


def in_training(s: Any, right: Any, rows: Any) -> Any:
    ids, real = s.padded(rows)
    s.sampler.train()
    out = s.sampler.generate(input_ids=ids, attention_mask=real, pad_token_id=s.pad, **s.generation())
    return s.cut(out, ids.shape[1])


def ends_appended(s: Any, responses: list[list[int]]) -> list[list[int]]:
    end = s.tok.eos_token_id
    return [r if r[-1] == end else [*r, end] for r in responses]


def tokenised_again(s: Any, responses: list[list[int]]) -> list[list[int]]:
    return [s.tok.encode(s.tok.decode(r), add_special_tokens=False) or r for r in responses]


def clipped_copy(s: Any, right: Any) -> list[Any]:
    copies = [p.detach().clone() for p in s.model.parameters()]
    for own, other in zip(s.model.parameters(), copies, strict=True):
        other.grad = None if own.grad is None else own.grad.clone()
    return copies


def group_only(s: Any) -> None:
    s.declared = {"normaliser": "group"}


def in_order_of_length(s: Any, right: Any, prompts: Any, responses: Any, advantages: Tensor) -> Any:
    """Sorts the samples, but not their advantages."""
    order = sorted(range(len(prompts)), key=lambda n: -len(responses[n]))
    return right([prompts[n] for n in order], [responses[n] for n in order], advantages)


def never_zeroed(s: Any, right: Any, prompts: Any, responses: Any, advantages: Tensor) -> None:
    torch.autograd.backward(s.loss(prompts, responses, advantages))
    s.optimizer.step()


def in_parts(s: Any, right: Any, prompts: Any, responses: Any, advantages: Tensor) -> Any:
    """Parts of up to 150 tokens, each divided by its own token count."""
    parts: list[list[int]] = [[]]
    sizes = [len(s.render(p)) + len(r) for p, r in zip(prompts, responses, strict=True)]
    for n, size in enumerate(sizes):
        if parts[-1] and sum(sizes[m] for m in parts[-1]) + size > 150:
            parts.append([])
        parts[-1].append(n)
    values = [right([prompts[n] for n in p], [responses[n] for n in p], advantages[p]) for p in parts]
    return sum(values) / len(parts)


def detached_states(s: Any, right: Any, model: Any, ids: Tensor, **more: Any) -> Any:
    """Only the head of the policy is trained."""
    return model.lm_head(model.model(input_ids=ids, **more).last_hidden_state.detach())


def without_head(s: Any, right: Any, prompts: Any, responses: Any, advantages: Tensor) -> None:
    s.optimizer.zero_grad()
    s.backward(prompts, responses, advantages)
    s.inner.lm_head.weight.grad = None
    s.optimizer.step()


def bounded(s: Any, ratio: Tensor) -> Tensor:
    return ratio.clamp(1 - s.epsilon, 1 + s.epsilon)


def objective(change: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The objective with changed (old, advantages)."""

    def changed(s: Any, right: Any, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Any:
        return right(new, *change(new, old, reference, advantages))

    return {"objective": changed}


def without_last(mask: Tensor) -> Tensor:
    """The mask without the last token of every span."""
    return mask * torch.nn.functional.pad(mask, (0, 1))[:, 1:]


def end_without_penalty(s: Any, right: Any, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Any:
    mask = without_last(new.mask)
    return right(new, old, mask * reference + (1 - mask) * new.logprobs, advantages)


def reasoning_stripped(s: Any, right: Any, prompt: list[int], said: list[int]) -> list[int]:
    """Omits the reasoning of earlier turns, as some templates do."""
    text = re.sub(r"<think>.*?</think>", "", s.tok.decode(said), flags=re.DOTALL)
    return right(prompt, s.tok.encode(text, add_special_tokens=False))  # type: ignore[no-any-return]


def last_turn_lost(s: Any, right: Any, response: list[int]) -> list[int]:
    tool = s.tok.convert_tokens_to_ids("<|tool|>")
    first = response.index(tool) if tool in response else len(response)
    return [int(n < first) for n in range(len(response))]


def tool_token_trained(s: Any, right: Any, response: list[int]) -> list[int]:
    """The token that opens the environment's text counts as the policy's."""
    tool, marks = s.tok.convert_tokens_to_ids("<|tool|>"), list(right(response))
    if tool in response:
        marks[response.index(tool)] = 1
    return marks


def closing_tool_trained(s: Any, right: Any, response: list[int]) -> list[int]:
    tool, marks = s.tok.convert_tokens_to_ids("<|tool|>"), list(right(response))
    if tool in response:
        marks[len(response) - 1 - response[::-1].index(tool)] = 1
    return marks


def first_of_turn_lost(s: Any, right: Any, response: list[int]) -> list[int]:
    marks = list(right(response))
    return [m * (n == 0 or marks[n - 1]) for n, m in enumerate(marks)]


def end_of_turn_lost(s: Any, right: Any, response: list[int]) -> list[int]:
    """The end token that closes a turn before the last one is not trained."""
    end = s.tok.eos_token_id
    return [
        m * (i != end or n == len(response) - 1) for n, (m, i) in enumerate(zip(right(response), response, strict=True))
    ]


ALL, ROWS = "left shifted packed turns", "left shifted turns"

FAULTS: Sequence[Fault] = (
    # what is sampled
    Fault("greedy", "GEN007", "left packed", sampled(do_sample=False)),
    Fault("temperature ignored", "GEN007", "left turns", sampled(temperature=1.0), {"temperature": 0.5}),
    Fault("temperature twice", "GEN006", "left shifted", sampled(temperature=0.36), {"temperature": 0.6}),
    Fault("top-k", "GEN004", "left turns", sampled(top_k=4)),
    Fault("top-p", "GEN004", "left packed", sampled(top_p=0.8)),
    Fault("top-p in half precision", "GEN004", "left", sampled(top_p=0.8), {"precision": "autocast"}),
    Fault("min-p", "GEN004", "shifted", sampled(min_p=0.2)),
    Fault("repetition penalty over the prompt", "TOK006", "left turns", sampled(repetition_penalty=1.5)),
    Fault("end token is not known to the sampler", "TOK004", "left", sampled(eos_token_id=5)),
    Fault("scored at temperature 1", "GEN004", ALL, {
        "gathered": lambda s, right, logits, labels: right(logits * s.temperature, labels)}, {"temperature": 0.6}),
    Fault("generates in training mode with dropout", "GEN001", "left packed", {"generate": in_training}, {"arch": "gpt2"}, drops),
    Fault("sampler never synchronised", "GEN002", "left packed", {"sync": lambda s, right: None}, {"sampler": "synced"}, two=False),
    Fault("no attention mask in generation", "PAD004", "left turns", {
        "padded": lambda s, right, rows: (right(rows)[0], torch.ones_like(right(rows)[1]))}),
    Fault("prompts padded on the right", "PAD004", "left shifted", {"padded": right_padded}),
    # what is extracted
    Fault("cut one too late", "PAD001", "left shifted", {"cut": lambda s, right, tokens, width: right(tokens, width + 1)}),
    Fault("cut one too early", "PAD001", "left packed", {"cut": lambda s, right, tokens, width: right(tokens, width - 1)}),
    Fault("cut at the longest prompt, padded to a multiple", "PAD001", "left packed", {"generate": at_longest}),
    Fault("last token lost", "PAD001", "left packed", {"cut": lambda s, right, tokens, width: right(tokens[:, :-1], width)}),
    Fault("responses in another order", "PAD001", "left packed", {"cut": lambda s, right, tokens, width: right(tokens.flip(0), width)}),
    Fault("first response for all", "PAD001", "shifted", {"cut": lambda s, right, tokens, width: [right(tokens, width)[0]] * len(tokens)}),
    # what is put into the loss
    Fault("end token appended", "GEN005", "left shifted packed", said(ends_appended)),
    Fault("end token lost", "GEN005", "left shifted packed", said(lambda s, r: [x[:-1] if len(x) > 1 and x[-1] == s.tok.eos_token_id else x for x in r])),
    Fault("first token lost", "GEN005", "shifted packed", said(lambda s, r: [x[1:] or x for x in r])),
    Fault("responses of other samples", "GEN005", "left packed", said(lambda s, r: [*r[1:], r[0]])),
    Fault("cut to five tokens", "GEN005", "left packed", said(lambda s, r: [x[:5] for x in r])),
    Fault("text tokenised again", "TOK005", "left packed", said(tokenised_again)),
    Fault("prompt without special tokens", "KL006", "left packed", asked(lambda s, p: [i for i in p if i not in s.tok.all_special_ids])),
    Fault("prompt without its end", "KL006", ALL, asked(lambda s, p: p[:-1])),
    Fault("prompt cut on the left", "KL006", "left packed turns", asked(lambda s, p: p[-12:])),
    Fault("beginning twice", "KL006", "shifted", asked(lambda s, p: [s.tok.bos_token_id, *p])),
    # the mask
    Fault("prompt trained", "PAD002", ROWS, masked(torch.ones_like)),
    Fault("mask one late", "PAD002", ROWS, masked(lambda m: m.roll(1, 1))),
    Fault("first token out of the mask", "PAD002", ALL, masked(lambda m: m * m.roll(1, 1))),
    Fault("last token out of the mask", "PAD002", "left packed", masked(lambda m: m * torch.nn.functional.pad(m, (0, 1))[:, 1:])),
    Fault("end token out of the mask", "PAD002", "left shifted", {
        "batch": lambda s, right, p, r: (lambda i, a, m: (i, a, m * (i != s.tok.eos_token_id)))(*right(p, r))}),
    Fault("mask of the first row for all", "PAD002", "left shifted", masked(lambda m: m[:1].expand_as(m))),
    Fault("mask ignored", "PAD002", "left packed", {"averaged": lambda s, right, x, mask: x.mean()}),
    Fault("mean over the padded width", "PAD002", "left shifted", {"averaged": lambda s, right, x, mask: (x * mask).mean()}),
    Fault("mean over the widest response", "PAD002", "left", {
        "averaged": lambda s, right, x, mask: (x * mask)[:, mask.any(0)].mean()}),
    Fault("KL over the prompt", "PAD002", "left shifted packed", {
        "objective": lambda s, right, new, old, ref, a: right(new, old, new.logprobs.detach(), a) + s.kl_coef * s.divergence(new.logprobs, ref).mean()}),
    Fault("KL leaves out the end token", "PAD002", ALL, {"objective": end_without_penalty}),
    Fault("KL leaves out the end token, LoRA", "PAD002", "left", {"objective": end_without_penalty}, {"lora": "plain"}),
    Fault("advantage leaves out the end token", "PAD002", ALL, {
        "objective": lambda s, right, new, old, ref, a: right(new, old, ref, a * without_last(new.mask))}),
    Fault("environment trained", "PAD002", "turns", {"spoken": lambda s, right, r: [1] * len(r)}),
    Fault("last turn not trained", "PAD002", "turns", {"spoken": last_turn_lost}),
    Fault("opening tool token trained", "PAD002", "turns", {"spoken": tool_token_trained}),
    Fault("closing tool token trained", "PAD002", "turns", {"spoken": closing_tool_trained}),
    Fault("first token of every turn lost", "PAD002", "turns", {"spoken": first_of_turn_lost}),
    Fault("end of a turn not trained", "PAD002", "turns", {"spoken": end_of_turn_lost}),
    # turns
    Fault("next turn asked for without the ends of earlier ones", "TOK005", "turns", {
        "so_far": lambda s, right, p, said: right(p, [i for i in said if i != s.tok.eos_token_id])}),
    Fault("next turn asked for without earlier reasoning", "TOK005", "turns", {"so_far": reasoning_stripped}),
    # scores
    Fault("labels one early", "PAD002", ALL, {"gathered": lambda s, right, logits, labels: right(logits, labels.roll(1, -1))}),
    Fault("labels one late", "PAD002", "left packed", {"gathered": lambda s, right, logits, labels: right(logits, labels.roll(-1, -1))}),
    Fault("no attention mask", "PAD004", "left turns packed", given(attention_mask=lambda m: None)),
    Fault("no attention mask, LoRA", "PAD004", "left", given(attention_mask=lambda m: None), {"lora": "plain"}),
    Fault("no attention mask, autocast", "PAD004", "turns", given(attention_mask=lambda m: None), {"precision": "autocast"}),
    Fault("positions count padding", "PAD004", "left packed turns", given(position_ids=lambda p: torch.arange(p.shape[1])[None].expand_as(p)), {"arch": "gpt2"}),
    Fault("positions count every other token", "PAD004", "left packed", given(position_ids=lambda p: p // 2), {"arch": "gpt2"}),
    # old and reference
    Fault("dropout in the loss", "RAT003", "left shifted packed", {}, {"arch": "gpt2"}, drops),
    Fault("old scores at another temperature", "RAT003", "left packed", {
        "old_scores": lambda s, right, p, r: 1.25 * right(p, r)}),
    Fault("old scores of the reference", "RAT003", "shifted", {"old_scores": lambda s, right, p, r: s.reference_scores(p, r)}, {}, nudged),
    Fault("reference is the policy", "KL003", "left shifted packed", {"reference_scores": own_reference}),
    Fault("adapter left on for the reference", "KL003", "left packed", {"reference_scores": own_reference}, {"lora": "plain"}),
    Fault("reference shares storage", "KL003", "left shifted", {}, {}, shares),
    Fault("reference is another model", "KL006", "left packed turns", {}, {}, nudged),
    Fault("reference gets the raw prompt", "KL006", "left shifted", {
        "reference_scores": lambda s, right, p, r: right([[x if x != s.tok.convert_tokens_to_ids("<|start|>") else 5 for x in row] for row in p], r)}),
    # the objective
    Fault("sign lost", "RAT007", ALL, objective(lambda new, old, ref, a: (old, ref, -a))),
    Fault("advantages of other samples", "RAT007", "left shifted turns", objective(lambda new, old, ref, a: (old, ref, a.flip(0)))),
    Fault("sorted without the advantages", "RAT007", "left packed", {"loss": in_order_of_length}),
    Fault("one advantage for all", "RAT007", "left packed", objective(lambda new, old, ref, a: (old, ref, a.mean() + 0 * a + a.flatten()[0]))),
    Fault("old over new", "RAT007", ALL, {"surrogate": lambda s, right, ratio, a: torch.min(a / ratio, a / ratio)}),
    Fault("max for min", "RAT007", "left packed turns", {"surrogate": lambda s, right, r, a: torch.max(r * a, bounded(s, r) * a)}),
    Fault("clip alone", "RAT007", "left shifted", {"surrogate": lambda s, right, r, a: bounded(s, r) * a}),
    Fault("clip at a tenth of what is declared", "RAT007", "left packed", {"surrogate": lambda s, right, r, a: torch.min(r * a, r.clamp(0.98, 1.02) * a)}),
    Fault("clip at twice what is declared", "RAT007", "shifted", {"surrogate": lambda s, right, r, a: torch.min(r * a, r.clamp(0.6, 1.4) * a)}),
    Fault("clip around 0", "RAT007", "left packed", {"surrogate": lambda s, right, r, a: torch.min(r * a, r.clamp(-0.2, 0.2) * a)}),
    Fault("old policy ignored", "RAT007", "left shifted packed", objective(lambda new, old, ref, a: (new.logprobs.detach(), ref, a))),
    Fault("negative advantages dropped", "RAT007", "left", objective(lambda new, old, ref, a: (old, ref, a.clamp(min=0)))),
    Fault("ratio detached", "STL004", "left packed", {"surrogate": lambda s, right, r, a: right(r.detach(), a)}),
    Fault("old with a gradient", "STL004", "left packed", objective(lambda new, old, ref, a: (new.logprobs, ref, a))),
    Fault("KL of the wrong sign", "KL004", ALL, {"divergence": lambda s, right, new, ref: -right(new, ref)}),
    Fault("entropy of the wrong sign", "ENT006", ALL, {"entropy_term": lambda s, right, e, m: -right(e, m)}, {"entropy": 0.05}),
    Fault("entropy over everything", "ENT006", "left shifted", {"entropy_term": lambda s, right, e, m: right(e, torch.ones_like(m))}, {"entropy": 0.05}),
    Fault("entropy detached", "ENT011", "left packed", {"entropy_term": lambda s, right, e, m: right(e.detach(), m)}, {"entropy": 0.05}),
    Fault("entropy of the sampled tokens", "ENT011", "shifted packed", {
        "objective": lambda s, right, new, old, ref, a: right(new._replace(entropy=-new.logprobs), old, ref, a)}, {"entropy": 0.05}),
    # extremes
    Fault("quotient of probabilities", "GRD001", ALL, {"ratio": lambda s, right, new, old: new.exp() / old.exp()}),
    Fault("ratio in half precision", "GRD001", "left packed turns", {
        "ratio": lambda s, right, new, old: (new - old).half().exp().float()}),
    Fault("reference of padding is 0", "GRD001", ROWS, {
        "reference_scores": lambda s, right, p, r: right(p, r) * s.scores(s.model, p, r).mask}),
    # advantages and the update
    Fault("deviation over the batch, declared a group's", "ADV014", "left", {
        "advantages": lambda s, right, r: (r - r.mean(1, keepdim=True)) / (r.std() + 1e-4)}, {}, group_only, two=False),
    Fault("rewards interleaved", "ADV006", "packed", {
        "advantages": lambda s, right, r: right(r.t().reshape(r.shape)).reshape(r.t().shape).t()}, two=False),
    Fault("clips a copy", "GRD007", "left packed", {"optimised": clipped_copy}, two=False),
    Fault("sorts the samples of a step alone", "ENT007", "left", {
        "step": lambda s, right, p, r, a: right([p[n] for n in sorted(range(len(p)), key=lambda n: -len(r[n]))], sorted(r, key=len, reverse=True), a)}, two=False),
    Fault("head not in the optimizer", "STL004", "packed turns", {}, {}, lambda s: setattr(s, "optimizer", torch.optim.AdamW(s.inner.model.parameters())), two=False),
    Fault("gradient of the head dropped before the step", "STL004", "left", {"step": without_head}, two=False),
    Fault("states detached before the head", "STL004", "left", {"logits": detached_states}),
    Fault("gradients never zeroed", "GRD006", "left turns", {
        "step": never_zeroed}, two=False),
    Fault("parts of the batch are divided by their own tokens", "GRD006", "left", {"loss": in_parts}),
    Fault("micro-batches are divided by their own tokens", "GRD006", ALL, {
        "share": lambda s, right, part, whole: len(part[0]) / len(whole[0])}, two=False),
)  # fmt: skip


class Case(NamedTuple):
    fault: Fault
    style: str
    seams: str
    """"all" or "two"."""

    def probed(self, **more: Any) -> Diagnosis:
        torch.set_num_threads(1)
        seams = TWO if self.seams == "two" else ()
        return run_probes(self.fault.trainer(self.style).adapter(*seams), **more)


def finding(name: str, style: str, code: str = "") -> Finding | None:
    """Return the finding of a probe, its own or another, on a wrong variant with the fewest entry points that show
    it."""
    fault = next(f for f in FAULTS if f.name == name)
    case, code = Case(fault, style, "two" if fault.two else "all"), code or fault.code
    return case.probed(catalogue=load().select([code])).finding(code)


CASES = [
    Case(fault, style, seams)
    for fault in FAULTS
    for style in fault.styles.split()
    for seams in ("all", "two")
    if seams == "all" or fault.two
]


def one_of_each(
    faults: Sequence[Fault], missed: Set[tuple[str, str]] = frozenset(), known: Set[str] = frozenset()
) -> list[tuple[Fault, str]]:
    """Return each fault in one style, and each code in every style of its faults: more styles of a fault run the same
    lines of its probe. Faults with a ``known`` name, which another table has, are only taken for their code."""
    pairs = [(fault, style) for fault in faults for style in fault.styles.split() if (fault.name, style) not in missed]
    pairs.sort(key=lambda pair: len(pair[0].styles))  # a fault of one style has no choice
    chosen: list[tuple[Fault, str]] = []
    seen: set[tuple[str, str]] = set()
    for name, group in groupby(pairs, lambda pair: pair[0].name):
        styles = list(group)
        if name not in known:
            chosen.append(next(((f, s) for f, s in styles if (f.code, s) not in seen), styles[0]))
            seen.add((chosen[-1][0].code, chosen[-1][1]))
    for fault, style in pairs:
        if (fault.code, style) not in seen:
            chosen.append((fault, style))
            seen.add((fault.code, style))
    return chosen


def main(words: Sequence[str]) -> None:
    """Print a line for every variant whose name contains one of the words, and the share that was caught. With
    ``--own``, only the probe that must catch it runs; with ``--two``, only `rollout` and `loss` are provided.
    """
    own, two = "--own" in words, "--two" in words
    words = [word for word in words if not word.startswith("--")]
    caught: dict[str, list[bool]] = {"all": [], "two": []}
    for case in CASES:
        if words and not any(w in case.fault.name or w == case.fault.code for w in words):
            continue
        if two and case.seams != "two":
            continue
        diagnosis = case.probed(catalogue=load().select([case.fault.code])) if own else case.probed()
        causes = [f.code for f in diagnosis.findings if f.level >= Severity.WARNING and f.role != "symptom"]
        caught[case.seams].append(case.fault.code in causes)
        said = "" if causes == [case.fault.code] else "also" if case.fault.code in causes else "MISSED"
        where = f"{case.fault.code} {case.style:8} {case.seams:4} {case.fault.name:48}"
        print(f"{where} {' '.join(causes):24} {said}", flush=True)
    for seams, hits in caught.items():
        if hits:
            print(f"{seams}: {sum(hits)} of {len(hits)} caught ({sum(hits) / len(hits):.0%})")


if __name__ == "__main__":
    main(sys.argv[1:])
