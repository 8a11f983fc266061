"""The entry points of the engine against float64, finite differences, and themselves under padding and splitting."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.generation import checkpointing, generation_state
from grpo_doctor.engine.losses import kl_tokens

Make = Callable[..., Engine]

RESPONSES = [[8, 9, 10, 15, 3], [9, 3], [8, 8, 8, 8, 8, 8, 8, 8], [11, 12, 3], [10, 3], [8, 3], [9, 9, 3], [12] * 8]


def prompts_of(engine: Engine) -> list[list[int]]:
    return [engine.render(example.dialogue) for example in engine.task.examples[: len(RESPONSES)]]


def test_prompts_differ_in_length_and_end_with_the_header(make_engine: Make) -> None:
    engine = make_engine()
    prompts = prompts_of(engine)
    assert len({len(p) for p in prompts}) > 3
    assert all(engine.tokenizer.decode(p).endswith("<|im_start|> assistant") for p in prompts)


def test_sampled_tokens_are_extracted_exactly(make_engine: Make) -> None:
    engine = make_engine()
    ids, mask = engine.pad_left(prompts_of(engine))
    tail = torch.tensor([r + [0] * (8 - len(r)) for r in RESPONSES])
    assert engine.extract(torch.cat((ids, tail), 1), ids, mask) == RESPONSES


def test_the_mask_is_the_response_and_nothing_else(make_engine: Make) -> None:
    engine = make_engine()
    batch = engine.mask(prompts_of(engine), RESPONSES)
    marked = [row[m.bool()].tolist() for row, m in zip(batch.input_ids, batch.mask, strict=True)]
    assert marked == RESPONSES
    assert torch.equal(engine.response_positions(batch, RESPONSES), batch.mask.bool())


def test_logprobs_and_entropy_against_float64(make_engine: Make) -> None:
    engine, exact = make_engine(entropy_coef=0.1), make_engine(dtype=torch.float64, entropy_coef=0.1)
    a = torch.zeros(8)
    prepared = engine.prepare(prompts_of(engine), RESPONSES, a, tokens=0)
    double = exact.prepare(prompts_of(exact), RESPONSES, a.double())
    there = prepared.mask > 0
    torch.testing.assert_close(prepared.old[there].double(), double.old[there], atol=1e-5, rtol=0)
    assert prepared.reference is not None and double.reference is not None  # noqa: PT018
    torch.testing.assert_close(prepared.reference[there].double(), double.reference[there], atol=1e-5, rtol=0)
    entropy = exact.current(double, slice(0, 8))[1][there]
    assert prepared.before.statistics is not None
    torch.testing.assert_close(prepared.before.statistics.entropy.double(), entropy, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        engine.current(prepared, slice(0, 8))[1][there].double(), entropy, atol=1e-5, rtol=0, check_dtype=False
    )


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_against_float64(make_engine: Make, estimator: str) -> None:
    means = []
    for dtype in (torch.float32, torch.float64):
        engine = make_engine("reference-mismatch", dtype=dtype, beta=0.1)
        prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8, dtype=dtype))
        there = prepared.mask > 0
        assert prepared.reference is not None
        means.append(float(kl_tokens(prepared.old[there], prepared.reference[there], estimator).mean()))
    assert means[0] == pytest.approx(means[1], abs=1e-5)
    assert abs(means[1]) > 1e-3


def test_padding_changes_nothing(make_engine: Make) -> None:
    """Each response has the same log-probabilities alone, without padding, as in the batch."""
    engine = make_engine()
    prompts = prompts_of(engine)
    together = engine.prepare(prompts, RESPONSES, torch.zeros(8))
    for i, (prompt, response) in enumerate(zip(prompts, RESPONSES, strict=True)):
        alone = engine.prepare([prompt], [response], torch.zeros(1)).old[0]
        torch.testing.assert_close(together.old[i, : len(response)], alone, atol=2e-5, rtol=0)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_micro_batches_add_up_to_the_whole(make_engine: Make, loss_type: str) -> None:
    engine = make_engine(loss_type=loss_type, beta=0.1, entropy_coef=0.05, dtype=torch.float64)
    prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.linspace(-1, 1, 8).double())
    gradients = []
    for parts in (1, 4):
        value, _ = engine.accumulate(prepared, parts)
        gradients.append(torch.cat([p.grad.flatten() for p in engine.parameters if p.grad is not None]))
        engine.optimizer.zero_grad()
        assert value == pytest.approx(float(engine.micro_loss(prepared, slice(0, 8))[0].detach()))
    torch.testing.assert_close(*gradients, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_gradient_is_that_of_finite_differences(make_engine: Make, estimator: str, level: str) -> None:
    """The whole objective: clipped surrogate, KL and entropy, away from the ratio 1."""
    engine = make_engine(
        beta=0.3, entropy_coef=0.2, kl_estimator=estimator, importance_sampling_level=level, dtype=torch.float64
    )
    prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.linspace(-1, 1, 8).double())
    torch.manual_seed(0)
    assert prepared.reference is not None
    noise = 0.05 * torch.randn_like(prepared.old)
    scores = prepared.before._replace(logprobs=prepared.old + noise)
    prepared = prepared._replace(scores=scores, reference=prepared.reference - 2 * noise)
    engine.accumulate(prepared)
    directions = [torch.randn_like(p) for p in engine.parameters]
    slope = sum(
        float((p.grad * d).sum()) for p, d in zip(engine.parameters, directions, strict=True) if p.grad is not None
    )
    values = []
    for sign in (1, -2):  # up by one, then down by two: the two sides of where we were
        with torch.no_grad():
            for p, d in zip(engine.parameters, directions, strict=True):
                p += sign * 1e-6 * d
        values.append(float(engine.micro_loss(prepared, slice(0, 8))[0].detach()))
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def test_the_generator_agrees_with_the_trainer(make_engine: Make) -> None:
    engine = make_engine(temperature=0.7, gradient_checkpointing=True)
    engine.model.train()
    prompts = prompts_of(engine)
    ids, mask = engine.pad_left(prompts)
    tokens, drawn = engine.sample(ids, mask)
    responses = engine.extract(tokens, ids, mask)
    prepared = engine.prepare(prompts, responses, torch.zeros(8))
    there = prepared.mask > 0
    torch.testing.assert_close(drawn[:, : there.shape[1]][there], prepared.old[there], atol=1e-5, rtol=0)
    assert engine.generated is not None
    assert (engine.generated.training_mode, engine.generated.checkpointing) == (False, False)


def test_the_state_of_the_model_comes_back_after_an_error(make_engine: Make) -> None:
    model = make_engine(gradient_checkpointing=True).model.train()
    with pytest.raises(ValueError, match="inside: False, False"), generation_state(model):
        raise ValueError(f"inside: {model.training}, {checkpointing(model)}")
    assert model.training
    assert checkpointing(model)


def test_samples_are_equal_in_both_modes_except_with_the_fault(make_engine: Make) -> None:
    """A temperature near 0 makes sampling greedy, so that results can be compared."""
    changes = {"temperature": 1e-4, "gradient_checkpointing": True}
    drawn = {}
    for faults in ((), ("train-mode-generation",)):
        engine = make_engine(*faults, **changes)
        ids, mask = engine.pad_left(prompts_of(engine))
        for training in (False, True):
            engine.model.train(training)
            drawn[faults, training] = engine.sample(ids, mask)[0][:, ids.shape[1] :]
    healthy, faulty = drawn[(), True], drawn[("train-mode-generation",), True]
    assert torch.equal(drawn[(), False], healthy)
    assert torch.equal(drawn[("train-mode-generation",), False], healthy)
    assert torch.equal(faulty[:, 0], healthy[:, 0])  # the first token is right
    width = min(faulty.shape[1], healthy.shape[1])
    assert float((faulty[:, 1:width] == healthy[:, 1:width]).float().mean()) < 0.9


def test_learning_rates_of_a_warm_up_begin_at_zero(make_engine: Make) -> None:
    engine = make_engine(learning_rate=1.0, warmup_steps=4, lr_scheduler_type="linear", max_steps=10)
    rates = []
    for engine.optimizer_step in range(6):
        rates.append(engine.learning_rate())
    assert rates == [0.0, 0.25, 0.5, 0.75, pytest.approx(0.6), pytest.approx(0.5)]


def test_lora_keeps_the_reference_in_the_model(make_engine: Make) -> None:
    pytest.importorskip("peft")
    from grpo_doctor.engine.model import with_lora

    plain = make_engine()
    adapted = Engine(plain.settings, with_lora(plain.model, 4, 8).train(False), plain.tokenizer, plain.task)
    assert 0 < sum(p.numel() for p in adapted.parameters) < sum(p.numel() for p in plain.model.parameters())
    prompts = prompts_of(adapted)
    a = torch.linspace(-1, 1, 8)
    prepared = adapted.prepare(prompts, RESPONSES, a)
    assert prepared.reference is not None
    torch.testing.assert_close(prepared.old, prepared.reference)
    for _ in range(2):
        adapted.accumulate(prepared)
        adapted.apply()
    again = adapted.prepare(prompts, RESPONSES, a)
    assert again.reference is not None
    torch.testing.assert_close(again.reference, prepared.reference)
    assert not torch.allclose(again.old, prepared.old)
