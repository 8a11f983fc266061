"""Trainers as they are: missing entry points are derived from the provided ones, and a scripted sampler works with
all."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, ScriptedSampler, Unjudged, run_probes
from grpo_doctor.probes.generations import scripted_generate
from tests.probes.open_notes import open_notes
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left, Scores, make_tokenizer

PLUMBING = ("PAD", "GEN005", "KL006", "RAT007", "STL004", "ENT007", "TOK005")


def probed(adapter: Adapter, *codes: str) -> Diagnosis:
    torch.set_num_threads(1)
    return run_probes(adapter, catalogue=load().select(codes or PLUMBING))


def of(trainer: Left, **seams: Callable[..., Any]) -> Adapter:
    whole = trainer.adapter("rollout")
    whole.seams.update(seams)
    return whole


def passed(diagnosis: Diagnosis) -> set[str]:
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert open_notes(diagnosis) == []
    return set(diagnosis.coverage.passed_codes)


# -- only a step, or only a backward -------------------------------------------------------------------------------


class Stepping(Left):
    """Has only a whole update: zero_grad, backward, clipping, step, zero_grad."""

    clip = 0.1

    def update(self, prompts: Any, responses: Any, advantages: Tensor) -> float:
        self.optimizer.zero_grad()
        loss = self.loss(prompts, responses, advantages)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def leave(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        self.loss(prompts, responses, advantages).backward()  # type: ignore[no-untyped-call]


class MaskLate(Stepping):
    def batch(self, prompts: Any, responses: Any) -> tuple[Tensor, Tensor, Tensor]:
        ids, real, mask = super().batch(prompts, responses)
        return ids, real, mask * mask.roll(1, 1)


@pytest.mark.parametrize("seam", ["step", "backward"])
def test_a_combined_function_is_proven_like_its_parts(seam: str) -> None:
    right, faulty = Stepping(), MaskLate()
    given = {"step": "update", "backward": "leave"}[seam]
    codes = ("PAD002", "RAT007", "STL004")
    assert set(codes) == passed(probed(of(right, **{seam: getattr(right, given)}), *codes))
    before = [p.detach().clone() for p in faulty.model.parameters()]
    found = probed(of(faulty, **{seam: getattr(faulty, given)}), "PAD002").findings
    assert [f.code for f in found] == ["PAD002"]
    assert all(torch.equal(a, b) for a, b in zip(before, faulty.model.parameters(), strict=True))


def test_a_trainer_with_only_a_step_has_no_entropy_term_by_its_clipping() -> None:
    trainer = Stepping()
    diagnosis = probed(of(trainer, step=trainer.update), "ENT", "ENT011")
    assert [f.message for f in diagnosis.findings] == []


# -- custom models and loops -----------------------------------------------------------------------------------------


class Own(torch.nn.Module):
    """A model that is not from transformers: a plain forward for training, `inference` with state for sampling."""

    def __init__(self, size: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(vocab_size=size)
        self.embed = torch.nn.Embedding(size, 16)
        self.cell = torch.nn.GRU(16, 16, batch_first=True)
        self.head = torch.nn.Linear(16, size)
        self.state: Tensor | None = None

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.cell(self.embed(tokens) * 4)[0]) * 4

    def inference(self, tokens: Tensor, start: int) -> Any:
        hidden, self.state = self.cell(self.embed(tokens) * 4, None if start == 0 else self.state)
        return self.head(hidden[:, -1:]) * 4


class Loops:
    """Starts generation at the end of the shortest prompt, with padding on the right, and forces the rest of the longer
    prompts."""

    def __init__(self) -> None:
        self.tok = make_tokenizer()
        self.model = Own(len(self.tok))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def render(self, prompt: Any) -> list[int]:
        return list(self.tok.apply_chat_template(prompt, tokenize=True, add_generation_prompt=True)["input_ids"])

    @torch.no_grad()
    def rollout(self, prompts: Any) -> list[list[int]]:
        rows, end, pad = [self.render(p) for p in prompts], self.tok.eos_token_id, self.tok.pad_token_id
        total = max(map(len, rows)) + 12
        tokens = torch.tensor([r + [pad] * (total - len(r)) for r in rows])
        given = tokens != pad
        done = torch.zeros(len(rows), dtype=torch.bool)
        before = 0
        for now in range(min(map(len, rows)), total):
            logits = self.model.inference(tokens[:, before:now], before)[:, -1]
            new = torch.multinomial(logits.softmax(-1), 1)[:, 0]
            new = torch.where(given[:, now], tokens[:, now], new)
            tokens[:, now] = torch.where(done, pad, new)
            done |= (new == end) & ~given[:, now]
            before = now
        said = [row[len(r) :].tolist() for row, r in zip(tokens, rows, strict=True)]
        return [s[: s.index(pad)] if pad in s else s for s in said]

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        rows, pad = [self.render(p) for p in prompts], self.tok.pad_token_id
        whole = [[*p, *r] for p, r in zip(rows, responses, strict=True)]
        width = max(map(len, whole))
        ids = torch.tensor([w + [pad] * (width - len(w)) for w in whole])
        mask = torch.zeros_like(ids)
        for n, (p, r) in enumerate(zip(rows, responses, strict=True)):
            mask[n, len(p) : len(p) + len(r)] = 1
        logp = self.model(ids[:, :-1]).log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        used = self.used(mask[:, 1:])
        loss: Tensor = -(logp * advantages[:, None] * used).sum() / used.sum()
        return loss

    def used(self, mask: Tensor) -> Tensor:
        return mask

    def adapter(self) -> Adapter:
        return Adapter(
            model=self.model, tokenizer=self.tok, optimizer=self.optimizer, prompts=PROMPTS,
            settings={"temperature": 1.0, "entropy_coef": 0.0, "kl_coef": 0.0},
            seams={"rollout": self.rollout, "loss": self.loss},
        )  # fmt: skip


class ForgetsTheEnd(Loops):
    """Looks the same as an end token that never reaches the loss: the model does not get it either."""

    def used(self, mask: Tensor) -> Tensor:
        return mask * torch.nn.functional.pad(mask, (0, 1))[:, 1:]


class CutsTooEarly(Loops):
    def rollout(self, prompts: Any) -> list[list[int]]:
        return [row[1:] for row in super().rollout(prompts)]


class TakesTwice(Loops):
    """Draws row by row without a cache, and scores each row once more for the log-probability of the drawn tokens."""

    @torch.no_grad()
    def rollout(self, prompts: Any) -> list[list[int]]:
        said: list[list[int]] = []
        for prompt in prompts:
            begun = self.render(prompt)
            ids = torch.tensor([begun])
            while ids.shape[1] < len(begun) + 12 and (
                ids.shape[1] == len(begun) or ids[0, -1] != self.tok.eos_token_id
            ):
                new = torch.multinomial(self.model(ids)[:, -1].softmax(-1), 1)
                self.model(ids)[:, -1].log_softmax(-1).gather(-1, new)
                ids = torch.cat([ids, new], 1)
            said.append(ids[0, len(begun) :].tolist())
        return said


class TakesTwiceAndCuts(TakesTwice):
    def rollout(self, prompts: Any) -> list[list[int]]:
        return [row[1:] for row in super().rollout(prompts)]


def test_a_loop_that_asks_the_model_twice_for_a_token_is_given_one() -> None:
    assert {"PAD001", "GEN005"} <= passed(probed(TakesTwice().adapter(), "PAD001", "GEN005"))
    assert [f.code for f in probed(TakesTwiceAndCuts().adapter(), "PAD001").findings] == ["PAD001"]


@pytest.mark.parametrize(
    "responses",
    [
        [[5], [6], [7, 8]],  # asked twice for a response of one token, which is a group's first and last
        [[6, 7], [5, 6, 7]],
        [[5, 6], [5], [8]],
    ],
)
def test_a_loop_that_requests_twice_is_recognised_by_its_input(responses: list[list[int]]) -> None:
    one = TakesTwice()
    with scripted_generate(one.model, responses, one.tok.pad_token_id, one.tok.eos_token_id) as calls:
        said = one.rollout([PROMPTS[0]] * len(responses))
    assert said == [[*row, one.tok.eos_token_id] for row in responses]
    assert [call.served for call in calls] == [[row] for row in responses]


def test_a_model_and_a_loop_of_ones_own_are_seen() -> None:
    assert {"PAD001", "PAD002", "PAD004", "RAT007", "GEN005"} <= passed(probed(Loops().adapter()))


@pytest.mark.parametrize(("kind", "code"), [(ForgetsTheEnd, "PAD002"), (CutsTooEarly, "PAD001")])
def test_a_faulty_custom_model_is_flagged(kind: type[Loops], code: str) -> None:
    assert [f.code for f in probed(kind().adapter(), code).findings] == [code]


class Keeps(Own):
    """If it gets labels, it returns only their losses, one per token, and no logits."""

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Any:
        logits = super().forward(tokens)
        if labels is None:
            return logits
        return torch.nn.functional.cross_entropy(
            logits.view(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-1, reduction="none"
        )


class Labelled(Loops):
    """Pads with the end token, passes the labels to its model, and has no separate logits."""

    def __init__(self, model: Any = Keeps) -> None:
        super().__init__()
        self.model = model(len(self.tok))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        rows, end = [self.render(p) for p in prompts], self.tok.eos_token_id
        whole = [[*p, *r] for p, r in zip(rows, responses, strict=True)]
        width = max(map(len, whole))
        ids = torch.tensor([w + [end] * (width - len(w)) for w in whole])
        labels = ids[:, 1:].clone()
        for n, (p, r) in enumerate(zip(rows, responses, strict=True)):
            labels[n, : self.first(len(p))] = -1
            labels[n, len(p) + len(r) - 1 :] = -1
        logp = -self.model(ids[:, :-1], labels).view(labels.shape)
        loss: Tensor = -(logp * advantages[:, None]).sum() / (labels >= 0).sum()
        return loss

    def first(self, prompt: int) -> int:
        return prompt - 1


class LabelsThePrompt(Labelled):
    def first(self, prompt: int) -> int:
        return prompt - 2


def fused(logits: Tensor, labels: Tensor) -> Tensor:
    """Works like a kernel that a probe cannot inspect."""
    return -logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1) * (labels >= 0)


class Hides(Own):
    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Any:
        return super().forward(tokens) if labels is None else fused(super().forward(tokens), labels)


def test_intercepts_logits_that_a_model_passes_only_to_its_loss() -> None:
    assert {"PAD002", "PAD004", "RAT007", "GEN005"} <= passed(probed(Labelled().adapter()))
    assert [f.code for f in probed(LabelsThePrompt().adapter(), "PAD002").findings] == ["PAD002"]


def test_a_loss_with_hidden_logits_is_not_proven_by_the_other_parts() -> None:
    diagnosis = run_probes(Labelled(Hides).adapter())
    assert diagnosis.verdict == "unproven"
    assert (
        "could not be judged: the loss mask (PAD002: loss makes no forward pass of the adapter's model"
        in diagnosis.headline
    )


# -- a penalty that is weighted by the ratio -----------------------------------------------------------------------


class Weighted(Left):
    """Corrects the k3 estimate for samples of the old policy, as in the DeepSeek-V3.2 report."""

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        ratio = self.ratio(new.logprobs, old)
        per_token = self.kl_coef * ratio * self.divergence(new.logprobs, reference) - self.surrogate(ratio, advantages)
        return self.averaged(per_token, new.mask)


class WeightedAgainstItself(Weighted):
    def reference_scores(self, prompts: Any, responses: Any) -> Tensor:
        with torch.no_grad():
            return self.scores(self.model, prompts, responses).logprobs


@pytest.mark.parametrize("options", [{}, {"lora": "plain"}], ids=["a reference", "LoRA"])
def test_an_old_policy_that_acts_on_the_penalty_is_not_taken_for_the_reference(options: dict[str, Any]) -> None:
    assert "KL003" in passed(probed(Weighted(**options).adapter("rollout", "loss"), "KL003", "RAT003"))
    found = probed(WeightedAgainstItself(**options).adapter("rollout", "loss"), "KL003").findings
    assert [f.code for f in found] == ["KL003"]


# -- other results of generation ----------------------------------------------------------------------------------


class OldFromGeneration(Left):
    """Takes the old log-probabilities from the logits that generation returns, as sums over the response."""

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        parts = []
        for prompt, response, advantage in zip(prompts, responses, advantages, strict=True):
            given, model = torch.tensor([self.render(prompt)]), self.inner
            with ScriptedSampler(self.tok, self.model).saying([response]), torch.no_grad():
                out = model.generate(given, do_sample=True, output_logits=True, return_dict_in_generate=True)
            said = out.sequences[0, given.shape[1] :]
            old = torch.stack(out.logits).squeeze(1).log_softmax(-1)[torch.arange(len(said)), said].sum()
            new = model(out.sequences).logits[0, given.shape[1] - 1 : -1].log_softmax(-1)
            ratio = (new[torch.arange(len(said)), said].sum() - old).exp()
            parts.append(torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage))
        return -torch.stack(parts).mean()


def test_logits_of_a_scripted_generation_are_the_models_own() -> None:
    trainer = OldFromGeneration()
    assert {"PAD002", "RAT007"} <= passed(probed(of(trainer, loss=trainer.loss), "PAD002", "RAT007"))


# -- a mask without a token ----------------------------------------------------------------------------------------


class DividesByNothing(Left):
    """Excludes the end token, so a response with only an end token has a mean over no tokens."""

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        gain = (new.logprobs - old).exp() * advantages
        return -((gain * new.mask).sum(-1) / new.mask.sum(-1)).mean()

    def batch(self, prompts: Any, responses: Any) -> tuple[Tensor, Tensor, Tensor]:
        ids, real, mask = super().batch(prompts, responses)
        return ids, real, mask * (ids != self.tok.eos_token_id)


def test_a_loss_that_is_nan_for_an_empty_mask_is_named_by_what_the_mask_leaves_out() -> None:
    found = probed(DividesByNothing().adapter("rollout", "loss"), "PAD002").findings
    assert [f.code for f in found] == ["PAD002"]
    assert found[0].evidence["last"] > 0


# -- an engine in place of a model ---------------------------------------------------------------------------------


class Engine(Left):
    """Samples with an engine that has vLLM's interface."""

    lost = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.llm = ScriptedSampler(self.tok)

    def rollout(self, prompts: Any) -> list[list[int]]:
        rows = [{"prompt_token_ids": self.render(p)} for p in prompts]
        return [r.outputs[0].token_ids[self.lost :] for r in self.llm.generate(rows, SimpleNamespace(n=1))]


