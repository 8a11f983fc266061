"""JSON documents in third-party layouts: rows under any key, columns, curves, several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.readers import read

from .make import known, run_of

ROWS = [{"step": i, "reward": i / 10, "loss": 0.5} for i in (1, 2, 3)]
WANTED = {"reward_mean": [0.1, 0.2, 0.3], "loss": [0.5, 0.5, 0.5]}
COLUMNS = {"rewards": [0.1, 0.2, 0.3], "losses": [0.5, 0.5, 0.5]}

SHAPES: dict[str, Any] = {
    "rows under a key of their own": {"config": {"lr": 1e-6}, "training_history": ROWS, "summary": {"best": 0.8}},
    "rows deep inside": {"metadata": {"model": "qwen"}, "results": {"per_step": ROWS}},
    "rows by number": {f"step_{i}": {"reward": i / 10, "loss": 0.5} for i in (1, 2, 3)},
    "columns": {"config": {"lr": 1e-6}, "history": COLUMNS, "final": {"accuracy": 0.7}},
    "curves of pairs": {"reward_curve": [[i, i / 10] for i in (1, 2, 3)], "loss_curve": [[i, 0.5] for i in (1, 2, 3)]},
    "values a level deeper": {"metrics": {k: {"values": v, "max": 1.0} for k, v in (*COLUMNS.items(), ("_step", [1, 2, 3]))}},
    "values beside their steps": {k: {"steps": [1, 2, 3], "values": v} for k, v in COLUMNS.items()},
    "curves of points": {k: [{"step": r["step"], "value": r[k]} for r in ROWS] for k in ("reward", "loss")},
    "curves that repeat their name": {k: [{"step": r["step"], k: r[k]} for r in ROWS] for k in ("reward", "loss")},
    "a curve with a final mean": {k: [{"step": r["step"], k: r[k]} for r in (*ROWS, ROWS[-1])] for k in ("reward", "loss")},
    "rows and their series": {
        "log": [{**row, "kl": 0.1} for row in ROWS],
        "series": {k: [{"step": r["step"], k: r[k]} for r in ROWS] for k in ("reward", "loss")},
    },
}  # fmt: skip


HISTORY = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


@pytest.mark.parametrize(("iterations", "held"), [(6, None), (7, 7)])
def test_histories_next_to_settings(tmp_path: Path, iterations: int, held: int | None) -> None:
    """If there are as many iterations as steps, they count the loop and not passes over each rollout."""
    document = {"framework": "own", "learning_rate": 1e-5, "num_iterations": iterations, "reward_history": HISTORY}
    run = run_of(tmp_path, "x.json", json.dumps(document | {"final_reward": 0.6}))
    assert known(run)["reward_mean"] == HISTORY
    assert run.settings.get("num_iterations") == held


@pytest.mark.parametrize("name", SHAPES)
def test_one_run(tmp_path: Path, name: str) -> None:
    run = run_of(tmp_path, "x.json", json.dumps(SHAPES[name], indent=1))
    held = {key: value for key, value in known(run).items() if key not in ("epoch", "kl")}
    assert (run.steps.tolist(), held) == ([1, 2, 3], WANTED)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"grpo": ROWS, "ppo": ROWS}, ["grpo", "ppo"]),
        ({"grpo": COLUMNS, "ppo": COLUMNS}, ["grpo", "ppo"]),
        ({"sft": {"log_history": ROWS}, "grpo": {"log_history": ROWS}}, ["sft", "grpo"]),
    ],
)
def test_several_runs(tmp_path: Path, value: Any, names: list[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value), "utf-8")
    runs = read(path)
    assert [run.source.removeprefix(str(path)) for run in runs] == [f" ({name})" for name in names]
    assert all(known(run) == WANTED for run in runs)


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"history": v}])
def test_training_and_evaluation_are_one_run(tmp_path: Path, wrap: Any) -> None:
    value = {"train": ROWS, "eval": [{"step": 2, "reward": 0.9}]}
    value["eval"] *= 2  # a list of one row is a summary
    run = run_of(tmp_path, "x.json", json.dumps(wrap(value)))
    assert known(run) == {**WANTED, "eval_score": [None, 0.9, None]}


@pytest.mark.parametrize(
    "document", ["[[3.9, 2.9], 2.5]", "[[3.9, 2.9, 1.0]]\n2.47", "[2, [1, 2, 3], 4]", "[[1, 2, 3], 5]"]
)
def test_a_list_of_lists_and_numbers_has_no_steps(tmp_path: Path, document: str) -> None:
    run = run_of(tmp_path, "printed.json", document)
    assert (run.run_type, len(run)) == ("none", 0)


def test_a_list_of_numbers_is_what_its_file_is_called(tmp_path: Path) -> None:
    assert known(run_of(tmp_path, "reward_history.json", "[0.1, 0.2, 0.3]")) == {"reward_mean": [0.1, 0.2, 0.3]}
    assert run_of(tmp_path, "primes.json", "[2, 3, 5, 7]").run_type == "none"


@pytest.mark.parametrize(
    "value",
    [
        {"results": [{"question": "2 + 2", "response": "4", "reward": 1.0}] * 20},
        {"results": [{"model": "base", "reward": 0.2}, {"model": "grpo", "reward": 0.6}]},
        {"baseline": {"mean_reward": 0.2}, "trained": {"mean_reward": 0.7}, "episodes": 50},
        {"reward": 0.5, "loss": 0.1, "gradients": {"bins": [1, 2, 3], "values": [4, 5, 6]}},
    ],
)
def test_results_are_not_a_log(tmp_path: Path, value: Any) -> None:
    assert len(run_of(tmp_path, "x.json", json.dumps(value))) <= 1


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


LONG = [{"step": row["step"], "tag": f"train/{key}", "value": row[key]} for row in ROWS for key in ("reward", "loss")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.jsonl", jsonl(LONG * 8)),
        ("x.csv", "Step,Metric,Value\n" + "".join(f"{r['step']},{r['tag']},{r['value']}\n" for r in LONG)),
        ("x.jsonl", jsonl([{"level": "INFO", "msg": f"step {r['step']}: reward={r['reward']} loss=0.5"} for r in ROWS])),
        ("x.jsonl", jsonl([{"message": "train", "extra": row} for row in ROWS])),
    ],
    ids=["long JSONL", "long CSV", "records of logging", "records with fields"],
)  # fmt: skip
def test_rows_in_other_clothes(tmp_path: Path, name: str, text: str) -> None:
    run = run_of(tmp_path, name, text)
    assert (sorted(set(run.steps.tolist())), {k: v[:3] for k, v in known(run).items()}) == ([1, 2, 3], WANTED)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json"])
def test_a_column_may_name_the_runs(tmp_path: Path, suffix: str) -> None:
    rows = [{"method": method, "seed": 1, **row} for method in ("grpo", "ppo") for row in ROWS]
    lines = "method,seed,step,reward,loss\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    path = tmp_path / f"x.{suffix}"
    path.write_text({"csv": lines, "jsonl": jsonl(rows), "json": json.dumps(rows)}[suffix], "utf-8")
    runs = read(path)
    assert [run.source.removeprefix(str(path)) for run in runs] == [" (grpo 1)", " (ppo 1)"]
    assert all(known(run) == WANTED for run in runs)


def test_a_row_for_each_response_is_a_step_with_their_mean(tmp_path: Path) -> None:
    rows = [{"step": step, "reward": reward, "kl": step} for step in (1, 2, 3) for reward in (0, 1, step)]
    held = known(run_of(tmp_path, "x.jsonl", jsonl(rows)))
    assert held["reward_mean"] == pytest.approx([2 / 3, 1, 4 / 3])
    assert held["kl"] == [1, 2, 3]


@pytest.mark.parametrize(
    "value",
    [
        {"training_rewards": [0.1, 0.2, 0.3], "before_rewards": [0.1, 0.2], "after_rewards": [0.8, 0.9], "note": "x"},
        {"task": {"history": {"train_rewards": [0.1, 0.2, 0.3], "eval_rewards": [5, 6]}, "random_rewards": [1, 2]}},
        {
            "episode_scores": [0.1, 0.2, 0.3],
            "overall_avg": 0.2,
            "all_results": [{"topic": "x", "mean_reward": 0.1}] * 3,
        },
    ],
)
def test_the_columns_of_training_are_the_run(tmp_path: Path, value: Any) -> None:
    assert known(run_of(tmp_path, "x.json", json.dumps(value))) == {"reward_mean": [0.1, 0.2, 0.3]}


def test_a_trace_is_the_series_of_what_it_is_called_after(tmp_path: Path) -> None:
    document = {"model": "a", "reward_trace": [0.1 * i for i in range(9)], "kl_trace": [0.01 * i for i in range(9)]}
    (tmp_path / "a.json").write_text(json.dumps(document), encoding="utf-8")
    (run,) = read(tmp_path / "a.json")
    assert run.columns["kl"].tolist() == document["kl_trace"]
    assert run.columns["reward_mean"].tolist() == document["reward_trace"]


def test_names_of_columns_above_rows_are_a_table(tmp_path: Path) -> None:
    table = {"columns": ["step", "reward"], "index": [*range(9)], "data": [[i, i / 10] for i in range(9)]}
    run = run_of(tmp_path, "x.json", json.dumps(table))
    assert run.columns["reward_mean"].tolist() == [i / 10 for i in range(9)]
    assert not len(run_of(tmp_path, "y.json", json.dumps({**table, "columns": ["step"]})))


def test_a_document_with_the_rows_of_the_training_is_a_log_whatever_texts_follow(tmp_path: Path) -> None:
    """Rollouts in the same document were read as the log; the rows of the training were lost."""
    train = [{"rollout_step": n, "loss": 0.1, "mean_reward": n / 10} for n in range(1, 4)]
    said = {"stage": "before", "examples": [{"question": "2+2?", "response": "4", "ground_truth": "4", "reward": 1}]}
    run = run_of(tmp_path, "a.json", json.dumps({"config": {"seed": 0}, "train": train, "rollouts": [said]}, indent=1))
    assert known(run)["reward_mean"] == [0.1, 0.2, 0.3]
    only = run_of(tmp_path, "b.json", json.dumps({"rollouts": [said] * 3}, indent=1))
    assert only.format == "completions"


def test_the_step_of_a_checkpoint_counts_the_rows(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a.csv", "checkpoint_step,reward\n8,0.1\n16,0.2\n24,0.3\n")
    assert run.steps.tolist() == [8, 16, 24]
