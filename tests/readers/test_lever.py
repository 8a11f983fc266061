"""The pointer selector's epoch tables: printed in fixed-width columns, and several runs as CSV."""

import math
from pathlib import Path

import pytest

from grpo_doctor.readers import read
from tests.corpus_path import CORPUS, needs_corpus

TABLE = """阶段2：RCE预热
================================================================================
 Epoch   Train Loss     Val Loss  Temperature
--------------------------------------------------------------------------------
[DEBUG] RCE训练 - Epoch 1, Batch 0, Query 7
     1      4.10000      5.20000        2.000
     2      3.90000      5.10000        1.000
阶段3：GRPO训练
 Epoch   Train Loss     Val Loss     PPO Loss         KL    Adv Std    Adv Max     Beta
----------------------------------------------------------------------------------------------------
     1      0.01162      5.11661      0.00034    0.09400     0.0063     0.0072   0.1200
     2     -0.00100          nan     -0.00110        inf     0.0062     0.0090   0.0010
     3      0.00982            -      0.00092    0.07414     0.0062     0.0090   0.1200
     4      0.00982      5.1
✓ GRPO 训练完成！
"""


def test_fixed_width_table(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(TABLE, encoding="utf-8")
    (run,) = read(path)
    assert (run.format, run.run_type, run.steps.tolist(), run.lines.tolist()) == (
        "lever-epochs",
        "rl",
        [1, 2, 3],
        [11, 12, 13],
    )
    assert run.columns["loss"].tolist() == [0.01162, -0.001, 0.00982]
    assert run.columns["kl"].tolist() == [0.094, math.inf, 0.07414]
    assert run.columns["eval_loss"].tolist() == pytest.approx([5.11661, math.nan, math.nan], nan_ok=True)
    assert run.columns["kl_loss_share"].tolist() == pytest.approx([0.970740, math.nan, 0.906283], abs=1e-6, nan_ok=True)
    assert [(step, e.kind, e.message) for step, e in run.all_events()] == [
        (2, "nan", "kl is infinite"),
        (2, "nan", "kl_loss is infinite"),
    ]
    assert run.tables[0].rows == [["1", "4.1", "5.2", "2"], ["2", "3.9", "5.1", "1"]]
    assert run.notes[-1] == "line 14 is an incomplete table row and was skipped"


def test_the_supervised_phase_alone_is_not_rl(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(TABLE.split("阶段3")[0], encoding="utf-8")
    (run,) = read(path)
    assert (run.run_type, run.steps.tolist(), run.columns["eval_loss"].tolist()) == ("supervised", [1, 2], [5.2, 5.1])


def test_csv_has_one_run_for_each_value_of_run(tmp_path: Path) -> None:
    path = tmp_path / "epochs.csv"
    path.write_text(
        "run,kl_beta,lr,epoch,train_loss,ppo_loss,kl,adv_std,beta\n"
        "a,0.1,5e-6,1,,-0.0001,0.04,0.0063,\nb,0 (clip only),5e-5,1,nan,,17.34,0.28,\nc,0.1,,1,,0.0001,0.04,,0.001\n",
        encoding="utf-8",
    )
    a, b, c = read(path)
    assert [run.source.partition(".csv ")[2] for run in (a, b, c)] == ["(a)", "(b)", "(c)"]
    assert a.settings == {"kl_coef": 0.1, "learning_rate": 5e-6, "rows": "epochs"}
    assert a.columns["kl_loss_share"].tolist() == pytest.approx([0.004 / 0.0041])
    assert "loss" not in a.columns
    assert (b.settings["kl_coef"], math.isnan(b.columns["loss"][0])) == (0.0, True)
    assert "kl_coef" not in c.settings
    assert c.columns["kl_coef"].tolist() == [0.001]
    assert c.notes[0] == "KL coefficient declared as 0.1, but printed as [0.001]"


@needs_corpus
def test_the_eleven_runs() -> None:
    runs = {run.source.partition(".csv ")[2].strip("()"): run for run in read(CORPUS / "seed-lever" / "epochs.csv")}
    assert (
        list(runs) == "kl012_frozen plan5 plan6 v4_strictEval kl0145 kl0155 plan7 plan7_1 plan7_2 plan5+8 v4_9".split()
    )
    assert runs["kl012_frozen"].columns["advantage_std"].tolist() == [0.0063, 0.0062, 0.0062]
    assert runs["plan6"].steps.tolist() == [1, 2, 3, 4, 5, 22, 49, 50]
    assert runs["plan7"].columns["kl"].tolist() == [17.34]
    assert [e.message for _, e in runs["v4_9"].all_events()] == ["kl is NaN", "loss is NaN"]
    assert runs["v4_9"].columns["advantage_std"].tolist() == [0.9887]
