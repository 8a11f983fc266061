"""Advantages and losses against hand-computed values and against TRL's on the same tensors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.engine.losses import advantages, average_ranks, kl_tokens, live_groups, mean_over, objective_terms
from grpo_doctor.engine.settings import settings_of

S = math.sqrt


def given(**changes: Any) -> Any:
    return settings_of(changes, "test")


@pytest.mark.parametrize(
    ("changes", "rewards", "expected"),
    [
        ({}, [[1.0, 0.0]], [[S(0.5), -S(0.5)]]),
        ({"advantage_ddof": 0}, [[1.0, 0.0]], [[1.0, -1.0]]),
        ({}, [[1.0, 2.0, 3.0]], [[-1.0, 0.0, 1.0]]),
        ({"scale_rewards": "none"}, [[1.0, 2.0, 6.0]], [[-2.0, -1.0, 3.0]]),
        ({"scale_rewards": "batch"}, [[0.0, 2.0], [4.0, 6.0]], [[-1 / S(20 / 3), 1 / S(20 / 3)]] * 2),
        ({"advantage_estimator": "rloo"}, [[1.0, 2.0, 6.0]], [[-3.0, -1.5, 4.5]]),
        ({"advantage_estimator": "reinforce++-baseline"}, [[0.0, 2.0], [3.0, 5.0]], [[-S(0.75), S(0.75)]] * 2),
        ({"advantage_estimator": "rank"}, [[5.0, 5.0, 9.0]], [[-1 / S(3), -1 / S(3), 2 / S(3)]]),
        ({}, [[0.1] * 8], [[0.0] * 8]),  # the float32 mean of these differs from them in the last bit
    ],
)
def test_advantages_equal_a_manual_computation(
    changes: dict[str, Any], rewards: list[list[float]], expected: list[list[float]]
) -> None:
    found = advantages(torch.tensor(rewards), given(**changes))
    torch.testing.assert_close(found, torch.tensor(expected), atol=4e-4, rtol=0)


def test_equal_rewards_give_exactly_no_advantage() -> None:
    rewards = torch.tensor([[0.1] * 8, [0.3] * 8, [0.0, 1.0] * 4])
    assert live_groups(rewards).tolist() == [False, False, True]
    for estimator in ("grpo", "rloo", "reinforce++-baseline", "rank"):
        assert not advantages(rewards, given(advantage_estimator=estimator))[:2].any()


def test_ties_share_their_rank() -> None:
    assert average_ranks(torch.tensor([[2.0, 1.0, 2.0, 0.0]])).tolist() == [[2.5, 1.0, 2.5, 0.0]]


def test_kl_estimators_equal_a_manual_computation() -> None:
    policy, reference = torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)])
    assert kl_tokens(policy, reference, "k1").item() == pytest.approx(math.log(2))
    assert kl_tokens(policy, reference, "k2").item() == pytest.approx(math.log(2) ** 2 / 2)
    assert kl_tokens(policy, reference, "k3").item() == pytest.approx(0.5 - 1 + math.log(2))


@pytest.mark.parametrize(("loss_type", "expected"), [("dapo", 10 / 3), ("grpo", (1.5 + 7) / 2), ("dr_grpo", 10 / 8)])
def test_aggregation_equals_a_manual_computation(loss_type: str, expected: float) -> None:
    tokens, mask = torch.tensor([[1.0, 2.0], [7.0, math.nan]]), torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    assert mean_over(tokens, mask, given(loss_type=loss_type, max_completion_length=4)).item() == pytest.approx(
        expected
    )


def test_clipping_equals_a_manual_computation() -> None:
    """Ratios 1.5 and 0.5 with advantages of both signs: only the branch that gains is clipped."""
    logprobs, old = torch.log(torch.tensor([[1.5], [1.5], [0.5], [0.5]])), torch.zeros(4, 1)
    a, mask = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.ones(4, 1)
    terms = objective_terms(logprobs, old, None, a, mask, torch.zeros(4, 1), given(epsilon=0.2, epsilon_high=0.3))
    assert terms.clipped.flatten().tolist() == [True, False, False, True]
    assert terms.policy.item() == pytest.approx(-(1.3 - 1.5 + 0.5 - 0.8) / 4)


def tensors(seed: int) -> dict[str, Tensor]:
    """Log-probabilities of 6 responses of up to 7 tokens, their advantages and mask."""
    torch.manual_seed(seed)
    shape, lengths = (6, 7), torch.tensor([7, 3, 1, 5, 7, 2])
    logprobs = -torch.rand(shape)
    return {
        "logprobs": logprobs,
        "old": logprobs + 0.4 * torch.randn(shape),
        "reference": logprobs + 0.4 * torch.randn(shape),
        "advantages": torch.randn(6),
        "mask": (torch.arange(7) < lengths[:, None]).float(),
        "entropy": torch.rand(shape),
    }


@pytest.fixture(scope="module")
def trl_trainer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """TRL's trainer on a tiny model, for a reward and a config."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    from grpo_doctor.engine.tiny import make_model, make_tokenizer

    def make(reward: Any, **config: Any) -> Any:
        arguments = trl.GRPOConfig(
            output_dir=str(tmp_path_factory.mktemp("trl")), report_to=[], use_cpu=True,
            use_bias_correction_kl=False, **{**config, "beta": 0.0},
        )  # fmt: skip
        return trl.GRPOTrainer(
            model=make_model(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2),
            reward_funcs=reward,
            args=arguments,
            train_dataset=datasets.Dataset.from_dict({"prompt": ["math"] * 4}),
            processing_class=make_tokenizer(),
        )

    return make


