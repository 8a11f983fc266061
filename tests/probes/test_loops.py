"""Trainers with a custom sampling loop that stores its draws: truncated rows, old scores, and padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, ScriptedSampler, run_probes
from grpo_doctor.probes.crafted_inputs import complete
from tests.probes.broken_reference import TrainMode
from tests.probes.reference import PROMPTS, Reference

LIMIT = 14


class Looping(Reference):
    """Samples token by token, scores the draws with the old policy, and builds its batch from both."""

    side = "left"

    def padded(self, rows: list[list[int]], side: str) -> tuple[Tensor, Tensor]:
        width, pad = max(map(len, rows)), self.tok.pad_token_id
        filled = [([pad] * (width - len(r)), [0] * (width - len(r))) for r in rows]
        ids = [f + r if side == "left" else r + f for (f, _), r in zip(filled, rows, strict=True)]
        real = [
            f + [1] * len(r) if side == "left" else [1] * len(r) + f for (_, f), r in zip(filled, rows, strict=True)
        ]
        return torch.tensor(ids), torch.tensor(real)

    def next_logits(self, ids: Tensor, real: Tensor) -> Any:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        return self.model(input_ids=ids, attention_mask=real, position_ids=position).logits[:, -1]

    @torch.no_grad()
    def drawn(self, prompts: Any) -> tuple[list[list[int]], list[list[int]], list[Tensor]]:
        """Return ids of the prompts, ids of the responses, and the old log-probabilities."""
        self.model.eval()
        rows, end = [self.render(p) for p in prompts], self.tok.eos_token_id
        ids, real = self.padded(rows, self.side)
        said: list[list[int]] = [[] for _ in rows]
        for _ in range(LIMIT):
            new = torch.multinomial(self.next_logits(ids, real).softmax(-1), 1)
            for row, token in zip(said, new[:, 0].tolist(), strict=True):
                if not row or row[-1] != end:
                    row.append(token)
            ids, real = torch.cat([ids, new], 1), torch.cat([real, torch.ones_like(new)], 1)
            if all(row[-1] == end for row in said):
                break
        return rows, said, [self.scored(r, s).detach() for r, s in zip(rows, said, strict=True)]

    def scored(self, prompt: list[int], response: list[int]) -> Tensor:
        ids = torch.tensor([[*prompt, *response]])
        return self.scores(self.model, ids, torch.ones_like(ids))[0][0, len(prompt) - 1 :]

    def rollout(self, prompts: Any) -> Any:
        return self.drawn(prompts)[1]

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        with ScriptedSampler(self.tok, self.model).saying(responses):
            rows, said, olds = self.drawn(prompts)
        parts = []
        for prompt, response, old, advantage in zip(rows, said, olds, advantages, strict=True):
            ratio = (self.scored(prompt, response) - old).exp()
            parts.append(-self.surrogate(ratio[None], advantage[None, None])[0])
        return torch.cat(parts).mean()

    def adapter(self, *names: str, **more: Any) -> Adapter:
        found = super().adapter("rollout", "loss", **more)
        found.settings = {"temperature": 1.0, "kl_coef": 0.0, "entropy_coef": 0.0}
        return found


class RightPadded(Looping):
    """Pads on the right, and continues from each prompt's last token; sampled tokens follow the padding."""

    side = "right"

    def next_logits(self, ids: Tensor, real: Tensor) -> Any:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        logits = self.model(input_ids=ids, attention_mask=real, position_ids=position).logits
        last = (real * torch.arange(real.shape[1])).argmax(-1)
        return logits[torch.arange(len(ids)), last]


class ReadsPadding(Looping):
    """Pads on the right, and continues from the padding."""

    side = "right"


class ScoresOtherText(Looping):
    """Loses the last token that was drawn."""

    def drawn(self, prompts: Any) -> Any:
        rows, said, olds = super().drawn(prompts)
        return rows, [s[:-1] or s for s in said], [o[:-1] if len(o) > 1 else o for o in olds]


def probed(kind: type[Reference], *codes: str) -> Diagnosis:
    torch.set_num_threads(1)
    return run_probes(kind().adapter(), catalogue=load().select(codes) if codes else load())


