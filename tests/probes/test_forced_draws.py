"""Sampling loops and engines whose draws are scripted: the old log-probabilities that they store are judged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import ScriptedSampler, run_probes
from grpo_doctor.probes.generations import scripted_generate
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left

Draw = Callable[[Tensor], Tensor]


def by_probability(logits: Tensor) -> Tensor:
    return torch.multinomial(logits.softmax(-1), 1)


def by_distribution(logits: Tensor) -> Tensor:
    distribution: Any = torch.distributions.Categorical
    drawn: Tensor = distribution(logits=logits).sample()
    return drawn[:, None]


def by_noise(logits: Tensor) -> Tensor:
    return (logits - (-torch.rand_like(logits).log()).log()).argmax(-1, keepdim=True)


def after_a_sort(logits: Tensor) -> Tensor:
    """Nucleus sampling: draws from weights that are sorted by size."""
    weights, order = logits.softmax(-1).sort(descending=True)
    weights = weights.masked_fill(weights.cumsum(-1) - weights > 0.9999, 0.0)
    return order.gather(-1, weights.multinomial(1))


def of_the_best(logits: Tensor) -> Tensor:
    best = logits.topk(logits.shape[-1] - 4)
    return best.indices.gather(-1, torch.multinomial(best.values.softmax(-1), 1))


def by_quantile(logits: Tensor) -> Tensor:
    """Draws in a way that cannot be forced."""
    table = logits.softmax(-1).cumsum(-1)
    return torch.searchsorted(table, torch.rand(len(logits), 1)).clamp(max=logits.shape[-1] - 1)


WAYS = [by_probability, by_distribution, by_noise, after_a_sort, of_the_best]


class Loop(Left):
    """Draws token by token, and stores the log-probabilities of the draws as the old ones."""

    draw: Draw = staticmethod(by_probability)

    def sampled(self, prompts: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
        said: list[list[int]] = []
        kept: list[list[float]] = []
        for prompt in prompts:
            ids = torch.tensor([prompt])
            own: list[int] = []
            scores: list[float] = []
            while len(own) < 16 and (not own or own[-1] != self.tok.eos_token_id):
                logits = self.model(input_ids=ids).logits[:, -1].float() / self.temperature
                new = type(self).draw(logits)
                scores.append(float(logits.log_softmax(-1).gather(-1, new)))
                own.append(int(new))
                ids = torch.cat([ids, new], 1)
            said.append(own)
            kept.append(scores)
        return said, kept

    @torch.no_grad()
    def generate(self, rows: list[list[int]]) -> list[list[int]]:
        return self.sampled(rows)[0]

    def as_old(self, kept: list[list[float]]) -> list[list[float]]:
        return kept

    @torch.no_grad()
    def loss_batch(self, prompts: Any, responses: Any) -> tuple[list[list[int]], list[list[float]]]:
        with ScriptedSampler(self.tok, self.model).saying(responses):
            return self.sampled(prompts)

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        rows = [self.render(p) for p in prompts]
        said, kept = self.loss_batch(rows, responses)
        new = self.scores(self.model, rows, said)
        flat = torch.tensor([value for row in self.as_old(kept) for value in row])
        old = torch.zeros(new.mask.shape).masked_scatter(new.mask > 0, flat)
        reference = self.reference_scores(rows, said)
        return self.objective(new, old, reference, advantages[:, None].expand(new.mask.shape))


class Engine(Loop):
    """The same with an engine that has the interface of vLLM."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.llm = ScriptedSampler(self.tok, self.model)

    def sampled(self, prompts: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
        asked = SimpleNamespace(n=1, temperature=self.temperature, logprobs=0)
        found = [r.outputs[0] for r in self.llm.generate([{"prompt_token_ids": p} for p in prompts], asked)]
        scores = [[one[i].logprob for one, i in zip(o.logprobs, o.token_ids, strict=True)] for o in found]
        return [o.token_ids for o in found], scores


def old_over_new(s: Any, ratio: Tensor, advantages: Tensor) -> Tensor:
    return Left.surrogate(s, 1 / ratio, advantages)


def larger(s: Any, ratio: Tensor, advantages: Tensor) -> Tensor:
    return torch.max(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


def clip_alone(s: Any, ratio: Tensor, advantages: Tensor) -> Tensor:
    return ratio.clamp(0.8, 1.2) * advantages


def around_zero(s: Any, ratio: Tensor, advantages: Tensor) -> Tensor:
    return torch.min(ratio * advantages, ratio.clamp(-0.2, 0.2) * advantages)


def lost_sign(s: Any, ratio: Tensor, advantages: Tensor) -> Tensor:
    return Left.surrogate(s, ratio, -advantages)


def one_late(s: Any, kept: list[list[float]]) -> list[list[float]]:
    return [[0.0, *row[:-1]] for row in kept]


def in_another_order(s: Any, kept: list[list[float]]) -> list[list[float]]:
    flat = [value for row in kept[::-1] for value in row]
    return [flat]


WRONG: list[tuple[str, Callable[..., Any], str]] = [
    ("surrogate", old_over_new, "RAT007"),
    ("surrogate", larger, "RAT007"),
    ("surrogate", clip_alone, "RAT007"),
    ("surrogate", around_zero, "RAT007"),
    ("surrogate", lost_sign, "RAT007"),
    ("as_old", one_late, "RAT003"),
    ("as_old", in_another_order, "RAT003"),
]


def probed(trainer: Left, *codes: str) -> Diagnosis:
    torch.set_num_threads(1)
    return run_probes(trainer.adapter("rollout", "loss"), catalogue=load().select(codes))


@pytest.mark.parametrize("draw", WAYS)
def test_a_loop_draws_the_scripted_tokens_from_its_own_logits(draw: Draw) -> None:
    trainer: Any = type("Drawn", (Loop,), {"draw": staticmethod(draw)})()
    end = trainer.tok.eos_token_id
    wanted = [[*trainer.tok.encode("abc"), end], [*trainer.tok.encode("z"), end]]
    rows = [trainer.render(p) for p in PROMPTS[:2]]
    with torch.no_grad(), scripted_generate(trainer.model, wanted, trainer.pad, end):
        said, kept = trainer.sampled(rows)
    assert said == wanted
    for prompt, response, scores in zip(rows, said, kept, strict=True):
        found = trainer.scores(trainer.model, [prompt], [response])
        assert scores == pytest.approx(found.logprobs[found.mask > 0].tolist(), abs=1e-4)


@pytest.mark.parametrize("trainer", [Loop(temperature=0.7), Engine()])
def test_old_log_probabilities_stored_by_a_sampler_are_judged(trainer: Left) -> None:
    codes = {"RAT003", "RAT007", "PAD002", "GEN005", "KL006", "PAD001"}
    diagnosis = probed(trainer, *codes)
    assert [f.message for f in diagnosis.findings if f.severity != "info"] == []
    assert {"RAT007", "PAD002", "GEN005", "KL006", "PAD001"} <= set(diagnosis.coverage.passed_codes)


@pytest.mark.parametrize(
    ("kind", "method", "change", "code"),
    [(kind, *wrong) for kind, wrong in zip(cycle((Loop, Engine)), WRONG, strict=False)],
    ids=[change.__name__ for _, change, _ in WRONG],
)
def test_names_the_fault_of_stored_log_probabilities(
    kind: type[Loop], method: str, change: Callable[..., Any], code: str
) -> None:
    wrong: Any = type("Wrong", (kind,), {method: change})()
    assert [(f.code, f.severity in ("error", "critical")) for f in probed(wrong, code).findings] == [(code, True)]


def test_a_loop_with_an_unknown_sampler_is_unproven() -> None:
    trainer: Any = type("Drawn", (Loop,), {"draw": staticmethod(by_quantile)})()
    diagnosis = probed(trainer, "PAD001", "GEN005", "RAT007")
    assert diagnosis.findings == []
    assert {"PAD001", "GEN005"} <= set(diagnosis.coverage.passed_codes)
    assert "the probe cannot choose the tokens" in str(diagnosis.coverage.skipped)
    assert diagnosis.verdict == "unproven"
    assert "could not be judged: ratio and clip (RAT007: " in diagnosis.headline


def test_another_property_that_was_withheld_is_named_in_the_sentence() -> None:
    diagnosis = probed(Engine(), "PAD001", "GEN002", "STL005")
    assert diagnosis.verdict == "healthy"
    assert diagnosis.headline.endswith("hold. Not judged: GEN002 stale-rollout-weights.")


def test_a_scripted_engine_counts_the_versions_of_its_weights() -> None:
    trainer = Engine()
    with trainer.llm.saying([[5]]):
        (first,) = trainer.llm.generate(["x"])
        trainer.llm.update_weights(trainer.model.state_dict())
        (second,) = trainer.llm.generate(["x"], {"temperature": 0.5, "n": 1})
    assert (first.weight_version, second.weight_version) == (0, 1)
    assert first.outputs[0].logprobs[0][5].rank == second.outputs[0].logprobs[0][5].rank
    assert first.outputs[0].cumulative_logprob != second.outputs[0].cumulative_logprob


def test_an_engine_without_a_model_reports_that_log_probabilities_need_one() -> None:
    sampler = ScriptedSampler(Left().tok)
    with sampler.saying([[5]]):
        (found,) = sampler.generate(["x"])
    with pytest.raises(Exception, match="pass the adapter's model to the scripted sampler"):
        _ = found.outputs[0].logprobs
