"""Every fault changes what its docstring states, and the run without it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from grpo_doctor.config import ConfigError
from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.faults import FAULTS, Fault, faulty_engine
from grpo_doctor.engine.task import Score
from grpo_doctor.engine.trainer import Trainer

from .test_engine import RESPONSES, prompts_of

Make = Callable[..., Engine]

TIED = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.0, 0.2, 0.4, 1.0]])

ISSUE = (
    "two-sample-groups rank-advantages std-floor global-norm-uncentred flipped-entropy flipped-entropy-gradient "
    "entropy-coefficient-huge kl-dominates reference-mismatch kl-on-unformatted-prompt lr-too-high lr-too-low "
    "train-mode-generation left-pad-extraction mask-assumes-right-padding mask-by-token-identity penalty-over-prompt "
    "template-mismatch stale-rollout-weights logit-clip double-temperature overwritten-accumulation min-new-tokens "
    "truncation constant-reward length-bonus fallback-rewarded nan-at-step"
)
THREADS = (
    "advantages-of-another-group flipped-kl unscaled-accumulation mean-of-micro-batch-means frozen-policy "
    "off-by-one-labels attention-mask-ignored tool-tokens-in-loss prefilled-start-not-scored top-p-not-in-loss "
    "partly-synchronised-weights"
)
"""Those of public issue threads in which the cause was established."""
OF_TOOLS = (
    "tool-arguments-dropped timeouts-scored-zero observations-in-loss calls-stop-paying long-answers-missed "
    "loop-prone-sampler"
)
"""Those of the task with tools; `test_tools.py` tests them."""


def test_all_are_there() -> None:
    assert sorted(FAULTS) == sorted([*ISSUE.split(), *THREADS.split(), *OF_TOOLS.split()])


@pytest.mark.parametrize("name", FAULTS)
def test_each_docstring_states_effect_origin_and_the_check_that_names_it(name: str) -> None:
    page = FAULTS[name].__doc__ or ""
    assert "\n\n    Origin: " in page
    assert FAULTS[name].named_by
    own = {key for key in vars(FAULTS[name]) if callable(getattr(FAULTS[name], key)) and not key.startswith("__")}
    own -= {"begins"}
    assert own or FAULTS[name].settings_of_fault or "__init__" in vars(FAULTS[name])


def test_an_unknown_fault_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'logit-clip'"):
        faulty_engine(["logit-clap"])


def test_faults_mix() -> None:
    kind, settings = faulty_engine(["rank-advantages", "truncation"])
    assert issubclass(kind, FAULTS["rank-advantages"])
    assert issubclass(kind, FAULTS["truncation"])
    assert settings == {"max_completion_length": 5}


def test_an_error_in_a_users_subclass_is_not_an_internal_error() -> None:
    type("Mine", (Fault,), {})
    assert "mine" not in FAULTS


def test_ties(make_engine: Make) -> None:
    assert not make_engine().advantages(TIED)[0].any()
    assert make_engine("rank-advantages").advantages(TIED)[0].abs().max() == 1
    assert make_engine("global-norm-uncentred").advantages(TIED)[0].min() > 0.5


def test_floor(make_engine: Make) -> None:
    scored = make_engine("std-floor").reward(make_engine().task.examples[:1], ["ka lo mi -> done"], [True])
    assert 0 < scored[0].reward <= 0.002
    assert make_engine("std-floor").advantages(TIED * 0.002).abs().max() < 0.02
    assert make_engine().advantages(TIED * 0.002).abs().max() > 1


def test_sign_of_entropy(make_engine: Make) -> None:
    """Return the entropy after a small step on the gradient with and without the fault, without rewards and KL."""
    after = {}
    for name in ((), ("flipped-entropy",), ("flipped-entropy-gradient",)):
        engine = make_engine(*name, entropy_coef=0.5, beta=0.0)
        prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8), tokens=0)
        value, _ = engine.accumulate(prepared)
        with torch.no_grad():
            for p in engine.parameters:
                assert p.grad is not None
                p -= 1e-2 * p.grad
        moved = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8), tokens=0)
        assert prepared.before.statistics is not None and moved.before.statistics is not None  # noqa: PT018
        after[name] = (value, float((moved.before.statistics.entropy - prepared.before.statistics.entropy).mean()))
    healthy, flipped, hidden = after.values()
    assert healthy[1] > 0 > flipped[1]
    assert hidden[1] == pytest.approx(flipped[1], rel=1e-3)
    assert hidden[0] == pytest.approx(healthy[0])  # the logged loss looks right
    assert flipped[0] == pytest.approx(-healthy[0])


def test_reference(make_engine: Make) -> None:
    for names, same in (((), True), (("reference-mismatch",), False), (("kl-on-unformatted-prompt",), True)):
        engine = make_engine(*names)
        prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8))
        assert prepared.reference is not None
        assert torch.allclose(prepared.old, prepared.reference) is same


def test_log_probabilities_after_another_prompt(make_engine: Make) -> None:
    healthy, faulty = make_engine(), make_engine("kl-on-unformatted-prompt")
    a, b = (e.prepare(prompts_of(e), RESPONSES, torch.zeros(8)) for e in (healthy, faulty))
    there = a.mask > 0
    assert (a.old - b.old[:, : a.old.shape[1]])[there].abs().mean() > 0.05


def test_extraction(make_engine: Make) -> None:
    engine = make_engine("left-pad-extraction")
    prompts = prompts_of(engine)
    ids, mask = engine.pad_left(prompts)
    tail = torch.tensor([r + [0] * (8 - len(r)) for r in RESPONSES])
    found = engine.extract(torch.cat((ids, tail), 1), ids, mask)
    padded = [ids.shape[1] - len(p) for p in prompts]
    assert [len(f) - len(r) for f, r in zip(found, RESPONSES, strict=True)] == padded
    assert found[padded.index(0)] == RESPONSES[padded.index(0)]


def test_masks(make_engine: Make) -> None:
    for name, outside, inside in (("mask-assumes-right-padding", True, True), ("mask-by-token-identity", True, False)):
        engine = make_engine(name)
        batch = engine.mask(prompts_of(engine), RESPONSES)
        right, found = engine.response_positions(batch, RESPONSES), batch.mask.bool()
        assert bool((right & ~found).any()) is outside
        assert bool((found & ~right).any()) is inside
    missed = batch.input_ids[right & ~found]
    assert set(missed.tolist()) == {engine.eos[0]}


def test_penalties(make_engine: Make) -> None:
    """Two prompts of one length and the same response: only a penalty over the prompt distinguishes them."""
    for name, depends in ((None, False), ("penalty-over-prompt", True), ("logit-clip", False)):
        engine = make_engine(*([name] if name else []))
        tokens = torch.tensor([[20, 21, 8, 9], [22, 22, 8, 9]])
        logits = torch.randn(1, 96).expand(2, -1)
        found = engine.penalize(tokens, logits, 2)
        assert bool((found[0] != found[1]).any()) is depends
    top = make_engine("logit-clip").penalize(tokens, 30 * torch.eye(96)[:2], 2).softmax(-1).max()
    assert float(top) == pytest.approx(0.1466, abs=1e-4)
    assert make_engine("double-temperature").penalize(tokens, torch.full((2, 96), 3.0), 2).max() == 2.0


def test_template(make_engine: Make) -> None:
    for name, same in ((None, True), ("template-mismatch", False)):
        engine = make_engine(*([name] if name else []))
        dialogue = engine.task.examples[0].dialogue
        assert (engine.render_sft(dialogue, "ka")[: len(engine.render(dialogue))] == engine.render(dialogue)) is same


def test_stale_weights(make_engine: Make) -> None:
    for name, stale in ((None, False), ("stale-rollout-weights", True)):
        engine = make_engine(*([name] if name else []))
        ids, mask = engine.pad_left(prompts_of(engine))
        engine.sample(ids, mask)
        with torch.no_grad():
            for p in engine.parameters:
                p.zero_()
        _, drawn = engine.sample(ids, mask)
        uniform = torch.full_like(drawn[:, 0], 1 / 96).log()
        assert torch.allclose(drawn[:, 0], uniform) is not stale


def test_accumulation(make_engine: Make) -> None:
    gradients = {}
    for name in ((), ("overwritten-accumulation",)):
        engine = make_engine(*name, gradient_accumulation_steps=8)
        prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.linspace(-1, 1, 8))
        engine.accumulate(prepared)
        gradients[name] = torch.cat([p.grad.flatten() for p in engine.parameters if p.grad is not None])
        if name:
            engine.optimizer.zero_grad()
            engine.micro_loss(prepared, slice(7, 8))[0].backward()  # type: ignore[no-untyped-call]
            last = torch.cat([p.grad.flatten() for p in engine.parameters if p.grad is not None])
    healthy, faulty = gradients.values()
    torch.testing.assert_close(faulty, last)
    assert torch.cosine_similarity(healthy, faulty, dim=0) < 0.95


def test_rewards(make_engine: Make) -> None:
    def scores(*names: str) -> list[Score]:
        engine = make_engine(*names)
        texts = ["ka lo mi -> done", "nonsense nonsense"]
        return engine.reward(engine.task.examples[:2], texts, [True, True])

    healthy = scores()
    assert healthy[0].reward > 0 == healthy[1].reward
    assert [s.reward for s in scores("constant-reward")] == [0.5, 0.5]
    assert [s.reward for s in scores("length-bonus")] == [healthy[0].reward + 0.5, pytest.approx(0.2)]
    assert scores("fallback-rewarded")[1].reward > 0
    assert scores("fallback-rewarded")[0] == healthy[0]


def test_nan_comes_at_its_step_and_not_before(make_engine: Make) -> None:
    trainer = Trainer(make_engine("nan-at-step", max_steps=4))
    losses = [trainer.step()[0].loss for _ in range(2)]
    assert losses[0] is not None and losses[0] == losses[0]  # noqa: PT018
    assert losses[1] != losses[1]


def test_advantages_of_another_group(make_engine: Make) -> None:
    healthy, faulty = (make_engine(*names).advantages(TIED) for names in ((), ("advantages-of-another-group",)))
    assert torch.equal(faulty, healthy[[1, 0]])


def test_sign_of_kl(make_engine: Make) -> None:
    engine = make_engine("flipped-kl")
    kl = {}
    for step in range(2):
        prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8))
        assert prepared.reference is not None
        kl[step] = float(
            engine.terms(prepared.old, prepared.old, prepared.reference, torch.zeros(8), prepared.mask, prepared.old).kl
        )
        if not step:
            with torch.no_grad():
                for p in engine.parameters:  # away from the reference, where the term has a gradient
                    p += 0.01 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))
            before = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8))
            engine.accumulate(before)
            with torch.no_grad():
                for p in engine.parameters:
                    assert p.grad is not None
                    p -= 1e-2 * p.grad
    assert kl[1] > kl[0] == 0


def test_micro_batches_that_are_added_up_wrongly(make_engine: Make) -> None:
    """One whole batch against eight micro-batches of one response each, which differ in length."""
    gradients = {}
    for names in ((), ("unscaled-accumulation",), ("mean-of-micro-batch-means",)):
        engine = make_engine(*names, gradient_accumulation_steps=8, beta=0.0)
        engine.accumulate(engine.prepare(prompts_of(engine), RESPONSES, torch.linspace(-1, 1, 8)))
        gradients[names] = torch.cat([p.grad.flatten() for p in engine.parameters if p.grad is not None])
    healthy, unscaled, means = gradients.values()
    assert unscaled.norm() > 4 * healthy.norm()
    torch.testing.assert_close(unscaled, 8 * means)
    assert torch.cosine_similarity(healthy, means, dim=0) < 0.9999


def test_a_frozen_policy_does_not_change(make_engine: Make) -> None:
    for names, moves in (((), True), (("frozen-policy",), False)):
        engine = make_engine(*names)
        before = [p.detach().clone() for p in engine.parameters]
        engine.step([e.dialogue for e in engine.task.examples[:8]], RESPONSES, torch.linspace(-1, 1, 8))
        assert any(bool((p != b).any()) for p, b in zip(engine.parameters, before, strict=True)) is moves


def test_labels_and_attention(make_engine: Make) -> None:
    healthy = make_engine()
    right = healthy.prepare(prompts_of(healthy), RESPONSES, torch.zeros(8))
    for name in ("off-by-one-labels", "attention-mask-ignored"):
        engine = make_engine(name)
        prepared = engine.prepare(prompts_of(engine), RESPONSES, torch.zeros(8))
        assert (right.old - prepared.old)[right.mask > 0].abs().max() > 0.05


def test_tokens_of_others(make_engine: Make) -> None:
    engine = make_engine("tool-tokens-in-loss")
    prompts = prompts_of(engine)
    right, faulty = make_engine().mask(prompts, RESPONSES).mask, engine.mask(prompts, RESPONSES).mask
    assert ((faulty - right).sum(1) == 6).all()


def test_the_text_that_the_reward_function_receives(make_engine: Make) -> None:
    assert make_engine("prefilled-start-not-scored").text([8, 9, 10]) == make_engine().text([9, 10])


def test_an_output_layer_that_is_never_sent(make_engine: Make) -> None:
    engine = make_engine("partly-synchronised-weights")
    ids, mask = engine.pad_left(prompts_of(engine))
    head = engine.model.get_output_embeddings().weight
    with torch.no_grad():
        head.zero_()
    _, drawn = engine.sample(ids, mask)
    assert not torch.allclose(drawn[:, 0], torch.full_like(drawn[:, 0], 1 / 96).log())
    assert not head.any()  # the trainer's own is as it was


@pytest.mark.parametrize("name", ["two-sample-groups", "min-new-tokens", "truncation", "kl-dominates", "lr-too-low"])
def test_settings_of_a_fault_hold_unless_the_user_sets_them(name: str) -> None:
    kind, settings = faulty_engine([name])
    assert settings == {**FAULTS[name].circumstances, **FAULTS[name].settings_of_fault} != {}
    assert kind is FAULTS[name]
