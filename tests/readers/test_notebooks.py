"""Notebooks with the code of their cells, and the logs of notebooks that ran on Kaggle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .make import known, run_of

TRAINER = """
!pip install trl
max_seq_length = 1024
training_args = GRPOConfig(
    learning_rate = 5e-6, num_generations = 6, max_completion_length = max_seq_length,
    temperature = 0.9, output_dir = "outputs", max_steps = open("/etc/passwd").read(),
)
trainer = GRPOTrainer(model = model, reward_funcs = [correct], args = training_args)
"""


def notebook(source: str, html: str) -> str:
    cells = [
        {"cell_type": "code", "source": source, "outputs": []},
        {"cell_type": "code", "source": "trainer.train()", "outputs": [{"data": {"text/html": [html]}}]},
    ]
    return json.dumps({"nbformat": 4, "cells": cells})


def table(*columns: str) -> str:
    rows = "".join(f"<tr><td>{i}</td>{f'<td>0.{i:02d}</td>' * len(columns)}</tr>" for i in range(1, 21))
    return f"<table><tr><th>Step</th>{''.join(f'<th>{c}</th>' for c in columns)}</tr>{rows}</table>"


def test_the_code_shows_the_settings_and_the_trainer(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a.ipynb", notebook(TRAINER, table("Training Loss", "reward", "kl")))
    wanted = {"learning_rate": 5e-6, "group_size": 6, "max_new_tokens": 1024, "temperature": 0.9}
    assert wanted.items() <= run.settings.items()
    assert "max_steps" not in run.settings


@pytest.mark.parametrize(
    ("arguments", "kind"), [("GRPOConfig", "rl"), ("DPOConfig", "preference"), ("SFTConfig", "supervised")]
)
def test_the_arguments_show_the_kind_of_an_imported_trainer(tmp_path: Path, arguments: str, kind: str) -> None:
    code = f"own = GRPOConfig(beta=0.1)\ntraining_args = {arguments}(learning_rate=1e-6)\nt = make(args=training_args)"
    run = run_of(tmp_path, "a.ipynb", notebook(code, table("Training Loss")))
    assert run.run_type == kind


def test_a_notebook_whose_cells_come_after_its_widgets_is_one(tmp_path: Path) -> None:
    made = json.loads(notebook(TRAINER, table("Training Loss", "reward")))
    widgets = {f"{i:032x}": {"model_module": "@jupyter-widgets/controls", "state": {}} for i in range(3000)}
    text = json.dumps({"metadata": {"widgets": widgets}, **made})
    assert len(run_of(tmp_path, "a.ipynb", text)) == 20


def test_a_grpo_table_without_rewards_is_not_a_supervised_training(tmp_path: Path) -> None:
    run = run_of(tmp_path, "a.ipynb", notebook(TRAINER, table("Training Loss")))
    assert (run.run_type, len(run)) == ("rl", 20)
    assert any("GRPOTrainer" in note for note in run.notes)
    plain = run_of(tmp_path, "b.ipynb", notebook("trainer = SFTTrainer(model)", table("Training Loss")))
    assert plain.run_type == "supervised"


def test_a_table_of_preference_training_without_margins_is_not_a_supervised_training(tmp_path: Path) -> None:
    for trainer in ("DPOTrainer", "ORPOTrainer", "KTOTrainer"):
        run = run_of(tmp_path, "a.ipynb", notebook(f"trainer = {trainer}(model)", table("Training Loss")))
        assert run.run_type == "preference"
        assert f"the notebook uses {trainer}, but its table has no margin; log the margin too" in run.notes


@pytest.mark.parametrize(
    ("bar", "planned", "epochs"),
    [
        ("[20/20 39:48, Epoch 3/3]", 20, [0.15, 3.0]),
        ("[ 20/300 00:30 &lt; 01:20, 0.38 it/s, Epoch 0.35/1]", 300, [0.0175, 0.35]),
        ("[20/20 39:48, Epoch 0/1]", 20, None),  # rounded down
        ("[20/20 39:48]", None, None),  # the bar of an evaluation
    ],
)
def test_the_progress_bar_gives_the_planned_steps_and_epochs(
    tmp_path: Path, bar: str, planned: int | None, epochs: list[float] | None
) -> None:
    run = run_of(tmp_path, "a.ipynb", notebook(TRAINER, f"<div>{bar}</div>{table('Training Loss', 'reward')}"))
    epoch = run.columns.get("epoch")
    assert run.settings.get("max_steps") == planned
    assert (None if epoch is None else pytest.approx(epoch[[0, -1]])) == epochs


OWN_TRAINERS = """
class Bounded(ORPOTrainer):
    pass

