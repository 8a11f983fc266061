"""Transcripts without a training log: Inspect logs, nested results, and what one row of many responses shows."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import grpo_doctor.readers.archive as archive
from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.readers import ReadError, read

USER = {"role": "user", "content": "What is 2+2? Call the tool."}
SAID = {"role": "assistant", "content": "4"}


def sample(score: str, reply: str = "4") -> dict[str, Any]:
    """A sample of Inspect, whose output is only the last message."""
    call = {"id": "a", "function": "calc", "arguments": {"x": "2+2"}}
    messages = [USER, {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "content": reply}, SAID]  # fmt: skip
    output = {"choices": [{"message": SAID, "stop_reason": "stop"}]}
    events = [{"event": "model", "input": messages, "output": output}]
    return {"id": 1, "epoch": 1, "input": USER["content"], "target": "4", "messages": messages, "output": output,
            "scores": {"match": {"value": score, "answer": "4"}}, "events": events}  # fmt: skip


def inspect_log(path: Path, samples: list[Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("_journal/start.json", "{}")
        for number, one in enumerate(samples):
            log.writestr(f"samples/{number}_epoch_1.json", one if isinstance(one, str) else json.dumps(one))
        log.writestr("header.json", json.dumps({"status": "success"}))
    return path


def test_an_inspect_log_is_one_transcript_of_its_samples(tmp_path: Path) -> None:
    (run,) = read(inspect_log(tmp_path / "log.eval", [sample("C"), sample("I"), sample("C"), sample("C")]))
    assert (run.format, run.run_type, len(run)) == ("completions", "evaluation", 1)
    found = {name: run.columns[name].tolist() for name in ("reward_mean", "turns_per_response", "tool_failure_rate")}
    assert found == {"reward_mean": [0.75], "turns_per_response": [2], "tool_failure_rate": [0]}
    folder = tmp_path / "folder"
    folder.mkdir()
    inspect_log(folder / "log.eval", [sample("C")])
    assert [run.run_type for run in read(folder)] == ["evaluation"]


def test_the_unpacked_size_of_an_inspect_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST", 10_000)
    assert read(inspect_log(tmp_path / "at.eval", ["x" * 10_000]))[0].run_type == "evaluation"
    with pytest.raises(ReadError, match="an archive of more than 0 MB of samples; unpack it and pass the folder"):
        read(inspect_log(tmp_path / "above.eval", ["x" * 10_001]))
    monkeypatch.setattr(archive, "MEMBERS", 1)
    with pytest.raises(ReadError, match="an archive of 2 files, more than 1"):
        read(inspect_log(tmp_path / "many.eval", ["{}", "{}"]))


def test_a_damaged_inspect_log_is_one_line(tmp_path: Path) -> None:
    path = inspect_log(tmp_path / "log.eval", [sample("C")])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ReadError, match=r"log\.eval: the archive cannot be unpacked: File is not a zip file"):
        read(path)


def test_rollouts_in_a_document_of_results_by_task_are_read(tmp_path: Path) -> None:
    attempt = {"success": True, "reward": 1.0, "raw_messages": [USER, SAID]}
    tasks = [{"task_id": n, "pass": 1.0, "trajectories": [attempt, {**attempt, "reward": 0.0}]} for n in range(3)]
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"pass_at_1": 0.5, "per_task_results": tasks}, indent=1), encoding="utf-8")
    (run,) = read(path)
    assert (run.format, run.columns["reward_mean"].tolist()) == ("completions", [0.5])


@pytest.mark.parametrize(
    ("row", "read_as"),
    [
        ({"task_id": "HumanEval/0", "completion": "return 1"}, "completions"),
        ({"id": 0, "completion": "return 1"}, "metrics-jsonl"),
    ],
)
def test_a_text_is_a_response_if_its_task_is_known(tmp_path: Path, row: dict[str, Any], read_as: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(f"{json.dumps(row)}\n" * 3, encoding="utf-8")
    assert read(path)[0].format == read_as


def test_results_with_rewards_and_without_prompts_are_rollouts(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": [{"completion": "4", "reward": 1.0}]}, indent=1), encoding="utf-8")
    assert read(path)[0].format == "completions"


def judged(tmp_path: Path, replies: list[str]) -> Diagnosis:
    messages = [
        [USER, {"role": "assistant", "content": "", "tool_calls": [{"name": "calc", "arguments": {}}]},
         {"role": "tool", "content": reply}, SAID]
        for reply in replies
    ]  # fmt: skip
    path = tmp_path / "transcript.jsonl"
    rows = [{"messages": talk, "reward": float(reply == "4")} for talk, reply in zip(messages, replies, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (run,) = read(path)
    return diagnose(run)


@pytest.mark.parametrize(("failed", "of", "told"), [(3, 30, False), (4, 30, True), (20, 29, False)])
def test_a_transcript_of_thirty_responses_or_more_is_judged_by_itself(
    tmp_path: Path, failed: int, of: int, told: bool
) -> None:
    found = judged(tmp_path, ["HTTP 503: try again"] * failed + ["4"] * (of - failed))
    assert [f.code for f in found.findings if f.severity != "info"] == ["GEN012"] * told
    assert found.verdict == ("suspect" if told else "unjudged")
    if told:
        assert found.headline.startswith(
            "The environment failed in 13% of recent rollouts, and 100% of the failures got"
        )


def test_a_healthy_transcript_gives_no_finding(tmp_path: Path) -> None:
    found = judged(tmp_path, ["4"] * 60)
    assert (found.verdict, found.findings) == ("unjudged", [])


def test_files_of_a_step_each_are_judged_as_one_run_and_not_by_themselves(tmp_path: Path) -> None:
    for step in (1, 2):
        found = judged(tmp_path, ["HTTP 503: try again"] * 30)
        (tmp_path / "transcript.jsonl").rename(tmp_path / f"val_{step}.jsonl")
        assert found.verdict == "failing"
    (run,) = read(tmp_path)
    assert (len(run), run.settings) == (1, {})


def test_responses_with_advantages_are_those_of_a_training(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    row = {"prompt": "p", "response": "a", "reward": 0.5, "step": 0}
    path.write_text("".join(json.dumps({**row, "advantage": n}) + "\n" for n in (-1.0, 0.0, 1.0)), encoding="utf-8")
    assert read(path)[0].run_type == "rl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert read(path)[0].run_type == "evaluation"


def test_the_table_of_generations_that_verl_logs_is_read(tmp_path: Path) -> None:
    columns = ["step", "input_1", "output_1", "score_1", "input_2", "output_2", "score_2"]
    data = [[step, "p", "a", 0.5, "q", "b", step / 10] for step in (0, 10)]
    path = tmp_path / "generations_10.table.json"
    path.write_text(json.dumps({"columns": columns, "data": data}), encoding="utf-8")
    (run,) = read(path)
    assert (run.steps.tolist(), run.columns["reward_mean"].tolist()) == ([0, 10], [0.25, 0.75])
