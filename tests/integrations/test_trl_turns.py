"""Responses with several turns: tokens written by tools or an environment are not the model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl.trainer.grpo_trainer", reason="the extra trl is not installed")

from grpo_doctor import attach
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.integrations.trl_record import Ids, Local
from grpo_doctor.integrations.trl_train import build
from grpo_doctor.record import read_records
from tests.integrations.tiny_trl import two_turns

END, PAD, HEADER, A, B = 1, 0, 2, 7, 8


def brevity(completions: list[Any], **_: Any) -> list[float]:
    """A reward that differs within nearly every group."""
    return [1 / len(c if isinstance(c, str) else c[-1]["content"]) for c in completions]


@pytest.mark.slow
def test_a_right_run_of_two_turns_is_not_stopped_and_generator_and_trainer_agree(tmp_path: Path) -> None:
    """The embedded policy, which ends its turns; the loss covers only its own tokens."""
    small = {"max_steps": 4, "generation_batch_size": 8, "num_generations": 4, "max_completion_length": 64}
    trainer = build(settings_of({**small, "learning_rate": 1e-4}, "settings"), tmp_path)
    if not hasattr(trainer, "rollout_func"):
        pytest.skip("this TRL has no rollout_func")
    trainer.rollout_func, trainer.reward_funcs = two_turns, [brevity]
    attached = attach(trainer, out=tmp_path / "run", on="error=stop")
    trainer.train()
    assert trainer.state.global_step == 4
    assert attached.diagnosis().verdict != "failing"
    assert not {"PAD002", "PAD005", "LEN006", "RAT004"} & {f.code for f in attached.diagnosis().findings}
    written = list(read_records(tmp_path / "run" / "records.jsonl"))
    assert max(r.rollout_mismatch_kl or 0.0 for r in written) < 1e-4
    assert max(r.rollout_logp_diff_max or 0.0 for r in written) < 1e-4
    assert {r.turns_per_response for r in written} == {2.0}
    assert {(r.pad_tokens_in_mask, r.response_tokens_outside_mask) for r in written} == {(0.0, 0.0)}
    logged = {row["step"]: row for row in trainer.state.log_history if "completions/mean_length" in row}
    assert [r.response_length_mean for r in written] == pytest.approx(
        [logged[r.step]["completions/mean_length"] for r in written]
    )


def batch(ids: list[int], tools: list[int] | None, **more: list[float]) -> dict[str, Any]:
    """One response as TRL passes it to the loss; ``tools`` is 1 on the model's own tokens."""
    made: dict[str, Any] = {
        "prompt_mask": torch.ones(1, 2),
        "completion_ids": torch.tensor([ids]),
        "completion_mask": torch.tensor([[int(i != PAD) for i in ids]]),
        "advantages": torch.tensor([1.0]),
        **{name: torch.tensor([values]) for name, values in more.items()},
    }
    return made if tools is None else made | {"tool_mask": torch.tensor([tools])}


@pytest.mark.parametrize(
    ("ids", "tools", "inside"),
    [
        pytest.param([A, END, PAD], None, 0, id="one turn"),
        pytest.param([A, END, B], None, 1, id="one turn that goes on behind its end"),
        pytest.param([A, END, HEADER, B, END], [1, 1, 0, 1, 1], 0, id="two turns"),
        pytest.param([A, END, HEADER, B, END], [1, 1, 1, 1, 1], 3, id="the environment's words are trained"),
        pytest.param([A, END, HEADER, B, END, B], [1, 1, 0, 1, 1, 1], 1, id="the second turn goes on behind its end"),
    ],
)
def test_text_after_the_end_of_a_turn(ids: list[int], tools: list[int] | None, inside: int) -> None:
    local = Local()
    local.batch(batch(ids, tools), torch.tensor(0.5), frozenset({END}), None)
    assert local.pad_in_mask == inside


def test_ends_headers_and_lengths_are_of_the_models_own_tokens() -> None:
    ids, local = Ids(frozenset({END}), PAD, frozenset({HEADER})), Local()
    local.rollout(
        "f", 1.0, [0.5], {"prompts": ["p"], "completions": ["c"], "completion_ids": [[A, END, HEADER, B, END]]}, ids
    )
    local.counted(torch.tensor([[1, 1, 0, 1, 1, 1]]), ids)  # the last column is padding
    assert (local.lengths, local.ends, local.headers, local.turns) == ([4], 1, 0, 2)


def test_the_mismatch_is_of_the_models_own_tokens_and_of_this_steps_rollout() -> None:
    inputs = batch([A, HEADER, B], [1, 0, 1], sampling_per_token_logps=[-1.0, 0.0, -2.0])
    now = torch.tensor([[-1.0, -9.0, -2.5]])
    stale, fresh = Local(), Local(texts=["c"])
    for local in (stale, fresh):
        local.batch(inputs, torch.tensor(0.5), frozenset({END}), now)
    assert "rollout_logp_diff" not in stale.tokens
    total, count = fresh.tokens["rollout_logp_diff"]
    assert (total, count, fresh.largest_difference) == (0.5, 2, 0.5)
