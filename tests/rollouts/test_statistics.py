"""Which responses of a step are examined, and which of them count."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.readers import read
from grpo_doctor.record import StepRecord
from grpo_doctor.rollouts import Steps
from grpo_doctor.rollouts.statistics import EVERY, EXAMINED
from grpo_doctor.rollouts.tools import failure
from grpo_doctor.run import Call, Sample

LOOP = "wait, let me compute this sum once more to be sure about it. " * 12


def rollouts(number: int, looping: int) -> list[dict[str, Any]]:
    """Every ``looping``-th response is a loop, and no loop is rewarded."""
    loops = [n % looping == 0 for n in range(number)]
    return [{"prompt": f"p{n}", "response": LOOP if loop else f"r{n}", "reward": 1.0 - loop, "step": 1}
            for n, loop in enumerate(loops)]  # fmt: skip


@pytest.mark.parametrize(("number", "examined"), [(EXAMINED + 1, None), (EXAMINED + 2, EXAMINED + 1)])
def test_a_note_states_how_many_texts_were_examined_if_not_all_were(
    tmp_path: Path, number: int, examined: int | None
) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rollouts(number, 2)), encoding="utf-8")
    (run,) = read(path)
    told = (
        f"The texts of {examined} of {number} responses were examined: the first {EXAMINED} of each step and every "
        f"{EVERY}th after them; rewards, lengths and tool calls include all responses."
    )
    assert (told in run.notes) is (examined is not None)
    assert any("were examined" in note for note in run.notes) is (examined is not None)


def test_a_sample_of_the_texts_gives_the_share_of_all_and_the_reward_is_that_of_all() -> None:
    record, _ = Steps().filled(StepRecord(step=1), rollouts(4000, 3))
    assert record.repetition_rate == pytest.approx(1 / 3, abs=0.02)
    assert record.reward_mean == pytest.approx(2 / 3, abs=1e-3)


@pytest.mark.parametrize(("changes", "missed"), [({}, 1.0), ({"finish": "length"}, None), ({"valid": False}, None)])
def test_a_right_answer_without_the_form_may_be_unrewarded(changes: dict[str, Any], missed: float | None) -> None:
    right = [
        Sample(step=1, prompt=f"p{n}", response=r"\boxed{7}", reference=["7"], reward=0.0, **changes) for n in range(4)
    ]
    wrong = [Sample(step=1, prompt=f"q{n}", response=r"\boxed{8}", reference=["7"], reward=1.0) for n in range(4)]
    assert Steps().filled(StepRecord(step=1), [*right, *wrong])[0].right_unrewarded_rate == missed


@pytest.mark.parametrize(
    ("results", "failed"), [(["", ""], 1.0), (["", "4"], 0.0), (["HTTP 503: try again", "4"], 1.0)]
)
def test_an_empty_result_is_a_failure_only_if_all_results_of_the_rollout_are_empty(
    results: list[str], failed: float
) -> None:
    calls = [Call(name="bash", arguments="x", result=result, failure=failure(result)) for result in results]
    record, _ = Steps().filled(StepRecord(step=1), [Sample(step=1, response="a", calls=calls)])
    assert record.environment_failure_rate == failed


def test_rollouts_without_an_ending_count_as_complete_if_another_one_failed() -> None:
    ended = [Sample(step=1, response="a", finish=finish) for finish in ("environment", None, None, None)]
    assert Steps().filled(StepRecord(step=1), ended)[0].environment_failure_rate == 0.25
    assert Steps().filled(StepRecord(step=1), ended[1:])[0].environment_failure_rate is None


@pytest.mark.parametrize("word", ["repetition", "repetition_detected", "stuck_in_a_loop"])
def test_a_response_that_the_engine_stopped_in_a_loop_repeats_itself(word: str) -> None:
    rows = [{"prompt": "p", "response": "a a a", "finish_reason": word}, {"prompt": "p", "response": "b"}]
    assert Steps().filled(StepRecord(step=1), rows)[0].repetition_rate == 0.5


@pytest.mark.parametrize(("marked", "valid"), [(4, [0.5, 0.0]), (3, [None, None])])
def test_a_marked_answer_is_the_format_once_half_of_the_responses_of_a_step_have_one(
    marked: int, valid: list[float | None]
) -> None:
    steps = Steps()
    for step, with_answer in ((1, marked), (2, 0)):
        for n in range(8):
            response = r"so \boxed{7}" if n < with_answer else "so it is seven"
            steps.add(Sample(step=step, prompt=f"p{n}", response=response))
        steps.add(Sample(step=step, prompt="q", response="cut before the", finish="length"))
    assert [fields.get("valid_rate") for fields, _ in steps.fields()] == valid


@pytest.mark.parametrize(("responses", "mean"), [(2, None), (3, 0.5)])
def test_the_advantages_of_one_or_two_responses_do_not_describe_a_batch(responses: int, mean: float | None) -> None:
    rows = [{"prompt": "p", "response": f"r{n}", "advantage": 0.5} for n in range(responses)]
    assert Steps().filled(StepRecord(step=1), rows)[0].advantage_mean == mean


@pytest.mark.parametrize(("tie", "groups"), [({}, None), ({"task_id": 1}, 1)])
def test_responses_without_a_prompt_or_a_task_are_in_no_group(tie: dict[str, Any], groups: int | None) -> None:
    record, _ = Steps().filled(StepRecord(step=1), [{"response": f"r{n}", "reward": n, **tie} for n in range(4)])
    assert record.groups == groups


@pytest.mark.parametrize(("known", "valid"), [(4, None), (5, 1.0)])
def test_less_than_a_twentieth_of_the_responses_do_not_describe_a_step(known: int, valid: float | None) -> None:
    rows = [{"prompt": "p", "response": "r", "valid": True if n < known else None} for n in range(100)]
    assert Steps().filled(StepRecord(step=1), rows)[0].valid_rate == valid


def test_a_response_without_a_call_has_one_turn_and_no_call_once_the_run_calls_tools() -> None:
    called = "<search>x</search><information>y</information>z"
    run = Steps()
    first, _ = run.filled(StepRecord(step=1), [{"prompt": "p", "response": "z"}])
    both = [{"prompt": "p", "response": called}, {"prompt": "p", "response": "z"}]
    second, _ = run.filled(StepRecord(step=2), both)
    third, _ = run.filled(StepRecord(step=3), [{"prompt": "p", "response": "z"}])
    assert [r.tool_calls_per_response for r in (first, second, third)] == [None, 0.5, 0.0]
    assert [r.turns_per_response for r in (first, second, third)] == [None, 1.5, 1.0]


def test_the_turns_of_a_response_with_calls_stay_unknown_if_they_are_not_recorded() -> None:
    called = Sample(step=1, response="a", calls=[Call(name="calc", arguments="2+2", result="4")])
    record, _ = Steps().filled(StepRecord(step=1), [called])
    assert (record.tool_calls_per_response, record.turns_per_response) == (1.0, None)
