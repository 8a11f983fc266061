"""``grpo-doctor convert --anonymize``: what stays, what goes, and that the log still reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers import read
from grpo_doctor.report.anonymize import shared


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{'loss': 0.0123, 'reward': -1.5e-3, 'epoch': 0.1}", "{'loss': 0.0123, 'reward': -1.5e-3, 'epoch': 0.1}"),
        ("step 12 reward=0.5 secret plan", "step 12 reward=0.5 w w"),
        ('{"prompt": "Alice owes Bob 3 pounds", "reward": 1}', '{"prompt": "w w w 3 w", "reward": 1}'),
        ("wandb: api_key=0123456789abcdef0123456789abcdef01234567", "w: w=[w]"),
        ("loading /home/alice/models/llama: done", "w /w: w"),
        ("alice@host:/data$ python train.py", "w:/w$ w w"),
        ("\x1b[31mloss: nan\x1b[0m", "loss: nan"),
        ("奖励: 0.5 张三", "奖励: 0.5 w"),
        ("run 7f3a9c", "w 7w3w9w"),
        ("Alice Smith: the plan is secret", "w w: w w w w"),
        ("Meet Bob: 5 pounds", "w w: 5 w"),
        ("password of Alice = tiger", "w w w = w"),
        ("my_metric: 0.5 | other: nan", "my_metric: 0.5 | other: nan"),
        ("Bob: 0.5\nBob: 0.6", "Bob: 0.5\nBob: 0.6"),
        ('{"completion": "{\\"Alice\\": 5}", "my_metric": 1}', '{"completion": "{\\"w\\": 5}", "my_metric": 1}'),
        ('{"note": "{\'Alice\': 5}", "Bob Smith": 1}', '{"note": "{\'w\': 5}", "w w": 1}'),
        ("loss\U000e0041\u200b: 0.5", "loss: 0.5"),
    ],
)
def test_keys_and_numbers_stay_and_words_go(line: str, expected: str) -> None:
    assert shared(line) == expected


def test_a_shared_log_reads_as_the_log_did(tmp_path: Path) -> None:
    lines = [f"{{'loss': {0.1 / i}, 'grad_norm': {i / 10}, 'reward': {i / 40}, 'kl': 0.01}}\n" for i in range(1, 21)]
    (tmp_path / "train.log").write_text("Loading my private model\n" + "".join(lines), encoding="utf-8")
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "train.log"), "--anonymize"])
    assert done.exit_code == 0, done.output
    before, after = (read(tmp_path / name)[0] for name in ("train.log", "train.log.shared"))
    assert after.columns.keys() == before.columns.keys()
    for name, column in before.columns.items():
        np.testing.assert_array_equal(after.columns[name], column)
    assert "private" not in (tmp_path / "train.log.shared").read_text(encoding="utf-8")


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe\x00\x81", "not a text file"), (None, "cannot be read")])
def test_a_log_that_cannot_be_shared_is_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "x"), "--anonymize"])
    assert done.exit_code == 2
    assert said in done.stderr
