"""Answers of the report about numbers that people ask about: one row before the condition, and at it."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_doctor import StepRecord, diagnose
from grpo_doctor.diagnosis.faq import answers_of
from grpo_doctor.record import Event
from grpo_doctor.report.model import Options, render
from grpo_doctor.run import run_of
from grpo_doctor.testing import make_run


def said(settings: dict[str, Any] | None = None, **columns: Any) -> list[str]:
    """The first words of each answer, up to its question mark."""
    return [line.split("?")[0] for line in answers_of(make_run(settings, **columns))]


KL = "0.01 0.02 0.04 0.08"


def test_the_loss_is_the_kl_term() -> None:
    (line,) = answers_of(make_run(loss="0.0004 0.0008 0.0016 0.0032", kl=KL))
    assert line == (
        "Why is the loss so small, and why does it rise? It is the KL term: loss = 0.04 x KL on every row. The "
        "policy term is 0 (the ratio is 1 and the advantages sum to 0) but its gradient is not. A rising loss only "
        "means that the policy moves away from the reference model. Watch the reward instead."
    )


@pytest.mark.parametrize(
    ("loss", "kl"),
    [
        ("0.0004 0.0008 0.0016", "0.01 0.02 0.04"),  # three rows
        ("0.0004 0.0008 0.0016 0.0042", KL),  # one of them is another thing
        ("0.0004x4", "0.01x4"),  # any coefficient would do
        ("0.0001x4", KL),
    ],
)
def test_the_loss_is_another_thing(loss: str, kl: str) -> None:
    assert said(loss=loss, kl=kl) == []


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"loss": "0x4", "grad_norm": "0.1x4"}, True),
        ({"loss": "0.0001x4", "grad_norm": "0.1x4"}, True),
        ({"loss": "0 0 0 0.0002", "grad_norm": "0.1x4"}, False),
        ({"loss": "0x4", "grad_norm": "0x4", "reward_std": "0.5x4"}, False),  # no gradient: STL004
        ({"loss": "0x4", "reward_std": "0.5x4"}, True),
        ({"loss": "0x4", "reward_std": "0x4"}, False),
        ({"loss": "0", "grad_norm": "0.1"}, True),
        ({"loss": "?", "grad_norm": "0.1"}, False),
    ],
)
def test_the_loss_is_zero(columns: dict[str, Any], told: bool) -> None:
    assert said(**columns) == ["Why is the loss 0"] * told


@pytest.mark.parametrize(
    ("columns", "settings", "question"),
    [
        ({"loss": "-0.1 0.1x4"}, {}, ["Why is the loss negative"]),
        ({"loss": "-0.1 0.1x5"}, {}, []),
        ({"loss": "-0.1"}, {}, ["Why is the loss negative"]),
        ({"advantage_mean": "0.001x4"}, {}, ["Why is the mean advantage 0"]),
        ({"advantage_mean": "0.001x3 0.0011"}, {}, []),
        ({"clip_fraction": "0x4"}, {}, ["Why is the clip fraction 0"]),
        ({"clip_fraction": "0x3 0.001"}, {}, []),
        ({"clip_fraction": "0"}, {}, ["Why is the clip fraction 0"]),
        ({"grad_norm": "0.5x3 1.2"}, {"max_grad_norm": 1.0}, ["Which gradient norm is logged"]),
        ({"grad_norm": "0.5x2 1.2"}, {"max_grad_norm": 1.0}, []),
        ({"grad_norm": "0.5x4"}, {"max_grad_norm": 1.0}, []),
        ({"grad_norm": "1.2x4"}, {}, []),
    ],
)
def test_questions(columns: dict[str, Any], settings: dict[str, Any], question: list[str]) -> None:
    assert said(settings, **columns) == question


def test_which_norm_is_printed() -> None:
    before = answers_of(make_run({"max_grad_norm": 1.0}, grad_norm="0.5x3 1.2"))[0]
    assert before.endswith("The norm before clipping: 25% of the rows exceed the limit of 1 and are clipped to it.")
    after = answers_of(make_run({"max_grad_norm": 1.0}, grad_norm="0.5x3 1x3"))[0]
    assert after.endswith("The norm after clipping: 50% of the rows are at 1.")


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ((0.5, 0.52, 0.49, 0.51), "The reward is 0.505 after step 3 and 0.5 before: yes."),
        (
            (0.1, 0.12, 0.09, 0.11),
            "The reward is 0.105 after step 3 and 0.5 before: no, so check which state was restored.",
        ),
    ],
)
def test_a_resumed_run(after: tuple[float, ...], words: str) -> None:
    records = [StepRecord(step=n, reward_mean=value) for n, value in enumerate((0.5, 0.51, 0.49, 0.5), 1)]
    records += [StepRecord(step=n, reward_mean=value) for n, value in enumerate(after, 3)]
    records[4].events = [Event(kind="restart", message="step goes back from 4 to 3")]
    (line,) = [a for a in answers_of(run_of(records)) if a.startswith("Does")]
    assert line.endswith(words)


def test_updates_per_rollout() -> None:
    declared = {"train_batch_size": 512, "mini_batch_size": 128, "group_size": 8, "num_iterations": 2}
    (line,) = answers_of(make_run(declared, reward_mean="0.5x4"))
    assert line == (
        "How many updates? A step has 512 prompts x 8 responses and an update 128 prompts, so the number of updates per "
        "rollout is 8."
    )
    assert answers_of(make_run({"train_batch_size": 512, "group_size": 8}, reward_mean="0.5x4")) == []


@pytest.mark.parametrize(
    ("pays", "why"),
    [
        (0.0, "its pattern may never match (for example because the chat template already opens the tag)"),
        (0.5, "it may fail to parse the answer and return a constant"),
        (1.0, None),
    ],
)
def test_a_reward_function_that_stays_at_one_value(pays: float, why: str | None) -> None:
    parts = [{"form": pays, "answer": 0.1 * row} for row in range(4)]
    lines = answers_of(make_run(reward_components=parts))
    assert len(lines) == (why is not None)
    assert why is None or lines[0] == (
        f"Why does form stay at {pays:g}? It has this value on all 4 rows, so it does not rank any response above "
        f"another. If the responses differ, {why}. Score a correct response manually."
    )


@pytest.mark.parametrize(
    ("chosen", "rejected", "told"),
    [
        ("-0.3", "-7.5", True),
        ("-0.3 0.1", "-7.5x2", True),
        ("-0.3 0.1x2", "-7.5x3", False),  # on most rows it is positive
        ("-0.3 -7", "-7.5 -16", False),  # no response that is preferred should be ruled out
        ("-0.3 -6.9", "-7.5 -14", True),
        ("-0.3", "-0.2", False),  # and the rejected ones lie higher
        ("-0.3", "?", False),
    ],
)
def test_the_reward_of_the_chosen_is_negative(chosen: str, rejected: str, told: bool) -> None:
    run = make_run(chosen_reward=chosen, rejected_reward=rejected)
    run.run_type = "preference"
    lines = answers_of(run)
    assert len(lines) == told
    assert not told or lines[0].startswith(
        "Why is the reward of the chosen responses negative? It is beta x log(policy / reference), and the loss uses "
        "only the margin (7."
    )


def test_a_screen_answers_where_nothing_is_judged() -> None:
    told, judged = (
        render("text", [diagnose(make_run(loss=f"-0.2x{n}", reward_mean=f"0.5x{n}"))], Options()) for n in (1, 60)
    )
    assert "Why is the loss negative?" in told
    assert "Why is the loss negative?" not in judged


def test_the_diagnosis_holds_them() -> None:
    assert diagnose(make_run(loss="0x9", grad_norm="0.1x9")).answers == answers_of(
        make_run(loss="0x9", grad_norm="0.1x9")
    )
    supervised = make_run(loss="0x9", grad_norm="0.1x9")
    supervised.run_type = "supervised"
    assert answers_of(supervised) == []
