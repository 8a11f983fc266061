"""Wrong variants of `tests.probes.recent_trainers`, one fault each, after bugs in public reports: ``python -m
tests.probes.recent_faults [WORD…]``.

The command runs each for a few real steps next to the correct trainer, so that a fault without an effect is reported,
and probes it with all entry points and with `rollout` and `loss`. A fault is caught by a finding at error or above.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.probes import run_probes
from tests.probes.broken_styles import (
    RECENT,
    TWO,
    Fault,
    asked,
    bounded,
    ends_appended,
    given,
    masked,
    nudged,
    own_reference,
    right_padded,
    said,
    sampled,
    without_last,
)
from tests.probes.recent_trainers import Engine, Episode, run
from tests.probes.styles import Scores

# the engine ------------------------------------------------------------------------------------------------------


class RawEngine(Engine):
    """Its log-probabilities leave out the temperature."""

    def told(self, generated: Any) -> Tensor:
        return torch.stack(generated.logits, 1).float()


class ScaledEngine(Engine):
    """Divides log-probabilities instead of logits by the temperature."""

    def told(self, generated: Any) -> Tensor:
        return torch.stack(generated.logits, 1).float().log_softmax(-1) / self.trainer.temperature + 0.0

    def generate(self, rows: list[list[int]], **inputs: Any) -> list[tuple[list[int], list[float]]]:
        found = super().generate(rows, **inputs)
        return [(ids, [x / self.trainer.temperature for x in behaviour]) for ids, behaviour in found]


class HeadlessEngine(Engine):
    """Loads new weights, but keeps its own head, whose name is missing from its map."""

    def load(self, weights: dict[str, Tensor], version: int) -> None:
        kept = {n: w for n, w in weights.items() if n != "lm_head.weight"}
        self.model.load_state_dict(kept, strict=False)
        self.version = version


class FrozenEngine(Engine):
    """Counts versions without loading weights."""

    def load(self, weights: dict[str, Tensor], version: int) -> None:
        self.version = version


class TrainingEngine(Engine):
    def generate(self, rows: list[list[int]], **inputs: Any) -> list[tuple[list[int], list[float]]]:
        self.model.train()
        return super().generate(rows, **inputs)


class FirstImageEngine(Engine):
    """Gives every row the image of the first one."""

    def generate(self, rows: list[list[int]], **inputs: Any) -> list[tuple[list[int], list[float]]]:
        images = inputs["pixel_values"]
        return super().generate(rows, pixel_values=images[:1].expand_as(images))


def started(engine: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    return {"started": lambda s, right: engine(s)}


def behaved(change: Callable[[list[float]], list[float]]) -> dict[str, Callable[..., Any]]:
    """The engine's log-probabilities, changed before they reach the batch."""
    return {"behaved": lambda s, right, e: change(right(e))}


def olds(change: Callable[[list[float]], list[float]]) -> dict[str, Callable[..., Any]]:
    return {"olds": lambda s, right, e: [0.0] * len(e.prompt) + change(e.behaviour)}


# the buffer ------------------------------------------------------------------------------------------------------


def others_advantages(s: Any, right: Any, episodes: list[Episode]) -> Any:
    """The rows are drawn at random, the advantages in their original order."""
    batch, kept = right(episodes), [e.advantage for e in episodes]
    return [Episode(e.prompt, e.response, e.behaviour, e.generated, a) for e, a in zip(batch, kept, strict=True)]


def others_behaviour(s: Any, right: Any, episodes: list[Episode]) -> Any:
    batch = right(episodes)
    pairs = zip(batch, [*batch[1:], batch[0]], strict=True)
    return [
        Episode(e.prompt, e.response, (o.behaviour * 9)[: len(e.response)], e.generated, e.advantage)
        for e, o in pairs
    ]  # fmt: skip


def one_row_kept(s: Any, right: Any, episodes: list[Episode]) -> Any:
    """A buffer that counts rows instead of batches: every draw is its last row."""
    return [episodes[-1]] * len(episodes)


def with_replacement(s: Any, right: Any, episodes: list[Episode]) -> Any:
    return [episodes[n] for n in torch.randint(len(episodes), (len(episodes),))]