@pytest.mark.parametrize("kind", [Looping, RightPadded])
def test_a_right_loop_is_not_flagged(kind: type[Looping]) -> None:
    diagnosis = probed(kind, "GEN005", "PAD002", "PAD003", "PAD004", "KL006", "TOK005")
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert {"GEN005", "PAD002", "PAD004", "KL006"} <= set(diagnosis.coverage.passed_codes)


def test_a_loop_that_continues_from_padding_is_flagged() -> None:
    (found,) = probed(ReadsPadding, "PAD004").findings
    assert found.message == "2 of 3 prompts are padded on the right, so generation continues after the padding."


def test_a_loop_that_loses_a_token_is_named() -> None:
    assert {f.code for f in probed(ScoresOtherText, "GEN005").findings} == {"GEN005"}


def test_prompts_are_of_unequal_length() -> None:
    assert len({len(Reference().render(p)) for p in PROMPTS}) == len(PROMPTS)


# what other kinds of trainers have taught ---------------------------------------------------------------------------


class K1(Reference):
    """The penalty to the reference is the difference of log-probabilities, whose gradient does not depend on the
    reference."""

    def divergence(self, logp: Tensor, reference: Tensor) -> Tensor:
        return logp - reference


class AdaptiveK1(K1):
    """Its coefficient changes with every loss, as with a KL controller."""

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        self.kl_coef *= 0.999
        return super().loss(prompts, responses, advantages)


@pytest.mark.parametrize(("kind", "fires"), [(Reference, False), (K1, True), (AdaptiveK1, True)])
def test_k1_in_the_loss_is_not_a_term_of_entropy(kind: type[Reference], fires: bool) -> None:
    trainer = kind()
    trainer.entropy_coef = 0.0
    adapter = trainer.adapter()
    adapter.settings = {"temperature": 1.0, "kl_coef": trainer.kl_coef}
    found = run_probes(adapter, catalogue=load().select(["KL005", "ENT011"])).findings
    assert [(f.code, f.severity) for f in found] == [("KL005", "warning")] * fires


class LeavesModes(TrainMode):
    """Samples in the current mode of the model, with checkpointing on, and never sets train mode."""

    trains = False

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        self.model.train(self.trains)
        return super().loss(prompts, responses, advantages)


class Trains(LeavesModes):
    trains = True


@pytest.mark.parametrize(("kind", "severity"), [(LeavesModes, "warning"), (Trains, "critical")])
def test_a_mode_that_no_update_has_shown_is_a_warning(kind: type[Reference], severity: str) -> None:
    (found,) = run_probes(kind().adapter("rollout", "loss"), catalogue=load().select(["GEN001"])).findings
    assert found.severity == severity
    assert (found.message.startswith("If an update leaves the model in train mode, ")) == (severity == "warning")


class OwnPadding:
    """A custom tokenizer whose padding id is an attribute."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.eos_token_id, self.pad_token_id = inner, inner.eos_token_id, inner.pad_token_id

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text, add_special_tokens=False))

    def decode(self, ids: list[int]) -> str:
        return str(self.inner.decode(ids))


def test_changes_and_restores_the_padding_of_a_custom_tokenizer() -> None:
    trainer = Reference()
    own = OwnPadding(trainer.tok)
    trainer.tok = type("Both", (), {"__getattr__": lambda s, n: getattr(own, n, None) or getattr(own.inner, n)})()
    seen: list[int] = []

    def mask(prompts: Any, responses: Any) -> Any:
        seen.append(own.pad_token_id)
        return trainer.mask(prompts, responses)

    adapter = trainer.adapter("render", mask=mask)
    adapter.tokenizer, native = own, own.pad_token_id
    run_probes(adapter, catalogue=load().select(["PAD003"]))
    assert own.eos_token_id in seen
    assert own.pad_token_id == native


class Anchored(Looping):
    """Adds the KL to the reference: finished rows remain in its loop, so its forward passes contain their responses."""

    kl_coef = 0.1

    def anchor(self) -> Any:
        return self.reference

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        value, parts = super().loss(prompts, responses, advantages), []
        for prompt, response in zip(prompts, responses, strict=True):
            ids = torch.tensor([[*self.render(prompt), *response]])
            with torch.no_grad():
                anchor = self.scores(self.anchor(), ids, torch.ones_like(ids))[0][0, -len(response) :]
            parts.append(self.divergence(self.scored(self.render(prompt), response), anchor).mean())
        return value + self.kl_coef * torch.stack(parts).mean()

    def adapter(self, *names: str, **more: Any) -> Adapter:
        found = super().adapter(*names, **more)
        found.settings = {"temperature": 1.0, "kl_coef": self.kl_coef, "entropy_coef": 0.0}
        return found


class AnchoredToItself(Anchored):
    def anchor(self) -> Any:
        return self.model


@pytest.mark.parametrize(("kind", "fires"), [(Anchored, False), (AnchoredToItself, True)])
def test_the_reference_is_distinguished_from_the_forwards_of_a_sampling_loop(kind: type[Looping], fires: bool) -> None:
    diagnosis = probed(kind, "KL003")
    assert [f.code for f in diagnosis.findings] == ["KL003"] * fires
    assert diagnosis.coverage.passed_codes == ["KL003"] * (not fires)


class ReturnsText(Looping):
    """Its rollout returns decoded texts, from tokens drawn at the loss's temperature."""

    sampler_temperature = 1.0

    def next_logits(self, ids: Tensor, real: Tensor) -> Any:
        return super().next_logits(ids, real) / self.sampler_temperature

    def rollout(self, prompts: Any) -> Any:
        return [self.tok.decode(said, skip_special_tokens=True) for said in self.drawn(prompts)[1]]


