"""The loop: what a record contains, what skips an update, and that a resumed run equals the uninterrupted one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from grpo_doctor.engine.engine import Engine, Prepared
from grpo_doctor.engine.trainer import Trainer, TrainingDied
from grpo_doctor.record import FIELDS, StepRecord

Make = Callable[..., Engine]

UNKNOWN = set(
    "eval_score judge_failure_rate entropy_loss eos_suppressed_rate advantage_rank_mode update_skipped_reason "
    "kl_grad_share events eval_loss eval_perplexity".split()
)
"""Fields that this task or a healthy step does not know."""
OF_OTHERS = set(
    "zero_variance_share kl_sequence reward_after_kl teacher_kl staleness turns_per_response tool_calls_per_response tool_failure_rate "
    "rollout_logp_diff rollout_logp_diff_max rollout_prob_diff rollout_prob_diff_max rollout_prob_correlation "
    "rollout_mult_prob_error rollout_weight_mean rollout_weight_min rollout_weight_max "
    "chosen_reward rejected_reward reward_margin chosen_logp rejected_logp value_loss "
    "value_explained_variance repetition_rate other_script_rate prompt_echo_rate aborted_rate environment_failure_rate "
    "effective_sample_share rollout_weight_std weight_clip_fraction staleness_max value_clip_fraction prompts_per_update "
    "tokens_per_update failures_at_floor length_reward_correlation mismatch_causes prompt_recovery refusal_rate "
    "repeated_call_rate response_chars_mean right_chars_mean right_unrewarded_rate rollout_mismatch_k1 rollout_surprise "
    "taskless_reward trainer_surprise unparsed_call_rate wrong_chars_mean wrong_rewarded_rate".split()
)
"""Fields in the units of other trainers, whose own measure the engine records; those of tools, of pairs and of a
critic, which it has not; and those that are measured on its samples where a run is judged."""


def essence(record: StepRecord) -> dict[str, object]:
    return {k: v for k, v in msgspec.structs.asdict(record).items() if k != "wall_time"}


def test_a_record_holds_every_field_that_an_engine_can_know(make_engine: Make) -> None:
    record, samples = Trainer(make_engine(easy=True)).step()
    unknown = {name for name in FIELDS if getattr(record, name) is None}
    assert unknown - UNKNOWN <= OF_OTHERS
    assert len(samples) == 8
    assert record.update_applied
    assert record.rollout_mismatch_kl == pytest.approx(0, abs=1e-6)
    assert record.ratio_first_minibatch == pytest.approx(0, abs=1e-5)
    assert record.kl == pytest.approx(0, abs=1e-7)
    assert record.prompt_tokens_in_mask == record.pad_tokens_in_mask == record.response_tokens_outside_mask == 0


@pytest.mark.parametrize(
    ("fault", "field", "least"),
    [
        ("mask-assumes-right-padding", "prompt_tokens_in_mask", 1),
        ("mask-by-token-identity", "response_tokens_outside_mask", 1),
        ("left-pad-extraction", "chat_header_rate", 0.75),
        ("reference-mismatch", "kl", 1e-4),
        ("kl-on-unformatted-prompt", "rollout_mismatch_raw_kl", 1e-2),
        ("penalty-over-prompt", "rollout_mismatch_kl", 1e-3),
        ("double-temperature", "rollout_mismatch_kl", 1e-3),
        ("logit-clip", "rollout_mismatch_kl", 1e-3),
    ],
)
def test_records_show_the_fault(make_engine: Make, fault: str, field: str, least: float) -> None:
    changes = {"num_generations": 2, "max_completion_length": 64 if fault == "mask-by-token-identity" else 8}
    record, _ = Trainer(make_engine(fault, **changes)).step()
    assert getattr(record, field) >= least
    healthy, _ = Trainer(make_engine(**changes)).step()
    assert getattr(healthy, field) < least


def test_raw_and_final_scores_distinguish_processors_from_weights(make_engine: Make) -> None:
    record, _ = Trainer(make_engine("penalty-over-prompt")).step()
    assert record.rollout_mismatch_raw_kl == pytest.approx(0, abs=1e-6)


def test_statistics_are_taken_as_often_and_of_as_many_tokens_as_asked(make_engine: Make) -> None:
    trainer = Trainer(make_engine(record_every=2, record_tokens=5))
    records = [trainer.step()[0] for _ in range(3)]
    assert [r.entropy_mean is not None for r in records] == [True, False, True]
    assert [r.policy_movement_kl is not None for r in records] == [True, False, True]
    assert all(r.reward_mean is not None and r.kl is not None for r in records)


def test_no_update_where_all_rewards_are_equal(make_engine: Make) -> None:
    engine = make_engine("constant-reward", skip_zero_advantages=True, beta=0.0)
    before = [p.clone() for p in engine.parameters]
    record, _ = Trainer(engine).step()
    assert (record.update_applied, record.weight_delta, record.optimizer_step) == (False, 0.0, 0)
    assert record.update_skipped_reason == "all advantages are 0"
    assert all(torch.equal(a, b) for a, b in zip(before, engine.parameters, strict=True))


def test_a_skipped_update_changes_no_weight_even_with_momentum(make_engine: Make) -> None:
    engine = make_engine(easy=True, weight_decay=0.5)
    trainer = Trainer(engine)
    trainer.step()
    before = [p.clone() for p in engine.parameters]
    record, _ = trainer.step(lambda record: f"grad norm {record.grad_norm is not None}")
    assert (record.update_applied, record.update_skipped_reason) == (False, "grad norm True")
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, engine.parameters, strict=True))


def test_more_updates_on_one_rollout_move_the_ratio(make_engine: Make) -> None:
    record, _ = Trainer(make_engine(easy=True, num_iterations=3, learning_rate=1e-2)).step()
    assert record.optimizer_step == 3
    assert record.ratio_first_minibatch == pytest.approx(0, abs=1e-5)
    assert record.ratio_max is not None and record.ratio_max > 1.05  # noqa: PT018


def test_the_same_seed_gives_the_same_records_and_another_does_not(make_engine: Make) -> None:
    runs = [[essence(r) for r, _ in Trainer(make_engine(easy=True, seed=s, max_steps=3)).run()] for s in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("fault", [(), ("train-mode-generation",), ("stale-rollout-weights",)], ids=str)
def test_a_resumed_run_has_the_records_of_the_uninterrupted_one(
    make_engine: Make, tmp_path: Path, fault: tuple[str, ...]
) -> None:
    settings = {"max_steps": 6, "warmup_steps": 3, "weight_decay": 0.01}
    trainer = Trainer(make_engine(*fault, easy=True, **settings))
    records = []
    for record, _ in trainer.run():
        records.append(essence(record))
        if record.step == 3:
            trainer.save(tmp_path / "three.pt")
    resumed = Trainer(make_engine(*fault, easy=True, **settings))
    resumed.load(tmp_path / "three.pt")
    assert [essence(record) for record, _ in resumed.run()] == records[3:]


def test_weights_that_are_not_finite_end_the_run_in_words(make_engine: Make) -> None:
    trainer = Trainer(make_engine("nan-at-step", easy=True, max_steps=6))
    assert [trainer.step()[0].step for _ in range(3)] == [1, 2, 3]
    with pytest.raises(TrainingDied, match="step 4: the weights are not finite"):
        trainer.step()


def test_measures_the_kl_share_of_the_gradient_at_an_interval(make_engine: Make) -> None:
    trainer = Trainer(make_engine(easy=True, record_every=2, kl_grad_share_every=2))
    measured = [trainer.step()[0].kl_grad_share is not None for _ in range(7)]
    assert measured == [False, False, True, False, False, False, True]


def test_the_update_has_moved_the_policy_on_the_first_response_of_each_group(
    make_engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the definition, over the same batch scored before and after."""
    trainer = Trainer(make_engine(easy=True, learning_rate=1e-2))
    batches: list[Prepared] = []
    monkeypatch.setattr(trainer, "movement", lambda prepared: batches.append(prepared))
    trainer.step()
    (before,) = batches
    monkeypatch.undo()
    first = before.last(before.response).clone()
    first[[i for i in range(len(first)) if i % 4]] = False
    log_ratio = (trainer.engine.score(before).old - before.old)[first].double()
    movement = trainer.movement(before)
    assert movement == pytest.approx(float((log_ratio.exp() - 1 - log_ratio).mean()), rel=1e-3)
    assert movement > 0