def first_group_alone(s: Any, right: Any, episodes: list[Episode]) -> Any:
    """Only the first half is trained; it overwrites the rest, which keeps its own advantages."""
    half = max(1, len(episodes) // 2)
    pairs = zip([*episodes[:half], *episodes[: len(episodes) - half]], episodes, strict=True)
    return [Episode(e.prompt, e.response, e.behaviour, e.generated, o.advantage) for e, o in pairs]


def weighed(change: Callable[[Any, Tensor, Tensor, Tensor], Tensor]) -> dict[str, Callable[..., Any]]:
    return {"weight": lambda s, right, near, behaviour, mask: change(s, near, behaviour, mask)}


def ratio_to_engine(s: Any, right: Any, new: Scores, near: Tensor, reference: Tensor, a: Tensor, w: Tensor) -> Any:
    """Applies importance weights although the ratio is already to the engine."""
    return right(new, near - w.log(), reference, a, w)


def weight_on_all(s: Any, right: Any, new: Scores, near: Tensor, ref: Tensor, a: Tensor, w: Tensor) -> Any:
    """One weight per row: the sum, including padding, divided by the number of trained tokens."""
    return right(new, near, ref, a, w * 0 + w.sum(-1, keepdim=True) / new.mask.sum(-1, keepdim=True))


def never_zeroed(s: Any, right: Any, episodes: Any) -> None:
    torch.autograd.backward(s.loss_of(s.prepared(episodes)))
    s.optimizer.step()
    s.version += 1


def last_half_alone(s: Any, right: Any, episodes: Any) -> None:
    half = max(1, len(episodes) // 2)
    for part in (episodes[:half], episodes[half:]):
        if part:
            s.optimizer.zero_grad()
            torch.autograd.backward(s.loss_of(s.prepared(part)))
    s.optimizer.step()
    s.version += 1


def batch_deviation(s: Any, right: Any, rewards: Tensor) -> Tensor:
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std() + 1e-4)


def uncentred(s: Any, right: Any, rewards: Tensor) -> Tensor:
    return rewards / (rewards.std(1, keepdim=True) + 1e-4)


def interleaved(s: Any, right: Any, rewards: Tensor) -> Tensor:
    found: Tensor = right(rewards.t().reshape(rewards.shape)).reshape(rewards.t().shape).t()
    return found


def declares_groups(s: Any) -> None:
    s.declared = {"normaliser": "group"}


def engine_drops(s: Any) -> None:
    for module in s.engine.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.2


def trains_copies(s: Any) -> None:
    s.optimizer = torch.optim.AdamW([p.detach().clone().requires_grad_() for p in s.inner.parameters()], lr=1e-3)


# turns and packs -------------------------------------------------------------------------------------------------


def marks(change: Callable[[Any, Episode, list[int]], list[int]]) -> dict[str, Callable[..., Any]]:
    """Changes which tokens of a conversation are trained, after its prompt."""

    def changed(s: Any, right: Any, e: Episode) -> list[int]:
        return [0] * len(e.prompt) + change(s, e, list(right(e)[len(e.prompt) :]))

    return {"marks": changed}


def starts(generated: list[int]) -> list[int]:
    """Return the positions at which turns of the policy begin."""
    return [n for n, g in enumerate(generated) if g and (n == 0 or not generated[n - 1])]


def only_first_turn(s: Any, e: Episode, row: list[int]) -> list[int]:
    tail = starts(e.generated)[1:]
    return [m * (not tail or n < tail[0]) for n, m in enumerate(row)]


def only_last_turn(s: Any, e: Episode, row: list[int]) -> list[int]:
    return [m * (n >= starts(e.generated)[-1]) for n, m in enumerate(row)]


def without_ends(s: Any, e: Episode, row: list[int]) -> list[int]:
    return [m * (i != s.tok.eos_token_id) for i, m in zip(e.response, row, strict=True)]


def without_inner_ends(s: Any, e: Episode, row: list[int]) -> list[int]:
    last = len(row) - 1
    return [m * (i != s.tok.eos_token_id or n == last) for n, (i, m) in enumerate(zip(e.response, row, strict=True))]


def with_headers(s: Any, e: Episode, row: list[int]) -> list[int]:
    """The header that the template puts before a later turn counts as the policy's."""
    out = list(row)
    for n in starts(e.generated)[1:]:
        out[n - 1] = out[n - 2] = 1
    return out


def without_first_tokens(s: Any, e: Episode, row: list[int]) -> list[int]:
    return [m * (n not in starts(e.generated)) for n, m in enumerate(row)]


def boundary(s: Any, right: Any, row: dict[str, Tensor]) -> Any:
    """Labels by a roll over the whole row; the first token of every later sample is trained."""
    labels, mask = right(row)
    begins = row["segment"][:, 1:] != row["segment"][:, :-1]
    return labels, (mask.bool() | begins).long()


def in_packed_order(s: Any, right: Any, episodes: list[Episode]) -> Any:
    """The rows are sorted by length, the advantages are not."""
    packs, flat = right(episodes), [e.advantage for e in episodes]
    places = iter(flat)
    return [[Episode(e.prompt, e.response, e.behaviour, e.generated, next(places)) for e in p] for p in packs]


def in_original_order_olds(s: Any, right: Any, episodes: list[Episode]) -> Any:
    packs, flat = right(episodes), [x for e in episodes for x in e.behaviour]
    out, at = [], 0
    for pack in packs:
        row = []
        for e in pack:
            row.append(Episode(e.prompt, e.response, flat[at : at + len(e.response)], e.generated, e.advantage))
            at += len(e.response)
        out.append(row)
    return out


def tail_dropped(s: Any, right: Any, episodes: list[Episode]) -> Any:
    """Drop everything that does not fit into the first row."""
    return right(episodes)[:1]


def cut_at_width(s: Any, right: Any, pack: list[Episode]) -> Any:
    return {name: values[:, :60] for name, values in right(pack).items()}


def spread_by_response(s: Any, right: Any, pack: list[Episode]) -> Any:
    """Advantages repeated by the length of responses, not of samples."""
    row = right(pack)
    flat = [e.advantage for e in pack for _ in e.response]
    width = row["ids"].shape[1]
    row["advantage"] = torch.tensor([(flat + [flat[-1]] * width)[:width]])
    return row


def reference_unblocked(s: Any, right: Any, row: dict[str, Tensor]) -> Any:
    return right(row | {"segment": torch.zeros_like(row["segment"])})


def mean_of_rows(s: Any, right: Any, rows: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Each row is divided by its own token count, whatever it contains."""
    return torch.stack([(x * m).sum() / m.sum() for x, m in rows]).mean()


def mean_over_width(s: Any, right: Any, rows: list[tuple[Tensor, Tensor]]) -> Tensor:
    return torch.stack([(x * m).sum() for x, m in rows]).sum() / sum(m.numel() for _, m in rows)


def decoded_again(s: Any, right: Any, episode: Episode) -> list[int]:
    """The history is decoded and re-encoded before the next turn."""
    text = s.tok.decode(episode.response)
    return [*episode.prompt, *s.tok.encode(text.replace("<call>", "<call> "), add_special_tokens=False)]


def ends_not_shown(s: Any, right: Any, episode: Episode) -> list[int]:
    return [*episode.prompt, *(i for i in episode.response if i != s.tok.eos_token_id)]


def truncated_result(s: Any, right: Any, episode: Episode, reply: list[int]) -> None:
    """The batch lacks the last two tokens of a tool result, which the policy saw."""
    right(episode, reply)
    shown = [*episode.response]
    del episode.response[-2:], episode.behaviour[-2:], episode.generated[-2:]
    s.shown = {id(episode): shown}


def with_result(s: Any, right: Any, episode: Episode) -> list[int]:
    shown = getattr(s, "shown", {}).get(id(episode))
    return [*episode.prompt, *shown] if shown is not None else right(episode)


def index_lost(s: Any, right: Any, active: list[Episode], answers: Any, last: bool) -> Any:
    """Answers of a later turn are assigned to the rows of the first one."""
    return right(active, [*answers[1:], answers[0]], last)


def role_lost(s: Any, right: Any, result: str) -> list[int]:
    return list(s.tok.encode(f"{result}", add_special_tokens=False))


def ends_stripped(s: Any, right: Any, episode: Episode, ids: list[int], behaviour: list[float]) -> None:
    """A turn's end token is a stop word, so the engine's text does not contain it."""
    cut = len(ids) - (len(ids) > 1 and ids[-1] == s.tok.eos_token_id)
    right(episode, ids[:cut], behaviour[:cut])


def tool_as_policy(s: Any, right: Any, episode: Episode, reply: list[int]) -> None:
    episode.add(reply, [0.0] * len(reply), 1)


def inverted_marks(s: Any, e: Episode, row: list[int]) -> list[int]:
    return [1 - m for m in row] if 0 in row else row


# images ----------------------------------------------------------------------------------------------------------


def looks(change: Callable[[Any, Any, Tensor], Tensor | None]) -> dict[str, Callable[..., Any]]:
    return {"seen": lambda s, right, model: change(s, model, right(model))}


def without_grad_only(change: Callable[[Tensor], Tensor | None]) -> dict[str, Callable[..., Any]]:
    """Changes the images of the policy's forward passes without gradient."""
    return looks(lambda s, model, x: x if torch.is_grad_enabled() or model is s.reference else change(x))


def of_reference(change: Callable[[Tensor], Tensor | None]) -> dict[str, Callable[..., Any]]:
    return looks(lambda s, model, x: change(x) if model is s.reference else x)


def images_trained(s: Any, right: Any, prompts: Any, responses: Any) -> Any:
    ids, real, mask = right(prompts, responses)
    return ids, real, (mask.bool() | (ids == s.image)).long()


def not_expanded(s: Any, prompt: list[int]) -> list[int]:
    """The loss gets the placeholder only once."""
    first = prompt.index(s.image) if s.image in prompt else len(prompt)
    return [i for n, i in enumerate(prompt) if i != s.image or n == first]


def cut_before_expansion(s: Any, right: Any, tokens: Tensor, width: int) -> Any:
    return right(tokens, width - 3)


def tiled(x: Tensor) -> Tensor:
    """Repeat the images as a whole, although each should be repeated in place."""
    return torch.cat([x[::2], x[1::2]])


def head_only(s: Any) -> None:
    """The vision tower is in the optimizer, the language model is not."""
    own = [p for n, p in s.inner.named_parameters() if n.startswith("vision")]
    s.optimizer = torch.optim.AdamW(own, lr=1e-3)


EVERY = "replayed agent looking"
PLAIN = "replayed looking"
QUOTIENT = {"ratio": lambda s, right, new, old: new.exp() / old.exp()}

FAULTS: Sequence[Fault] = (
    # the engine and its weights
    Fault("log-probabilities before temperature", "RAT003", EVERY.replace(" looking", ""), started(RawEngine), {"temperature": 0.6}),  # trl#4159
    Fault("log-probabilities over temperature", "RAT003", "replayed agent", started(ScaledEngine), {"temperature": 0.6}),  # prime-rl#697
    Fault("loss at temperature 1", "GEN004", EVERY, {"gathered": lambda s, right, logits, labels: right(logits * s.temperature, labels)}, {"temperature": 0.6}),  # marin#1741
    Fault("engine never given weights", "GEN002", EVERY, started(FrozenEngine), two=False),
    Fault("engine keeps its head", "GEN002", "replayed", started(HeadlessEngine), two=False),
    Fault("engine in training mode", "GEN001", "replayed", started(TrainingEngine), {"arch": "gpt2"}, engine_drops),
    Fault("top-p", "GEN004", EVERY, sampled(top_p=0.7)),  # trl#6789
    Fault("top-k", "GEN004", "replayed", sampled(top_k=5)),
    Fault("greedy", "GEN007", PLAIN, sampled(do_sample=False)),
    Fault("temperature of the engine ignored", "GEN007", EVERY, sampled(temperature=1.0), {"temperature": 0.5}),
    Fault("repetition penalty", "TOK006", "replayed looking", sampled(repetition_penalty=1.5)),
    Fault("padded on the right", "PAD004", EVERY, {"padded": right_padded}),
    Fault("engine sees padding", "PAD004", EVERY, {"padded": lambda s, right, rows: (right(rows)[0], torch.ones_like(right(rows)[1]))}),
    # importance
    Fault("log-probabilities one late", "RAT003", "replayed", behaved(lambda b: [0.0, *b[:-1]])),
    Fault("log-probabilities without the end", "RAT003", "replayed", behaved(lambda b: [*b[:-1], 0.0])),
    Fault("log-probabilities of another row", "RAT003", "replayed", {"drawn": others_behaviour}),
    Fault("weight upside down", "RAT007", "replayed", weighed(lambda s, near, b, m: ((b - near) * m).exp().clamp(max=s.cap))),
    Fault("weight of no cap, in probabilities", "RAT003", "replayed", weighed(lambda s, near, b, m: (near.exp() * m + (1 - m))), {}),
    Fault("ratio to the engine and a weight", "RAT007", "replayed", {"weighted": ratio_to_engine}),
    Fault("weight of the row over padding", "PAD002", "replayed", {"weighted": weight_on_all}),
    Fault("near policy is the reference", "RAT003", "replayed", {"old_scores": lambda s, right, p, r: s.reference_scores(p, r)}, {}, nudged),
    Fault("near policy is the new one", "RAT007", "replayed", {"ratio": lambda s, right, new, old: right(new, new.detach())}),
    Fault("old ones shifted", "RAT003", "agent", olds(lambda b: [0.0, *b[:-1]])),
    Fault("old ones without the end", "RAT003", "agent", olds(lambda b: [*b[:-1], 0.0])),
    Fault("old ones in the order of rollouts", "RAT003", "agent", {"packs": in_original_order_olds}),
    Fault("old ones ignored", "RAT007", "agent", {"ratio": lambda s, right, new, old: right(new, new.detach())}),
    # the buffer
    Fault("advantages in another order", "RAT007", "replayed", {"drawn": others_advantages}),
    Fault("buffer of one row", "GEN005", "replayed", {"drawn": one_row_kept}),  # torchtune#2943
    Fault("first half takes the place of the rest", "GEN005", "replayed", {"drawn": first_group_alone}),  # trl#6804
    Fault("fresh ones are thrown away", "STL004", "replayed", {"kept": lambda s, right, e: [x for x in e if s.version - x.version > s.max_lag] or [Episode(x.prompt, x.response, x.behaviour) for x in e]}),
    # what reaches the loss
    Fault("end appended", "GEN005", PLAIN, said(ends_appended)),
    Fault("end lost", "GEN005", PLAIN, said(lambda s, r: [x[:-1] if len(x) > 1 and x[-1] == s.tok.eos_token_id else x for x in r])),
    Fault("responses cut", "GEN005", PLAIN, said(lambda s, r: [x[:4] for x in r])),
    Fault("prompt without its header", "KL006", PLAIN, asked(lambda s, p: p[:-3])),
    Fault("prompt cut on the left", "KL006", "replayed", asked(lambda s, p: p[-14:])),
    Fault("cut one late", "PAD001", PLAIN, {"cut": lambda s, right, tokens, width: right(tokens, width + 1)}),
    # masks
    Fault("mask one late", "PAD002", PLAIN, masked(lambda m: m.roll(1, 1))),  # verl#3287
    Fault("prompt trained", "PAD002", PLAIN, masked(torch.ones_like)),
    Fault("end not trained", "PAD002", PLAIN, masked(without_last)),
    Fault("first token not trained", "PAD002", PLAIN, masked(lambda m: m * m.roll(1, 1))),
    Fault("mean over the width", "PAD002", PLAIN, {"averaged": lambda s, right, x, mask: (x * mask).mean()}),
    Fault("mask ignored", "PAD002", "looking", {"averaged": lambda s, right, x, mask: x.mean()}),
    Fault("labels one early", "PAD002", EVERY, {"gathered": lambda s, right, logits, labels: right(logits, labels.roll(1, -1))}),
    Fault("no attention mask", "PAD004", PLAIN, given(attention_mask=lambda m: None)),
    # turns
    Fault("tool trained", "PAD002", "agent", {"told": tool_as_policy}),
    Fault("marks upside down", "PAD002", "agent", marks(inverted_marks)),  # RAGEN#71
    Fault("first turn alone", "PAD002", "agent", marks(only_first_turn)),
    Fault("last turn alone", "PAD002", "agent", marks(only_last_turn)),
    Fault("no turn's end", "PAD002", "agent", marks(without_ends)),
    Fault("no inner turn's end", "PAD002", "agent", marks(without_inner_ends)),
    Fault("headers of later turns trained", "PAD002", "agent", marks(with_headers)),
    Fault("first tokens of turns not trained", "PAD002", "agent", marks(without_first_tokens)),
    Fault("history through text", "TOK005", "agent", {"context": decoded_again}),  # slime#2263, trl#5144
    Fault("next turn without ends", "TOK005", "agent", {"context": ends_not_shown}),  # verl#3720
    Fault("result without its end", "TOK005", "agent", {"told": truncated_result, "context": with_result}),
    Fault("end of a turn lost", "GEN005", "agent", {"extended": ends_stripped}),
    Fault("answers of other rows", "RAT007", "agent", {"answered": index_lost}),
    # packs
    Fault("positions go on", "PAD004", "agent", {"positions": lambda s, right, pack: list(range(len(right(pack))))}, {"arch": "gpt2"}),
    Fault("samples see each other", "PAD004", "agent", {"segments": lambda s, right, pack: [0] * len(right(pack))}),
    Fault("labels across samples", "PAD002", "agent", {"labelled": boundary}),
    Fault("advantages as they were packed", "RAT007", "agent", {"packs": in_packed_order}),
    Fault("what does not fit is dropped", "RAT007", "agent", {"packs": tail_dropped}),
    Fault("rows cut at a width", "PAD002", "agent", {"row": cut_at_width}),
    Fault("advantages by responses", "RAT007", "agent", {"row": spread_by_response}),
    Fault("reference sees all samples", "KL006", "agent", {"row_reference": reference_unblocked}),
    Fault("each row by its own tokens", "GRD006", "agent", {"totalled": mean_of_rows}),
    Fault("mean over prompts and results", "PAD002", "agent", {"totalled": mean_over_width}),
    # images
    Fault("loss without image", "KL006", "looking", looks(lambda s, model, x: None if torch.is_grad_enabled() else x)),
    Fault("loss and old without image", "KL006", "looking", looks(lambda s, model, x: x if model is s.reference else None)),
    Fault("nothing but the engine has images", "GEN004", "looking", looks(lambda s, model, x: None)),
    Fault("reference without image", "KL006", "looking", of_reference(lambda x: None)),
    Fault("old without image", "RAT003", "looking", without_grad_only(lambda x: None)),
    Fault("images of other rows", "GEN004", "looking", looks(lambda s, model, x: x.flip(0))),
    Fault("policy's images of other rows", "KL006", "looking", looks(lambda s, model, x: x if model is s.reference else x.roll(1, 0))),
    Fault("reference's images tiled", "KL006", "looking", of_reference(tiled)),
    Fault("first image for all in the loss", "GEN004", "looking", looks(lambda s, model, x: x[:1].expand_as(x))),
    Fault("first image for all in the engine", "GEN004", "looking", started(FirstImageEngine)),
    Fault("images scaled twice in the loss", "GEN004", "looking", looks(lambda s, model, x: x / 2)),
    Fault("images scaled twice for the reference", "KL006", "looking", of_reference(lambda x: x / 2)),
    Fault("image tokens trained", "PAD002", "looking", {"batch": images_trained}),
    Fault("placeholder in the loss", "KL006", "looking", asked(not_expanded) | looks(lambda s, model, x: None)),
    Fault("cut at the prompt before its image", "PAD001", "looking", {"cut": cut_before_expansion}),
    Fault("vision alone in the optimizer", "STL004", "looking", {}, {}, head_only, two=False),
    # the objective
    Fault("sign", "RAT007", EVERY, {"surrogate": lambda s, right, r, a: -right(r, a)}),
    Fault("max for min", "RAT007", EVERY, {"surrogate": lambda s, right, r, a: torch.max(r * a, bounded(s, r) * a)}),
    Fault("bounds the other way round", "RAT007", "agent", {"surrogate": lambda s, right, r, a: torch.min(r * a, r.clamp(1 - s.epsilon_high, 1 + s.epsilon) * a)}),
    Fault("clip at a tenth", "RAT007", PLAIN, {"surrogate": lambda s, right, r, a: torch.min(r * a, r.clamp(0.98, 1.02) * a)}),
    Fault("old over new", "RAT007", EVERY, {"surrogate": lambda s, right, r, a: right(1 / r, a)}),
    Fault("KL of the wrong sign", "KL004", EVERY, {"divergence": lambda s, right, new, ref: -right(new, ref)}),
    Fault("reference is the policy", "KL003", PLAIN, {"reference_scores": own_reference}),
    Fault("reference is another model", "KL006", EVERY, {}, {}, nudged),
    Fault("entropy of the wrong sign", "ENT006", PLAIN, {"entropy_term": lambda s, right, e, m: -right(e, m)}, {"entropy": 0.05}),
    Fault("quotient of probabilities", "GRD001", EVERY, QUOTIENT),
    # the update
    Fault("gradients never zeroed", "GRD006", EVERY, {"update": never_zeroed}, two=False),
    Fault("last part alone", "ENT007", EVERY, {"update": last_half_alone}, two=False),
    Fault("trains copies", "STL004", EVERY, {}, {}, trains_copies, two=False),
    Fault("deviation of the batch", "ADV014", PLAIN, {"advantages": batch_deviation}, {}, declares_groups, two=False),
    Fault("not centred", "ADV005", EVERY, {"advantages": uncentred}, two=False),
    Fault("groups interleaved", "ADV006", EVERY, {"advantages": interleaved}, two=False),
)  # fmt: skip


MISSED = frozenset(
    {
        ("weight of no cap, in probabilities", "replayed"),  # the sampler has no say in it
        ("near policy is the new one", "replayed"),
        ("old ones ignored", "agent"),  # a ratio of 1 is right where each rollout is used once
        ("what does not fit is dropped", "agent"),  # four crafted samples fit
        ("each row by its own tokens", "agent"),  # a warning
        ("images scaled twice in the loss", "looking"),  # within what GEN004 and KL006 let pass
        ("images scaled twice for the reference", "looking"),
        ("vision alone in the optimizer", "looking"),
        ("last part alone", "looking"),
    }
)
"""Faults that the probe of their code does not prove to be an error: their name and style."""


def effect(fault: Fault, style: str) -> bool:
    """Return whether a few real steps end with other weights than those of the correct trainer."""
    right: Any = RECENT[style](**fault.options)
    wrong: Any = fault.trainer(style)
    if fault.made is engine_drops:
        engine_drops(right)
    if fault.made in (nudged,) and fault.methods:
        nudged(right)
    one, said = run(right)
    try:
        other, also = run(wrong)
    except (RuntimeError, ValueError):  # the weights are not finite, or shapes do not fit
        return True
    return said != also or float((one - other).abs().max()) > 1e-6


def main(words: Sequence[str]) -> None:
    """Print a line for every fault and style, and the share that was caught with all entry points and with two."""
    torch.set_num_threads(1)
    own, checked = "--own" in words, "--effect" in words
    words = [w for w in words if not w.startswith("--")]
    caught: dict[tuple[str, str], list[bool]] = {}
    for fault in FAULTS:
        for style in fault.styles.split():
            if words and not any(w in (style, fault.code) or w in fault.name for w in words):
                continue
            if checked:
                if not effect(fault, style):
                    print(f"NO EFFECT {style} {fault.name}", flush=True)
                continue
            for names in ((), TWO):
                chosen = load().select([fault.code]) if own else load()
                diagnosis = run_probes(fault.trainer(style).adapter(*names), catalogue=chosen)
                errors = {f.code for f in diagnosis.findings if f.level >= Severity.ERROR}
                kind = "two" if names else "all"
                caught.setdefault((style, kind), []).append(bool(errors))
                others = [f"{f.code}:{f.severity}" for f in diagnosis.findings if f.severity != "info"]
                mark = "" if fault.code in errors else "other" if errors else f"MISSED {diagnosis.verdict}"
                print(f"{style:8} {kind:4} {fault.code} {fault.name:40} {' '.join(others):40} {mark}", flush=True)
    for (style, kind), hits in caught.items():
        print(f"{style} {kind}: {sum(hits)} of {len(hits)} caught at error ({sum(hits) / len(hits):.0%})")


if __name__ == "__main__":
    main(sys.argv[1:])
