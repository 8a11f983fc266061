"""Exports of trackers and custom loggers: long tables, texts, comments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_doctor.readers import read

from .make import known, run_of

N = 8
REWARDS = [i / 16 for i in range(1, N + 1)]
KLS = [i / 64 for i in range(1, N + 1)]
WANTED = {"reward_mean": REWARDS, "kl": KLS}


def lines(form: str, head: str = "") -> str:
    """Return a line in this format for each step."""
    rows = zip(REWARDS, KLS, strict=True)
    return head + "".join(form.format(i=i, r=r, k=k) for i, (r, k) in enumerate(rows, 1))


def long(form: str, head: str) -> str:
    """Return a long table in which the metrics follow one another, each with all of its steps."""
    both = (("reward", REWARDS), ("kl", KLS))
    return head + "".join(form.format(m=m, i=i, v=v) for m, vs in both for i, v in enumerate(vs, 1))


COMET = [
    {"metricName": m, "metricValue": str(v), "step": i, "epoch": None}
    for m, vs in (("reward", REWARDS), ("kl", KLS))
    for i, v in enumerate(vs, 1)
]
TEXTS: Callable[[Callable[[object], str]], str] = lambda written: "".join(
    json.dumps({"step": i, "ppo_metrics": written({"reward": r, "kl_div": k}), "note": "{free} text}"}) + "\n"
    for i, (r, k) in enumerate(zip(REWARDS, KLS, strict=True), 1)
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mlflow.csv", long("wise-owl,{m},{i},{v}\n", "Run,metric,step,value\n")),
        ("mlflow_named.csv", long("ab1,wise-owl,{m},{i},{v}\n", "Run ID,Name,metric,step,value\n")),
        ("aim.csv", long("ab1,{m},train,{i},{v}\n", "run.hash,metric.name,metric.context.subset,step,value\n")),
        ("comet.json", json.dumps(COMET)),
        ("python.jsonl", TEXTS(str)),
        ("json.jsonl", TEXTS(json.dumps)),
        ("comment.csv", lines("{i},{r},{k}\n", "# step,reward,kl\n")),
        ("comments.csv", lines("{i},{r},{k}\n", "# run: seven\n# step, reward, kl\n")),
        ("arrows.log", lines("[{i}/8] reward → {r}  kl → {k}\n")),
        ("arrows_of_ascii.log", lines("step {i} | reward -> {r} | kl -> {k}\n")),
        ("done.log", lines("step {i} done reward {r} kl {k}\n")),
        ("bare.log", lines("[{i}/8] r={r} kl={k}\n")),
        ("after_step.log", lines("Mean reward after step {i}: {r}\nMean KL after step {i}: {k}\n")),
        ("logged_after_step.log", lines("2025-01-01 00:00:01 - INFO - Reward of step {i}: {r}\n01 - INFO - KL at step {i} = {k}\n")),
        ("attached.log", lines("ep0 it{i} rwd:{r} kl:{k}\n")),
        ("turkish.log", lines("Adım {i}/8 | ortalama ödül: {r} | KL: {k}\n")),
        ("polish.log", lines("Krok {i}/8 | średnia nagroda: {r} | KL: {k}\n")),
        ("vietnamese.log", lines("Bước {i}/8 | phần thưởng trung bình: {r} | KL: {k}\n")),
        ("indonesian.log", lines("Langkah {i}/8 | rata-rata reward: {r} | KL: {k}\n")),
        ("arabic.log", lines("الخطوة {i}/8 | متوسط المكافأة: {r} | KL: {k}\n")),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value and len(value) < 30 else "",
)  # fmt: skip
def test_one_run_of_eight_steps(tmp_path: Path, name: str, content: str) -> None:
    run = run_of(tmp_path, name, content)
    columns = known(run)
    assert (run.run_type, run.steps.tolist()) == ("rl", list(range(1, N + 1)))
    assert {field: columns[field] for field in WANTED} == WANTED


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("reward.csv", '"step","timestamp","value"\n' + "".join(f"{i}.0,2025-01-01,{r}\n" for i, r in enumerate(REWARDS, 1))),
        ("mean_reward.json", json.dumps([[1.69e9 + i, i, r] for i, r in enumerate(REWARDS, 1)])),
    ],
    ids=["Neptune", "TensorBoard's page"],
)  # fmt: skip
def test_one_scalar_is_named_by_its_file(tmp_path: Path, name: str, content: str) -> None:
    run = run_of(tmp_path, name, content)
    assert (run.steps.tolist(), known(run)) == (list(range(1, N + 1)), {"reward_mean": REWARDS})


def test_a_long_table_of_two_runs(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.csv"
    head = "Run,metric,step,value\n"
    path.write_text(long("owl,{m},{i},{v}\n", head) + long("fox,{m},{i},{v}\n", ""), encoding="utf-8")
    assert [known(run) for run in read(path)] == [WANTED, WANTED]


EVALUATED = "Evaluated math500 in 120.5s (Pass@1: {e}, Completion Length: 812.2, Truncated: 3.8%)\n"
ANNOUNCED = "Iteration {i}, Evaluating... Total samples: 640\nreward: {e}\n"


@pytest.mark.parametrize("told", [EVALUATED, ANNOUNCED], ids=["evaluated in", "a sentence behind the dots"])
def test_scores_of_an_evaluation_between_the_steps(tmp_path: Path, told: str) -> None:
    text = "".join(
        f"Iteration: {i} reward: {r}\n" + (told.format(i=i, e=i / 32) if i % 4 == 0 else "")
        for i, r in enumerate(REWARDS, 1)
    )
    columns = known(run_of(tmp_path, "x.log", text))
    assert columns["reward_mean"] == REWARDS
    assert columns["eval_score"] == [None, None, None, 0.125, None, None, None, 0.25]


def test_episodes_that_have_a_seed_each_are_an_evaluation(tmp_path: Path) -> None:
    episodes = [{"episode": i, "seed": 7 * i, "final_reward": r} for i, r in enumerate(REWARDS)]
    run = run_of(tmp_path, "eval.json", json.dumps({"summary": {"mean_reward": 0.25}, "episodes": episodes}))
    assert run.run_type == "evaluation"
    trained = [{**episode, "seed": 7} for episode in episodes]
    assert run_of(tmp_path, "train.json", json.dumps({"episodes": trained})).run_type == "rl"


@pytest.mark.parametrize(
    ("document", "left"),
    [
        ({"n_trials": 2, "all_trials": [{"rank": 4, "lr": 1e-5}], "rung_steps": [5, 9]},
         {"n_trials": 1, "all_trials": 1, "rung_steps": 2}),
        ({"step_400": {"pass@1": 0.25, "pass@4": 0.5, "per_question": [0, 1, 0]}},
         {"step_400/pass@1": 1, "step_400/pass@4": 1, "step_400/per_question": 3}),
        ({"by_tier": {f"tier_{i}": 0.5 for i in range(30)}, "trials": [1, 2]}, {"by_tier": 30}),
        ({"history": [{"step": i, "reward": r} for i, r in enumerate(REWARDS)], "best": 0.5, "others": [{"a": 1.0}]},
         {"best": 1, "others": 1}),
    ],
    ids=["lists of trials", "figures beside a list", "many figures", "beside a history"],
)  # fmt: skip
def test_other_content_of_a_document_is_reported(tmp_path: Path, document: object, left: dict[str, int]) -> None:
    run = run_of(tmp_path, "x.json", json.dumps(document))
    assert {key: run.unread.get(key) for key in left} == left


@pytest.mark.parametrize(
    "content",
    [lines("{i},{r},{k}\n"), lines("{i} & {r} & {k} \\\\\n"), lines("[{r} {k}]\n")],
    ids=["CSV", "LaTeX", "numpy"],
)
def test_numbers_that_nothing_names_are_reported(tmp_path: Path, content: str) -> None:
    run = run_of(tmp_path, "x.txt", content)
    assert "8 lines starting at line 1 have numbers without names" in " ".join(run.notes)


@pytest.mark.parametrize(
    ("name", "header", "row"),
    [
        ("x.csv", "step,b,c\n", "{i},{r},{k}\n"),
        ("x.csv", "Iter #,b,pi_H\n", "{i},{r},{k}\n"),
        ("x.csv", "run,b,c\n", "mine,{r},{k}\n"),
        ("x.tsv", "step\tb\tc\n", "{i}\t{r}\t{k}\n"),
        ("x.md", "| step | b | c |\n|---|---|---|\n", "| {i} | {r} | {k} |\n"),
        ("x.txt", "step  b  c\n", "{i}  {r}  {k}\n"),
    ],
    ids=["CSV", "no step", "words", "TSV", "Markdown", "spaces"],
)
def test_a_mapped_column_makes_a_table(tmp_path: Path, name: str, header: str, row: str) -> None:
    (tmp_path / name).write_text(header + lines(row))
    (run,) = read(tmp_path / name, {"b": "reward_mean"})
    assert known(run)["reward_mean"] == REWARDS


def test_one_known_name_above_numbers_makes_a_table(tmp_path: Path) -> None:
    assert known(run_of(tmp_path, "x.csv", "a,reward,c\n" + lines("{k},{r},{k}\n")))["reward_mean"] == REWARDS
    assert not len(run_of(tmp_path, "y.csv", "a,reward,c\n" + lines("word,{r},{k}\n")))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a,b,c\n" + lines("{i},{r},{k}\n"), "columns a, b, c. For the reward, add --map NAME=reward_mean"),
        ("step\tb b\n" + lines("{i}\t{r}\n"), "columns step, b b. For the reward, add --map NAME=reward_mean"),
        (
            "| a | b |\n|---|---|\n" + lines("| {i} | {r} |\n"),
            "columns a, b. For the reward, add --map NAME=reward_mean",
        ),
        (lines("step {i} b={r} c={k}\n"), "names b, c. For the reward, add --map NAME=reward_mean"),
    ],
    ids=["CSV", "TSV", "Markdown", "console"],
)
def test_unknown_columns_are_named_with_the_option_that_maps_one(tmp_path: Path, content: str, told: str) -> None:
    assert run_of(tmp_path, "x.txt", content).notes == [f"No known metric among the {told}"]


def test_metrics_that_do_not_come_again_are_reported(tmp_path: Path) -> None:
    text = "wandb: Run summary:\nwandb:     train/kl 0.25\nwandb: train/reward 0.5\n"
    assert "the first is 'train/kl' on line 2" in " ".join(run_of(tmp_path, "x.log", text).notes)


def test_values_next_to_an_unread_step_are_reported(tmp_path: Path) -> None:
    text = "".join(
        f"Episode {i}/8: quality={r} cum_gain={k}\n" for i, (r, k) in enumerate(zip(REWARDS, KLS, strict=True), 1)
    )
    assert set(run_of(tmp_path, "x.log", text).unread) == {"quality", "cum_gain"}


def test_a_table_with_the_newest_row_first_is_read_from_its_end(tmp_path: Path) -> None:
    content = "step,reward,kl\n" + "".join(reversed(lines("{i},{r},{k}\n").splitlines(keepends=True)))
    run = run_of(tmp_path, "x.csv", content.replace("3,0.1875,", "3,nan,"))
    columns = known(run)
    assert (run.steps.tolist(), columns["kl"]) == (list(range(1, N + 1)), KLS)
    assert columns["reward_mean"] == [*REWARDS[:2], "NaN", *REWARDS[3:]]
    assert run.lines.tolist() == list(range(9, 1, -1))


def test_a_reward_without_numbers_is_named_with_its_first_value(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.csv", "step,reward,loss\n" + "".join(f"{i},good,0.{i}\n" for i in range(1, 6)))
    assert "reward has no numbers; its first value is 'good'" in run.notes
    run = run_of(tmp_path, "y.csv", "step,reward,loss\n1,n/a,0.5\n" + "".join(f"{i},0.5,0.{i}\n" for i in range(2, 6)))
    assert not any("no numbers" in note for note in run.notes)