@pytest.mark.parametrize(("iterations", "passes"), [(1, 0), (2, 1)])
def test_one_update_needs_no_separate_pass_for_the_old_log_probabilities(
    make_engine: Make, monkeypatch: pytest.MonkeyPatch, iterations: int, passes: int
) -> None:
    engine, made = make_engine(easy=True, num_iterations=iterations), []
    score = engine.score

    def counted(prepared: Prepared, tokens: int | None) -> Prepared:
        made.append(tokens)
        return score(prepared, tokens)

    monkeypatch.setattr(engine, "score", counted)
    record, _ = Trainer(engine).step()
    assert made == [0] * passes
    assert record.ratio_first_minibatch == pytest.approx(0, abs=1e-5)


def test_the_pass_of_the_update_equals_a_pass_before_it(make_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    records = []
    for apart in (False, True):
        engine = make_engine(easy=True, gradient_accumulation_steps=2, temperature=1.3)
        if apart:
            assemble = engine.assemble
            monkeypatch.setattr(engine, "assemble", lambda *a, e=engine, f=assemble: e.score(f(*a), 0))
        trainer = Trainer(engine)
        records.append([essence(trainer.step()[0]) for _ in range(3)])
    assert records[0] == records[1]


def test_kl_share_of_the_gradient(make_engine: Make) -> None:
    trainer = Trainer(make_engine(easy=True, beta=100.0, kl_grad_share_every=2, learning_rate=1e-2))
    shares = [trainer.step()[0].kl_grad_share for _ in range(2)]
    assert shares[0] is None
    assert shares[1] is not None and 0.5 < shares[1] <= 1  # noqa: PT018