class ReturnsColderText(ReturnsText):
    sampler_temperature = 0.5


@pytest.mark.parametrize(("kind", "fires"), [(ReturnsText, False), (ReturnsColderText, True)])
def test_the_sampler_of_a_loop_whose_rollout_returns_text_is_measured(kind: type[Looping], fires: bool) -> None:
    diagnosis = probed(kind, "GEN004")
    said = ["The sampler uses a temperature of 0.5, but the loss uses 1."]
    assert [f.message for f in diagnosis.findings] == said * fires
    assert diagnosis.coverage.passed_codes == ["GEN004"] * (not fires)


class Together(Anchored):
    """Every row goes on until the last one has ended, and the policy's filter makes the draws unforceable."""

    def next_logits(self, ids: Tensor, real: Tensor) -> Any:
        logits = super().next_logits(ids, real)
        return logits.masked_fill(logits < logits.topk(2).values[:, -1:], -torch.inf)

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        with ScriptedSampler(self.tok, self.model).saying(responses):
            rows, said, _ = self.drawn(prompts)
            longest, end = max(map(len, said)), self.tok.eos_token_id
            filled = [[*r, *s, *[end] * (longest - len(s))] for r, s in zip(rows, said, strict=True)]
            ids, real = self.padded(filled, "right")
            with torch.no_grad():
                anchor = self.scores(self.reference, ids, real)[0]
        new, mask = self.scores(self.model, ids, real)[0], torch.zeros(len(ids), ids.shape[1] - 1)
        for n, (row, one) in enumerate(zip(rows, said, strict=True)):
            mask[n, len(row) - 1 : len(row) - 1 + len(one)] = 1
        ratio = (new - new.detach()).exp()
        return self.averaged(-ratio * advantages[:, None] + self.kl_coef * self.divergence(new, anchor), mask)


def test_the_reference_keeps_its_logits_on_rows_padded_with_end_tokens() -> None:
    diagnosis = probed(Together, "GRD001", "KL003")
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert "KL003" in diagnosis.coverage.passed_codes


def test_prompts_of_one_length_leave_only_padding_open() -> None:
    adapter = Reference().adapter("rollout", "loss")
    adapter.prompts = [PROMPTS[0]] * 2
    diagnosis = run_probes(adapter, catalogue=load().select(["GEN005", "PAD001", "PAD002", "PAD004"]))
    assert (diagnosis.findings, diagnosis.coverage.passed_codes) == ([], ["GEN005", "PAD002"])
    assert diagnosis.headline == (
        "No defect was found, but these properties could not be judged: padding (PAD001: all prompts of the "
        "adapter have the same length; add a prompt of a different length). All probed properties hold (2)."
    )


@pytest.mark.parametrize(("eos", "lengths"), [(99, [3, 5, 2]), (None, [5, 5, 5])])
def test_responses_without_an_end_token_are_as_long_as_the_longest(eos: int | None, lengths: list[int]) -> None:
    made = complete(list(range(20)), (3, 5, 2), eos)
    assert [len(row) for row in made] == lengths
    assert {row[-1] == 99 for row in made} == {eos is not None}