class Rewarded(Trainer):
    def __init__(self, *args, reward_funcs=None, **kwargs):
        super().__init__(*args, **kwargs)

class Compared(Trainer):
    def __init__(self, ref_model, kl_coef=0.1, **kwargs):
        super().__init__(**kwargs)

class Weighted(Trainer):
    def __init__(self, weights, **kwargs):
        super().__init__(**kwargs)

class Shown(TrainerCallback):
    pass
"""


@pytest.mark.parametrize(
    ("trainer", "kind"),
    [("Bounded", "preference"), ("Rewarded", "rl"), ("Compared", "preference"), ("Weighted", "supervised")],
)
def test_a_trainer_of_the_notebook_is_known_by_its_base_class_and_its_arguments(
    tmp_path: Path, trainer: str, kind: str
) -> None:
    code = f"{OWN_TRAINERS}trainer = {trainer}(model, callbacks=[Shown()])"
    run = run_of(tmp_path, "a.ipynb", notebook(code, table("Training Loss")))
    assert run.run_type == kind
    assert any(trainer in note for note in run.notes) == (kind != "supervised")


def test_the_table_and_the_console_of_a_cell_are_two_halves_of_one_run(tmp_path: Path) -> None:
    made = json.loads(notebook(TRAINER, table("Training Loss")))
    rows = "".join(f"{{'reward': 0.{i:02d}, 'step': {i}}}\n" for i in range(1, 22))
    made["cells"][-1]["outputs"].append({"text": rows})
    run = run_of(tmp_path, "a.ipynb", json.dumps(made))
    assert (known(run)["loss"][-2:], known(run)["reward_mean"][-2:]) == ([0.2, None], [0.2, 0.21])


def raised(source: str, html: str, name: str, value: str) -> str:
    made = json.loads(notebook(TRAINER, html))
    error = {"output_type": "error", "ename": name, "evalue": value, "traceback": ["\x1b[31mframes\x1b[0m"]}
    made["cells"][-1]["source"] = source
    made["cells"][-1]["outputs"].append(error)
    return json.dumps(made)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ppo_trainer = PPOTrainer(model)\nppo_trainer.step(q, r, s)", "none"),
        ("run_ppo(model)", "none"),
        ("run_dpo(model)", "none"),
        ("plot(losses)", "supervised"),
    ],
)
def test_the_training_that_crashed_is_judged_and_not_the_supervised_stage_before_it(
    tmp_path: Path, code: str, kind: str
) -> None:
    made = json.loads(notebook("trainer = SFTTrainer(model)\ntrainer.train()", table("Training Loss")))
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no padding token", "traceback": []}
    made["cells"].append({"cell_type": "code", "source": code, "outputs": [error]})
    run = run_of(tmp_path, "a.ipynb", json.dumps(made))
    assert run.run_type == kind
    if kind == "none":
        assert run.ending is not None
        assert run.ending.raised == "ValueError: no padding token"
        assert any("supervised training of" in note for note in run.notes)


def test_an_exception_of_the_cell_is_the_end_of_the_run_in_its_table(tmp_path: Path) -> None:
    text = raised("trainer.train()", table("Training Loss", "reward"), "KeyboardInterrupt", "")
    run = run_of(tmp_path, "a.ipynb", text)
    assert run.ending is not None
    assert run.ending.kind == "interrupted"
    assert run.notes[0] == "the log ends with an interrupt; the rows before it are not affected"
    assert [event.message for event in run.events[19]] == ["an interrupt"]


@pytest.mark.parametrize(("source", "ended"), [("trainer.train()", True), ("print(example)", False)])
def test_an_exception_before_the_first_metric_is_reported_if_the_cell_trains(
    tmp_path: Path, source: str, ended: bool
) -> None:
    run = run_of(tmp_path, "a.ipynb", raised(source, "", "TypeError", "unhashable type: 'list'"))
    told = "the log ends with a traceback: TypeError: unhashable type: 'list'; no metric was read before it"
    assert (told in run.notes) == ended
    assert run.notes[-1] == "no metric was recognised in the outputs of its cells"


def test_the_code_shows_that_an_adapter_is_trained(tmp_path: Path) -> None:
    """Its reference is the base model, so the supervised stage in the adapter is not a fault (KL006)."""
    adapted = "model = FastLanguageModel.get_peft_model(model, r = rank)\n"
    for code, trained in ((adapted, True), ("peft_config = LoraConfig(r=8)\n", True), ("", None)):
        run = run_of(tmp_path, "a.ipynb", notebook(code + TRAINER, table("Training Loss", "reward", "kl")))
        assert run.settings.get("use_peft") is trained


def test_an_output_of_one_row_next_to_the_table_is_not_a_run(tmp_path: Path) -> None:
    made = json.loads(notebook(TRAINER, table("Training Loss", "reward")))
    made["cells"].append({"cell_type": "code", "source": "", "outputs": [{"text": "step: 3 loss: 0.5 reward: 1.0"}]})
    run = run_of(tmp_path, "a.ipynb", json.dumps(made))
    assert len(run) == 20
    assert "skipped 1 cell output with only one or two rows" in run.notes
    alone = json.loads(notebook(TRAINER, ""))
    alone["cells"].append(made["cells"][-1])
    assert len(run_of(tmp_path, "b.ipynb", json.dumps(alone))) == 1


def test_a_log_of_kaggle(tmp_path: Path) -> None:
    parts = [
        {
            "stream_name": "stdout" if i % 2 else "stderr",
            "time": i / 2,
            "data": f"{{'loss': 0.1, 'reward': {i / 20}, 'epoch': {i / 10}}}\n",
        }
        for i in range(1, 11)
    ]
    text = "[" + "\n,".join(map(json.dumps, parts)) + "\n]"
    run = run_of(tmp_path, "run.log", text)
    assert known(run)["reward_mean"] == [i / 20 for i in range(1, 11)]
    torn = run_of(tmp_path, "torn.log", text[:-60])
    assert len(torn) == 9
    assert any("incomplete" in note for note in torn.notes)


def test_a_rich_table_over_several_outputs_is_one_log(tmp_path: Path) -> None:
    line = "<pre style='white-space:pre'><span style='color: red'>step {0}</span> reward: 0.{0} kl: 0.01\n</pre>"
    outputs = [{"output_type": "display_data", "data": {"text/html": [line.format(i)]}} for i in range(1, 7)]
    made = {"cells": [{"cell_type": "code", "source": "train()", "outputs": outputs}]}
    run = run_of(tmp_path, "a.ipynb", json.dumps(made))
    assert known(run)["reward_mean"] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_the_number_of_steps_that_training_returns_numbers_its_rows(tmp_path: Path) -> None:
    rows = "".join(f"{{'loss': 0.{i}, 'grad_norm': 0.5, 'reward': 0.{i}}}\n" for i in range(1, 7))
    returned = {"text/plain": "TrainOutput(global_step=12, training_loss=0.3, metrics={'train_runtime': 71.8})"}
    cell = {"cell_type": "code", "source": "trainer.train()", "outputs": [{"text": rows}, {"data": returned}]}
    run = run_of(tmp_path, "a.ipynb", json.dumps({"nbformat": 4, "cells": [cell]}))
    assert run.steps.tolist() == [2, 4, 6, 8, 10, 12]


def test_an_html_export_is_read_like_the_notebook(tmp_path: Path) -> None:
    page = f"<!DOCTYPE html><html><body><pre>x = 1</pre>{table('Training Loss', 'reward')}</body></html>"
    assert len(run_of(tmp_path, "a.html", page)) == 20


def test_rows_numbered_by_epoch_get_the_steps_of_the_progress_bar(tmp_path: Path) -> None:
    rows = "".join(f"<tr><td>{n}</td><td>0.{9 - n}</td><td>0.{8 - n}</td></tr>" for n in range(1, 6))
    drawn = f"<table><tr><th>Epoch</th><th>Training Loss</th><th>Validation Loss</th></tr>{rows}</table>"
    run = run_of(tmp_path, "a.ipynb", notebook("DPOTrainer(model)", f"[3520/3520 45:54, Epoch 5/5]{drawn}"))
    assert (run.steps.tolist(), run.settings["max_steps"]) == ([704, 1408, 2112, 2816, 3520], 3520)


def test_a_table_without_rows_has_the_position_of_its_bar(tmp_path: Path) -> None:
    drawn = "[  2/150 : &lt; :, Epoch 0.00/1]<table><tr><th>Step</th><th>Training Loss</th></tr></table>"
    run = run_of(tmp_path, "a.ipynb", notebook("GRPOTrainer(model)\ntrainer.train()", drawn))
    assert (len(run), run.reached, run.settings["max_steps"]) == (0, 2, 150)


def test_an_error_before_other_outputs_does_not_end_the_cell(tmp_path: Path) -> None:
    made = json.loads(notebook(TRAINER, table("Training Loss", "reward")))
    failed = {"output_type": "error", "ename": "TypeError", "evalue": "takes 1 positional argument"}
    made["cells"][1]["outputs"].insert(0, failed)
    assert run_of(tmp_path, "a.ipynb", json.dumps(made)).ending is None
    made["cells"][1]["outputs"].append(failed)
    ended = run_of(tmp_path, "b.ipynb", json.dumps(made)).ending
    assert ended is not None
    assert "TypeError" in ended.described


def test_an_earlier_state_of_a_table_is_not_a_second_run(tmp_path: Path) -> None:
    whole = table("Training Loss", "reward")
    start = "</tr>".join(whole.split("</tr>")[:7]) + "</tr></table>"
    made = json.loads(notebook(TRAINER, f"<div>[20/20 39:48, Epoch 1/1]</div>{whole}"))
    made["cells"].append({"cell_type": "code", "source": "", "outputs": [{"data": {"text/html": [start]}}]})
    run = run_of(tmp_path, "a.ipynb", json.dumps(made))
    assert len(run) == 20
    assert "another output of the file is another log of this run and was not counted again" in run.notes


def test_the_other_columns_next_to_a_validation_loss_are_metrics_of_the_evaluation(tmp_path: Path) -> None:
    rows = "".join(f"<tr><td>{n}</td><td>0.6</td><td>0.5</td><td>0.{n}</td><td>0.2</td></tr>" for n in range(1, 5))
    titles = "".join(f"<th>{title}</th>" for title in ("Step", "Training Loss", "Validation Loss"))
    for named, field in (("Rewards/accuracies", "eval_score"), ("rewards / accuracies", "success_rate")):
        drawn = f"<table><tr>{titles}<th>{named}</th><th>Rewards/margins</th></tr>{rows}</table>"
        run = run_of(tmp_path, "a.ipynb", notebook("DPOTrainer(model)", drawn))
        assert known(run)[field] == [0.1, 0.2, 0.3, 0.4]
        assert run.columns.keys() == {"loss", "eval_loss", field, "reward_margin"}


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("print(scenario)", None),
        ("!python train.py", "exception"),
        ("subprocess.run(['python', 'train.py'])", "exception"),
    ],
)
def test_a_cell_without_an_error_was_not_ended_by_an_error_that_it_prints(
    tmp_path: Path, source: str, kind: str | None
) -> None:
    """A printed scenario said that the disk is full; the report took it for the end of the run."""
    rows = [f"step {n}: reward {n / 20:.2f} loss 0.1\n" for n in range(1, 20)]
    output = {"name": "stdout", "text": [*rows, "OSError: [Errno 28] No space left on device: checkpoint\n"]}
    book = {"nbformat": 4, "cells": [{"cell_type": "code", "source": source, "outputs": [output]}]}
    run = run_of(tmp_path, "a.ipynb", json.dumps(book))
    assert (run.ending.kind if run.ending else None) == kind
