"""Changes that keep a log's rows: inserted text, colours, timestamps, ranks, line wraps, a repeated table, joined
logs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_doctor.readers import read
from grpo_doctor.run import Run

STEPS = range(1, 31)


def reward(i: int) -> float:
    return round(0.1 + 0.02 * i + 0.01 * (i * 7 % 5), 3)


LOGS = {
    "pairs": [f"step {i}/30 | reward={reward(i)} | loss={1 / i:.4f} | kl={0.001 * i:.4f}" for i in STEPS],
    "sentence": [f"[INFO] Step {i}: mean reward = {reward(i)}, policy loss = {1 / i:.4f}" for i in STEPS],
    "trl": [f"{{'loss': {1 / i:.4f}, 'grad_norm': 0.5, 'reward': {reward(i)}, 'epoch': {i / 100}}}" for i in STEPS],
    "verl": [
        f"step:{i} - actor/pg_loss:{1 / i:.4f} - critic/score/mean:{reward(i)} - actor/entropy:0.5" for i in STEPS
    ],
    "headlines": [
        line for i in STEPS for line in (f"=== Step {i}/30 ===", f"  reward: {reward(i)}", f"  loss: {1 / i:.4f}", "")
    ],
}
ANSWERS = (
    "Step 1: We add the 3 apples and the 4 pears.",
    "## Step 2: Compute 12 * 7 = 84",
    "**Step 3**: the reward of 5 coins is shared",
    "The accuracy of this is 0.9 and the loss is small.",
    "Therefore the answer is \\boxed{42}.",
    "1. First, let x = 5 and y = 7.",
)


def with_answers(lines: list[str]) -> list[str]:
    chance = random.Random(7)
    return [out for line in lines for out in (*chance.sample(ANSWERS, 3), line)]


def with_colours(lines: list[str]) -> list[str]:
    return [f"\x1b[36m{line}\x1b[0m" for line in lines]


def with_clocks(lines: list[str]) -> list[str]:
    return [f"2026-03-0{1 + i % 9} 10:{i % 60:02d}:07,123 {line}" for i, line in enumerate(lines)]


def with_processes(lines: list[str]) -> list[str]:
    return [f"\x1b[36m(TaskRunner pid=4711)\x1b[0m {line}" for line in lines]


def of_ranks(lines: list[str]) -> list[str]:
    return [f"[rank{rank}]: {line}" for line in lines for rank in (0, 1)]


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "answers": with_answers,
    "colours": with_colours,
    "clocks": with_clocks,
    "processes": with_processes,
    "ranks": of_ranks,
}


def rows(tmp_path: Path, lines: list[str]) -> list[Run]:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read(path)


def told(run: Run) -> tuple[list[int], list[float]]:
    return run.steps.tolist(), run.columns["reward_mean"].tolist()


WANTED = list(STEPS), [reward(i) for i in STEPS]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("lines", LOGS.values(), ids=LOGS.keys())
def test_rows_stay_as_they_are(tmp_path: Path, lines: list[str], change: Callable[[list[str]], list[str]]) -> None:
    (run,) = rows(tmp_path, change(lines))
    assert told(run) == WANTED


@pytest.mark.parametrize("name", ["trl", "verl"])
def test_lines_that_a_terminal_has_wrapped_are_read_whole(tmp_path: Path, name: str) -> None:
    wrapped = [line[at : at + 40] for line in LOGS[name] for at in range(0, len(line), 40)]
    (run,) = rows(tmp_path, wrapped)
    assert told(run) == WANTED


@pytest.mark.parametrize("name", ["pairs", "sentence", "headlines"])
def test_a_table_of_the_same_steps_below_the_rows_is_not_a_second_run(tmp_path: Path, name: str) -> None:
    table = ["| Step | Reward |", "|---|---|", *(f"| {i} | {reward(i)} |" for i in STEPS)]
    (run,) = rows(tmp_path, [*LOGS[name], "", "Summary", *table])
    assert told(run) == WANTED


@pytest.mark.parametrize("name", ["pairs", "sentence", "verl"])
def test_two_logs_one_after_the_other_are_two_runs(tmp_path: Path, name: str) -> None:
    start = ["Loading the model from disk", "Preparing the data set", "Starting the training now"]
    first, second = rows(tmp_path, [*start, *LOGS[name], *start, *LOGS[name]])
    assert told(first) == told(second) == WANTED


@pytest.mark.parametrize("name", ["pairs", "sentence"])
def test_two_logs_whose_lines_alternate_are_two_runs_by_their_tags(tmp_path: Path, name: str) -> None:
    others = [line.replace("=0.", "=1.").replace("= 0.", "= 1.") for line in LOGS[name]]
    pairs = zip(LOGS[name], others, strict=True)
    mixed = [line for own, other in pairs for line in (f"(a, pid=1) {own}", f"(b, pid=2) {other}")]
    first, second = rows(tmp_path, mixed)
    assert told(first) == WANTED
    assert second.steps.tolist() == WANTED[0]


def test_a_program_that_starts_again_begins_a_run_although_nothing_counts(tmp_path: Path) -> None:
    start = ["Loading the model from disk", "Preparing the data set", "Starting the training now"]
    row = "mean reward: 0.5 | policy loss: 0.25 | grad norm: 0.1"
    assert [len(run) for run in rows(tmp_path, [*start, row, *start, row, *start, row])] == [1, 1, 1]