class EngineCut(Engine):
    lost = 1


def test_a_scripted_sampler_replaces_the_engine() -> None:
    assert "PAD001" in passed(probed(Engine().adapter("rollout", "loss"), "PAD001", "PAD002", "PAD004"))
    assert [f.code for f in probed(EngineCut().adapter("rollout", "loss"), "PAD001").findings] == ["PAD001"]


def test_a_scripted_sampler_has_the_interface_of_vllm() -> None:
    tok = make_tokenizer()
    sampler = ScriptedSampler(tok)
    said = [tok.encode("ab"), [*tok.encode("c"), tok.eos_token_id]]
    with sampler.saying(said):
        one, two = sampler.generate(["x", {"prompt": "yz"}])
        (many,) = sampler.chat([{"role": "user", "content": "hi"}], SimpleNamespace(n=2))
    assert [one.outputs[0].text, two.outputs[0].text] == ["ab", "c"]
    assert [o.finish_reason for o in (one.outputs[0], two.outputs[0])] == ["length", "stop"]
    assert (one.prompt, two.prompt_token_ids) == ("x", tok.encode("yz"))
    assert [(o.index, o.token_ids) for o in many.outputs] == [(0, said[0]), (1, said[1])]
    with pytest.raises(Unjudged, match="saying"):
        sampler.generate(["x"])
