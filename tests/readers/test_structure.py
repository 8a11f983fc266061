"""How console lines become rows: what counts them, which belong together, and which describe one response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from grpo_doctor.readers import read
from grpo_doctor.run import Run


@pytest.fixture
def runs_of(tmp_path: Path) -> Callable[[Sequence[str]], list[Run]]:
    def read_lines(lines: Sequence[str]) -> list[Run]:
        log = tmp_path / "train.log"
        log.write_text("\n".join(lines) + "\n")
        return read(log)

    return read_lines


Reader = Callable[[Sequence[str]], list[Run]]


def summed_up(between: Sequence[int]) -> list[str]:
    """Lines of a loss without a counter, and after this many of them the line that counts in fives."""
    lines = []
    for place, count in enumerate(between, 1):
        lines += [f"grpo_loss is {0.5 / (place + i)} and kl is 0.0{i}" for i in range(count)]
        lines.append(f"[step {5 * place}] avg_loss={0.5 / place:.3f} acc=0.{place}")
    return lines


def test_lines_between_two_counts_are_the_steps_between(runs_of: Reader) -> None:
    (run,) = runs_of(summed_up([5] * 6))
    assert run.steps.tolist() == list(range(1, 31))
    assert run.columns["success_rate"][4] == 0.1


def test_lines_that_are_too_few_for_the_steps_between_two_counts_are_averaged(runs_of: Reader) -> None:
    (run,) = runs_of(summed_up([3] * 6))
    assert run.steps.tolist() == [5, 10, 15, 20, 25, 30]


def test_rewards_of_responses_are_averaged_to_the_step_that_is_named_below_them(runs_of: Reader) -> None:
    lines = []
    for step in (1, 2, 3):
        lines += [f"Reward: {step}.{i}; Response: the number is {i}" for i in (0, 2)]
        lines += [f"Grad step {i}/2 in train step {step}/3 completed. Objective: 0.1" for i in (1, 2)]
    (run,) = runs_of(lines)
    assert run.steps.tolist() == [1, 2, 3]
    assert run.columns["reward_mean"].tolist() == pytest.approx([1.1, 2.1, 3.1])


def test_rewards_of_responses_alone_are_not_steps(runs_of: Reader) -> None:
    (run,) = runs_of([f"Reward: 0.{i}; Response: the number is {i}" for i in range(9)])
    assert len(run) == 0


def test_a_response_next_to_a_mean_does_not_change_it(runs_of: Reader) -> None:
    lines = [line for i in range(1, 7) for line in (f"step {i} | reward: 0.{i} | loss: 0.5", "Sample 1: reward: 9.0")]
    (run,) = runs_of(lines)
    assert run.columns["reward_mean"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def test_a_line_with_a_remark_at_its_end_is_a_row_like_the_others(runs_of: Reader) -> None:
    lines = [f"Step {i}: avg_reward=0.{i}, seq_len=404.5" for i in range(1, 9)]
    lines[6] += "  <- best step (2/8 correct)"
    (run,) = runs_of(lines)
    assert run.steps.tolist() == list(range(1, 9))


def test_a_total_below_a_heading_of_rewards_is_the_reward(runs_of: Reader) -> None:
    lines = []
    for step in range(4):
        lines += [
            f"[Call #1 for step {step}: scoring 12 completions]",
            f"Reward calculation complete ({40 + step}.9s):",
        ]
        lines += ["   Grammar : min=1.0, max=9.0, avg=5.0", f"   TOTAL   : min=0.1, max=9.0, avg={step}.5"]
    (run,) = runs_of(lines)
    assert run.columns["reward_mean"].tolist() == [0.5, 1.5, 2.5, 3.5]


def test_lines_of_a_count_that_goes_back_and_on_again_are_left_out(runs_of: Reader) -> None:
    counts = [0, 1, 2, 0, 3, 4, 5]
    (run,) = runs_of([line for i in counts for line in (f"[Call #1 for step {i}: scoring]", f"  reward: mean=0.{i}")])
    assert run.steps.tolist() == [0, 1, 2, 3, 4, 5]


ROW = "{{'loss': 0.1, 'grad_norm': 0.5, 'reward': 0.{0}, 'epoch': {1}}}"
SUMMARY = "{'train_runtime': 55.2, 'train_samples_per_second': 0.2, 'train_steps_per_second': 0.1, 'train_loss': 0.1"


def test_a_summary_of_a_training_is_a_row_where_it_has_metrics_since_the_last_one(runs_of: Reader) -> None:
    rows = [ROW.format(i, i / 10) for i in range(1, 6)]
    (run,) = runs_of([*rows, SUMMARY + ", 'reward': 0.9, 'epoch': 1.0}"])
    assert (len(run), run.columns["reward_mean"][-1]) == (6, 0.9)
    (run,) = runs_of([*rows, SUMMARY + ", 'epoch': 1.0}"])
    assert len(run) == 5


@pytest.mark.parametrize(("first", "runs"), [(0.6, 1), (0.1, 2)])
def test_a_training_has_ended_where_its_epochs_do_not_go_on(runs_of: Reader, first: float, runs: int) -> None:
    """Rows may be printed late, after the summary."""
    before = [ROW.format(i, i / 10) for i in range(1, 6)]
    after = [ROW.format(i, first + i / 100) for i in range(1, 6)]
    assert len(runs_of([*before, SUMMARY + ", 'epoch': 1.0}", *after])) == runs


def test_rewards_of_a_response_next_to_updates_with_the_reward_are_not_a_row(runs_of: Reader) -> None:
    update = "rl_loss: 0.0, token_entropy: 0.5, reward_data: {{'total_reward': 1.{0}, 'total_num': 256}}"
    sample = "reward: {'format_reward': 1.0, 'answer_reward': 0.0, 'reward': 0.0}"
    (run,) = runs_of([sample, *(line for i in range(6) for line in (update.format(i), sample))])
    assert run.columns["reward_mean"].tolist() == pytest.approx([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])


def test_a_counter_before_other_words_counts_the_mapping_after_them(runs_of: Reader) -> None:
    row = "INFO:metrics:Step {0}, Epoch 0: {{'policy_loss': 0.5, 'reward_mean': 0.{0}, 'total_loss': 0.1}}"
    (run,) = runs_of([line for i in range(3, 9) for line in (f"12:00 - {row.format(i)}", row.format(i))])
    assert run.steps.tolist() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("line", ["tick {0} | reward {1} | loss 0.5", "tick={0} reward={1} loss=0.5"])
def test_a_mapped_name_counts_the_rows(tmp_path: Path, line: str) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"{line.format(3 * i, i / 100)}\n" for i in range(1, 21)))
    (run,) = read(log, {"tick": "step"})
    assert run.steps.tolist() == [*range(3, 63, 3)]


def test_a_mapped_name_makes_mappings_of_unknown_names_rows(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"{{'gain_x': {i / 100}, 'foo': {i}}}\n" for i in range(1, 21)))
    (run,) = read(log)
    assert run.unread == {"gain_x": 20, "foo": 20}
    (run,) = read(log, {"gain_x": "reward_mean"})
    assert run.columns["reward_mean"].tolist() == [i / 100 for i in range(1, 21)]


def test_a_metric_with_impossible_values_gives_no_rows(runs_of: Reader) -> None:
    lines = []
    for epoch in range(1, 4):
        lines += [f"step={10 * i}, skipped={5 + i}, mom=0.9" for i in range(20 * epoch, 20 * epoch + 20)]
        lines.append(f"Epoch {epoch}/3 with loss {1 / epoch}")
    (run,) = runs_of(lines)
    assert len(run) == 3


@pytest.mark.parametrize(
    ("line", "held_out"),
    [
        ("[it {}] eval: win rate 24.8%", True),
        ("[Step {}] Eval: Reward=0.248", True),
        ("INFO:__main__:Evaluated [step {}] rewards = 0.248", True),
        ("[Step {}] Reward=0.248", False),
    ],
)
def test_an_evaluation_may_be_named_after_its_counter(runs_of: Reader, line: str, held_out: bool) -> None:
    """As printed by vhicrgit/mahjong159 and benchang323/RLHF-T5-Reward-Guided-Transformers, and by the trainers that
    descend from liujch1998/rainier."""
    lines = [f"[it {i}] pg=-0.2{i} kl=0.01{i}" for i in range(10)]
    (run,) = runs_of([text for i, row in enumerate(lines) for text in (row, line.format(i))])
    assert ("eval_score" in run.columns, "reward_mean" in run.columns) == (held_out, not held_out)
    assert len(run) == 10


def test_series_below_headings_have_the_names_of_their_headings(runs_of: Reader) -> None:
    """Held-out scores listed above the training belong to its steps."""
    scores = [f"step:{i}\treward/mean@1:np.float64(0.{i})" for i in (0, 2, 4, 6, 8)]
    rewards = [f"  step {i}: 0.{i}5" for i in range(1, 10)]
    heads = ["## val curve (reward/mean@1, 20 held-out tasks):", "## train reward per step:"]
    (run,) = runs_of([heads[0], *scores, "", heads[1], *rewards])
    assert run.steps.tolist() == [*range(1, 10)]
    assert run.columns["reward_mean"].tolist() == [0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]
    assert run.columns["eval_score"][[0, 1, 3, 5, 7]].tolist() == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert "the evaluations are listed apart from the other rows" in run.notes


def test_an_unnamed_number_without_a_heading_is_not_a_metric(runs_of: Reader) -> None:
    (run,) = runs_of([f"  step {i}: 0.{i}5" for i in range(1, 7)])
    assert run.run_type == "none"
