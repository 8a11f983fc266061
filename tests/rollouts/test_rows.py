"""Rows of rollouts in the layouts of many frameworks become the same samples."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from grpo_doctor.rollouts import rollouts_of, step_of
from grpo_doctor.run import Call, Sample

USER = {"role": "user", "content": "What is 2+2? You can call tools."}
CALL = {
    "role": "assistant",
    "content": "Let me compute. ",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "calc", "arguments": '{"x": "2+2"}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "4"}
SAID = {"role": "assistant", "content": "So <answer>4</answer>"}
TALK = [USER, CALL, RESULT, SAID]

FLAT: dict[str, Mapping[str, Any]] = {
    "TRL": {"step": 3, "prompt": [USER], "completion": [SAID], "accuracy_reward": 1.0, "advantage": 0.5},
    "verl": {"input": "What is 2+2?", "output": "So <answer>4</answer>", "gts": "4", "score": 1.0, "step": 3, "acc": 1},
    "OpenRLHF": {"prompt": "What is 2+2?", "output": "So <answer>4</answer>", "reward": 1.0, "global_step": 3},
    "SkyRL": {
        "input_prompt": "What is 2+2?", "output_response": "So <answer>4</answer>", "score": 1.0, "stop_reason": "stop",
        "env_extras": {"global_step": 3, "ground_truth": "4"},
    },
    "verifiers": {
        "example_id": 7, "prompt": [USER], "completion": [SAID], "answer": "4", "reward": 1.0, "step": 3,
        "metrics": {"correct": 1.0, "format": 1.0},
    },
    "slime": {
        "rollout_id": 3, "prompt": "What is 2+2?", "response": "So <answer>4</answer>", "reward": 1.0, "label": "4",
        "response_length": 9, "status": "completed",
    },
    "ART": {"messages": [USER, SAID], "reward": 1.0, "metrics": {"win": 1}, "metadata": {"step": 3}},
    "rLLM": {
        "id": "a", "is_correct": True, "termination_reason": "ENV_DONE", "step": 3, "reward": 1.0,
        "trajectories": [{"steps": [{"observation": "What is 2+2?", "model_response": "So <answer>4</answer>"}]}],
    },
    "Inspect": {
        "step": 3, "input": "What is 2+2?", "target": "4", "messages": [USER, SAID],
        "scores": {"match": {"value": "C", "answer": "4"}},
    },
    "nested": {"trajectory": {"reward": 1.0}, "prompt": "What is 2+2?", "response": "So <answer>4</answer>", "step": 3},
}  # fmt: skip


@pytest.mark.parametrize("layout", FLAT)
def test_each_layout_gives_step_text_and_reward(layout: str) -> None:
    (sample,) = rollouts_of(FLAT[layout])
    assert (sample.step, sample.response, sample.reward) == (3, "So <answer>4</answer>", 1.0)
    assert sample.prompt is not None
    assert sample.prompt.startswith("What is 2+2?")


def test_other_values_of_a_row_are_kept() -> None:
    (verl,) = rollouts_of(FLAT["verl"])
    assert (verl.reference, verl.success) == (["4"], 1)
    (slime,) = rollouts_of(FLAT["slime"])
    assert (slime.tokens, slime.finish, slime.reference) == (9, "stop", ["4"])
    (verifiers,) = rollouts_of(FLAT["verifiers"])
    assert (verifiers.group, verifiers.components) == ("7", {"correct": 1.0, "format": 1.0})
    (skyrl,) = rollouts_of(FLAT["SkyRL"])
    assert (skyrl.finish, skyrl.reference) == ("stop", ["4"])
    (trl,) = rollouts_of(FLAT["TRL"])
    assert trl.advantage == 0.5
    (without,) = rollouts_of({"question": "q", "full_output": "I search.", "has_answer": False})
    assert without.valid is False


@pytest.mark.parametrize(
    "row",
    [
        {"messages": TALK, "reward": 1.0},
        {"prompt": [USER], "completion": TALK[1:], "reward": 1.0},
        {"trajectories": [{"messages": TALK, "reward": 1.0}]},
        {"per_task": [{"task": 1, "trajectories": [{"raw_messages": TALK, "reward": 1.0}]}]},
        {"prompt": json.dumps([USER]), "completion": json.dumps(TALK[1:]), "reward": 1.0},
        {"messages": TALK, "output": {"choices": [{"message": SAID}]}, "reward": 1.0},
        {
            "prompt": USER["content"],
            "response": 'Let me compute. <tool_call>{"name": "calc", "arguments": {"x": "2+2"}}</tool_call>'
            "<tool_response>4</tool_response>So <answer>4</answer>",
            "reward": 1.0,
        },
    ],
    ids=[
        "messages",
        "completion of messages",
        "trajectories",
        "results by task",
        "messages as JSON",
        "an output that ends the messages",
        "a transcript with tags",
    ],
)
def test_calls_are_read_with_their_results(row: Mapping[str, Any]) -> None:
    (sample,) = rollouts_of(row)
    assert sample.calls is not None
    (call,) = sample.calls
    assert (call.name, call.result, call.failure) == ("calc", "4", None)
    assert "2+2" in call.arguments
    assert "4</tool_response>" not in sample.response
    assert sample.turns == 2


def test_turns_of_actions_and_observations_are_read_in_their_order() -> None:
    action = {"tool_name": "get_pods", "tool_args": {"namespace": "default"}}
    steps = [
        {"thought": "Look first.", "action": action, "observation": "3 pods"},
        {"thought": "Done.", "action": "end"},
    ]
    (sample,) = rollouts_of({"steps": steps, "reward": 1.0})
    assert sample.calls is not None
    assert [(call.name, call.result) for call in sample.calls] == [("get_pods", "3 pods")]
    assert (sample.response, sample.turns) == ("Look first.\nDone.\nend", 2)
    before = [{"observation": "What is 2+2?", "response": "4"}]
    (other,) = rollouts_of({"steps": before, "reward": 1.0})
    assert (other.prompt, other.response) == ("What is 2+2?", "4")


def test_text_returned_by_an_api_is_a_response() -> None:
    (sample,) = rollouts_of({"input": "2+2", "output": {"choices": [{"message": {"content": "4"}}]}, "reward": 1.0})
    assert sample.response == "4"
    assert list(rollouts_of({"input": "2+2", "output": {"stop_reason": "stop"}, "reward": 1.0})) == []


@pytest.mark.parametrize("before", [[USER], TALK[:3]], ids=["a question", "a call and its result"])
def test_the_messages_of_an_api_request_are_the_prompt_of_its_choice(before: list[Any]) -> None:
    row = {"request": {"messages": before}, "response": {"choices": [{"message": CALL}]}, "finish_reason": "tool_calls"}
    (sample,) = rollouts_of(row)
    assert sample.calls is not None
    assert [call.name for call in sample.calls] == ["calc"]
    assert (sample.turns, sample.finish, sample.response) == (1, "stop", "Let me compute. ")
    assert (sample.prompt or "").startswith("What is 2+2?")


def test_a_solution_without_its_question_is_a_response_and_with_it_a_reference() -> None:
    (sample,) = rollouts_of({"task_id": "HumanEval/0", "solution": "def f(): ..."})
    assert (sample.response, sample.group, sample.reference) == ("def f(): ...", "HumanEval/0", None)
    assert list(rollouts_of({"task_id": "HumanEval/0", "prompt": "Write f.", "solution": "def f(): ..."})) == []


@pytest.mark.parametrize(("name", "reward"), [("temperature", None), ("brevity", 0.5)])
def test_a_sampling_setting_is_not_the_reward(name: str, reward: float | None) -> None:
    (sample,) = rollouts_of({"prompt": "p", "generated": "r", name: 0.5})
    assert sample.reward == reward


@pytest.mark.parametrize(
    ("row", "finish"),
    [
        ({"is_truncated": True}, "length"),
        ({"truncated": False}, "stop"),
        ({"truncated": True, "stop_reason": "abort"}, "aborted"),
        ({"truncated": "no"}, None),
    ],
)
def test_a_mark_of_truncation_is_the_ending_if_no_word_names_it(row: Mapping[str, Any], finish: str | None) -> None:
    (sample,) = rollouts_of({"prompt": "p", "response": "r", **row})
    assert sample.finish == finish


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("TimeoutError: no answer after 30 s", "time-out"),
        ("Execution timed out", "time-out"),
        ("HTTP 503: try again", "HTTP error"),
        ("429 Too Many Requests", "HTTP error"),
        ("ConnectionError: connection refused", "connection failure"),
        ("sandbox is not running", "sandbox failure"),
        ("JSONDecodeError: Expecting value", "invalid call"),
        ("Error: missing required argument 'query'", "invalid call"),
        ("Traceback (most recent call last):\n  NameError: x", "exception"),
        ("Error: division by zero", "error"),
        ("", "empty result"),
        ("  \n", "empty result"),
        ("4", None),
        ('{"error": null, "value": 4}', None),
        ("The article on the 404 error page " + "of the web " * 80, None),
        ("Doc 1: " + "text " * 100 + " a timeout " + "text " * 100, None),
    ],
)
def test_the_kind_of_a_failure_is_recognised_by_its_result(result: str, kind: str | None) -> None:
    row = {"messages": [USER, CALL, {**RESULT, "content": result}, SAID], "reward": 0.0}
    (sample,) = rollouts_of(row)
    assert sample.calls is not None
    assert sample.calls[0].failure == kind


@pytest.mark.parametrize(
    "call",
    ["<tool_call>{'name': calc</tool_call>", '<tool_call>{"arguments": {}}</tool_call>', '<tool_call>{"name": "calc"'],
)
def test_a_call_that_cannot_be_parsed_is_invalid(call: str) -> None:
    (sample,) = rollouts_of({"prompt": "use the tool", "response": call, "reward": 0.0})
    assert sample.calls is not None
    assert [one.failure for one in sample.calls] == ["invalid call"]


def test_several_responses_of_one_row_are_several_rollouts() -> None:
    row = {"prompt": "p", "responses": ["a", "b"], "rewards": [0.0, 1.0], "step": 2}
    assert [(s.response, s.reward, s.prompt) for s in rollouts_of(row)] == [("a", 0.0, "p"), ("b", 1.0, "p")]
    columns = {"prompt": ["p", "q"], "completion": ["a", "b"], "reward": [0.0, 1.0]}
    assert [(s.prompt, s.response) for s in rollouts_of(columns)] == [("p", "a"), ("q", "b")]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "p"},
        {"loss": 0.5, "step": 1},
        {"messages": [USER]},
        {"response": 0.5},
        {"prompt": "p", "output": None},
        {"prompt": "p", "model_output": [{"continuation": "4"}]},
    ],
)
def test_rows_without_a_response_are_not_rollouts(row: Mapping[str, Any]) -> None:
    assert list(rollouts_of(row)) == []


def test_tools_are_unknown_unless_the_prompt_shows_how_to_call_one() -> None:
    (without,) = rollouts_of({"prompt": "What is 2+2?", "response": "4"})
    (offered,) = rollouts_of({"prompt": "Search with <search> ... </search>.", "response": "4"})
    assert (without.calls, offered.calls) == (None, [])


@pytest.mark.parametrize(
    ("name", "folder", "step"),
    [
        ("12.jsonl", "rollouts", 12),
        ("completions_00012.parquet", "x", 12),
        ("rank_0.jsonl", "step_12", 12),
        ("0012.jsonl", "train", 12),
        ("global_step_12.jsonl.gz", "x", 12),
        ("results.jsonl", "run7", None),
        ("rollout_ckpt_200_gsmk_qwen.jsonl", "logs", None),
    ],
)
def test_the_step_is_read_from_the_name(name: str, folder: str, step: int | None) -> None:
    assert step_of(name, folder) == step


def test_depth_and_number_of_rollouts_of_a_row_are_bounded() -> None:
    row: dict[str, Any] = {"response": "a"}
    for _ in range(50):
        row = {"samples": [row]}
    assert list(rollouts_of(row)) == []
    assert len(list(rollouts_of({"responses": ["a"] * 20_000}))) == 10_000


@pytest.mark.parametrize(
    ("row", "finish"),
    [
        ({"error": "EnvironmentTimeout"}, "environment"),
        ({"error": {"error": "SandboxError", "message": "sandbox unavailable"}}, "environment"),
        ({"error": "AssertionError: 3 != 4"}, None),
        ({"status": "failed"}, None),  # the task, not its environment
        ({"stop_reason": "timeout"}, "environment"),
        ({"finish_reason": "length"}, "length"),
        ({"termination_reason": "TerminationReason.MAX_TURNS_EXCEEDED"}, "length"),
        ({"status": "aborted"}, "aborted"),
        ({"response": "[LLM ERROR: model not found (status code: 404)]"}, "environment"),
        ({"response": "ERROR: CUDA out of memory."}, "environment"),
        ({"response": "Error: the function divides by zero."}, None),  # an answer about code
    ],
)
def test_how_a_rollout_ended_is_recognised_by_its_own_words(row: Mapping[str, Any], finish: str | None) -> None:
    (sample,) = rollouts_of({"prompt": "p", "response": "a", **row})
    assert isinstance(sample, Sample)
    assert sample.finish == finish


@pytest.mark.parametrize("key", ["tool_call", "function_call"])
def test_a_single_call_of_a_message_is_read_and_returned_data_is_not_an_empty_result(key: str) -> None:
    call = {"name": "find", "arguments": {"name": "Ann"}}
    messages = [
        {"role": "user", "content": "Find Ann.", key: None},
        {"role": "assistant", "content": None, key: call},
        {"role": "tool", "content": {"ok": True, "result": {"id": 7}}, key: None},
        {"role": "assistant", "content": "7", key: None},
    ]
    (sample,) = rollouts_of({"messages": messages})
    assert sample.calls == [Call(name="find", arguments='{"name":"Ann"}', result='{"ok":true,"result":{"id":7}}')]


def test_an_action_that_is_data_is_not_an_empty_response() -> None:
    steps = [{"step_number": 1, "action": {"kind": "sort", "to": "bin"}, "observation": {"left": 2}, "reward": 1.0}]
    (sample,) = rollouts_of({"episode_id": "7", "steps": steps, "total_reward": 1.0})
    assert sample.response == '{"kind":"sort","to":"bin"}'


@pytest.mark.parametrize("key", ["raw_response", "full_output", "model_output", "response_text", "Agent Response"])
def test_a_qualifier_does_not_change_what_a_text_is(key: str) -> None:
    (sample,) = rollouts_of({"question": "What is 2+2?", key: "4", "model_answer": "4"})
    assert (sample.prompt, sample.response, sample.reference) == ("What is 2+2?", "4", None)


@pytest.mark.parametrize(
    "messages",
    [[USER], [USER, SAID, USER], [USER, {"role": "assistant", "content": "of the reference"}]],
    ids=["the prompt", "with examples", "another response"],
)
def test_messages_that_do_not_end_in_the_response_are_not_the_rollout(messages: list[Any]) -> None:
    (sample,) = rollouts_of({"messages": messages, "response": "4", "reward": 1.0})
    assert (sample.response, sample.turns) == ("4", None)


def test_a_response_that_is_json_stays_a_text() -> None:
    for text in ('{"action": "RESET"}', '[{"name": "calc"}]', "[1, 2", "{not json"):
        (sample,) = rollouts_of({"prompt": "p", "response": text, "reward": 0.0})
        assert sample.response == text


def test_reasoning_is_the_response_if_there_is_nothing_else() -> None:
    alone = {"role": "assistant", "content": None, "reasoning_content": "Benign"}
    (sample,) = rollouts_of({"prompt": [USER], "completion": [alone], "reward": 1.0})
    (other,) = rollouts_of({"prompt": [USER], "completion": [{**alone, "content": "4"}], "reward": 1.0})
    assert (sample.response, other.response) == ("Benign", "4")


def test_numbered_columns_are_several_rollouts() -> None:
    row = {"step": 3, "input_1": "p", "output_1": "a", "score_1": 0.5, "input_2": "q", "output_2": "b", "score_2": 1}
    assert [(s.step, s.prompt, s.response, s.reward) for s in rollouts_of(row)] == [
        (3, "p", "a", 0.5),
        (3, "q", "b", 1),
    ]
    parts = {"prompt": "p", "response": "a", "reward": 1.0, "func_1": 0.25, "func_2": 0.75}
    (one,) = rollouts_of(parts)
    assert (one.response, one.reward) == ("a", 1.0)


@pytest.mark.parametrize(
    ("said", "answered", "finish"),
    [
        ('{"action": "RESET"}', "API error while calling: Client error '400 Bad Request', status 400", "environment"),
        ("```bash\nls\n```", "The command timed out.", "environment"),
        ('{"action": "RESET"}', "The action is not allowed.", None),
        ("Which flight do you mean?", "My session timed out.", None),
    ],
)
def test_a_message_after_an_action_is_what_the_environment_returned(
    said: str, answered: str, finish: str | None
) -> None:
    talk = [USER, {"role": "assistant", "content": said}, {"role": "user", "content": answered}, SAID]
    (sample,) = rollouts_of({"messages": talk, "reward": 0.0})
    assert sample.finish == finish


def test_a_row_may_name_its_texts_by_role() -> None:
    row = {"rollouts": [{"user": "2+2?", "assistant": "4", "is_correct": 1}] * 2, "ground_truth_answer": "4"}
    assert [(s.prompt, s.response, s.success) for s in rollouts_of(row)] == [("2+2?", "4", 1.0)] * 2


def test_a_turn_may_name_its_text_as_a_response_is_named() -> None:
    call = '<tool_call>{"name": "search", "arguments": {"q": "7"}}</tool_call>'
    turns = [{"step": 0, "generated_text": call, "observation": "seven"}, {"step": 1, "generated_text": "It is 7."}]
    (sample,) = rollouts_of({"turns": turns, "total_reward": 1.0})
    assert sample.calls is not None
    assert [(one.name, one.result) for one in sample.calls] == [("search", "seven")]
    assert (sample.turns, sample.response.splitlines()[-1]) == (2, "It is 7.")


def test_tool_calls_in_content_blocks_are_calls() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "run", "input": {"file": "a.py"}}
    said = {"role": "assistant", "content": [{"type": "text", "text": "I run it."}, use]}
    given = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
    (sample,) = rollouts_of({"messages": [USER, said, given, SAID], "reward": 1.0})
    assert sample.calls is not None
    assert [(one.name, one.arguments, one.result) for one in sample.calls] == [("run", '{"file":"a.py"}', "ok")]