@pytest.fixture(scope="module")
def trl_loss(trl_trainer: Any) -> Any:
    """TRL's loss on given log-probabilities, for a config."""

    def compute(t: dict[str, Tensor], **config: Any) -> float:
        small = {"num_generations": 2, "per_device_train_batch_size": 2, "max_completion_length": 8}
        trainer = trl_trainer(lambda completions, **_: [0.0] * len(completions), **small, **config)
        trainer.beta = config["beta"]  # its constructor would look for a reference on the hub
        trainer.model.eval()
        trainer._get_per_token_logps_and_entropies = lambda *_, **__: (t["logprobs"], t["entropy"], None)
        ids = torch.zeros_like(t["mask"], dtype=torch.long)
        inputs = {
            "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids, "completion_mask": t["mask"],
            "advantages": t["advantages"], "old_per_token_logps": t["old"], "ref_per_token_logps": t["reference"],
            "num_items_in_batch": t["mask"].sum(),
        }  # fmt: skip
        return float(trainer._compute_loss(trainer.model, inputs))

    return compute


@pytest.mark.parametrize(
    "config",
    [
        {"loss_type": "dapo", "beta": 0.0},
        {"loss_type": "dapo", "beta": 0.1, "epsilon_high": 0.28},
        {"loss_type": "grpo", "beta": 0.1},
        {"loss_type": "dr_grpo", "beta": 0.1},
        {"loss_type": "grpo", "beta": 0.0, "importance_sampling_level": "sequence"},
    ],
    ids=str,
)
def test_losses_are_those_of_trl(trl_loss: Any, config: dict[str, Any]) -> None:
    t = tensors(1)
    settings = given(max_completion_length=8, **config)
    reference = t["reference"] if settings.beta else None
    terms = objective_terms(t["logprobs"], t["old"], reference, t["advantages"], t["mask"], t["entropy"], settings)
    own = float(terms.policy + settings.beta * terms.kl)
    assert own == pytest.approx(trl_loss(t, **config), abs=1e-5)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_are_those_of_trl(trl_trainer: Any, scale: str) -> None:
    """On TRL's own rollout, whose responses get these rewards."""
    torch.manual_seed(0)
    rewards = torch.rand(3, 4)
    trainer = trl_trainer(
        reward=lambda completions, **_: rewards.flatten().tolist(),
        num_generations=4, per_device_train_batch_size=12, max_completion_length=2, scale_rewards=scale,
    )  # fmt: skip
    prompts = [{"prompt": word} for word in ("math", "code", "qa") for _ in range(4)]
    found = trainer._generate_and_score_completions(prompts)["advantages"]
    torch.testing.assert_close(found.view(3, 4), advantages(rewards, given(scale_rewards=scale)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("estimator", "divisor"), [("grpo", "group"), ("rloo", "none"), ("reinforce++-baseline", "batch"), ("rank", "rank")]
)
def test_a_run_declares_what_its_advantages_are_divided_by(estimator: str, divisor: str) -> None:
    assert settings_of({"advantage_estimator": estimator}, "test").declared()["normaliser"] == divisor
