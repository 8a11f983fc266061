"""The code that docs/mismatch.md gives for SkyRL and NeMo-RL writes the batch that their tensors and files contain."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from grpo_doctor.mismatch import read_batch

PROMPTS = [[101, 5], [101, 5, 6, 7]]
TOKENS = [[7, 9, 12, 2], [8, 2]]
ENGINE, TRAINER = [[-0.2, -1.1, -0.4, -0.1], [-0.7, -0.3]], [[-0.2, -1.2, -0.4, -0.1], [-0.6, -0.3]]
MASK = [[1, 0, 1, 1], [1, 1]]
COLUMNS: list[list[list[Any]]] = [MASK, ENGINE, TRAINER]


def documented(word: str) -> str:
    text = (Path(__file__).parents[2] / "docs/mismatch.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if word in block)
    return str(block)


def right(rows: list[list[Any]], length: int) -> torch.Tensor:
    """Align rows on the right, as SkyRL's tensors are."""
    return torch.tensor([[0] * (length - len(row)) + row for row in rows])


def expect(path: Path, step: int) -> None:
    batch = read_batch(path)
    assert batch.step == step
    assert [r.token_ids for r in batch.responses] == [p + t for p, t in zip(PROMPTS, TOKENS, strict=True)]
    assert [r.prompt_length for r in batch.responses] == [2, 4]
    assert [r.mask for r in batch.responses] == [[bool(x) for x in row] for row in MASK]
    for name, rows in (("engine_logprobs", ENGINE), ("old_logprobs", TRAINER)):
        assert [getattr(r, name) for r in batch.responses] == [pytest.approx(row) for row in rows]


def test_skyrl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks = ModuleType("skyrl.train.utils.callbacks")
    callbacks.TrainingCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, callbacks.__name__, callbacks)
    monkeypatch.chdir(tmp_path)
    code: dict[str, Any] = {}
    exec(documented("TrainingCallback"), code)
    whole = [p + t for p, t in zip(PROMPTS, TOKENS, strict=True)]
    data = {
        "sequences": right(whole, 6), "attention_mask": right([[1] * len(row) for row in whole], 6),
        "response_mask": right([[1] * len(row) for row in TOKENS], 4), "loss_mask": right(MASK, 4),
        "rollout_logprobs": right(ENGINE, 4), "action_log_probs": right(TRAINER, 4),
    }  # fmt: skip
    callback = code["TokenBatches"]()
    for step in (9, 10):
        callback.on_step_end(None, SimpleNamespace(batch=data, global_step=step), None)
    callback.on_step_end(None, SimpleNamespace(batch=data | {"action_log_probs": None}, global_step=20), None)
    (path,) = (tmp_path / "runs" / "batches").iterdir()
    expect(path, 10)


def test_nemo_rl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("train_data_step10.jsonl").open("w", encoding="utf-8") as file:
        for prompt, tokens, *rows in zip(PROMPTS, TOKENS, *COLUMNS, strict=True):
            padding = [0] * (8 - len(prompt + tokens))
            names = ("token_loss_mask", "generation_logprobs", "prev_logprobs")
            columns = {name: [[0] * len(prompt) + row + padding] for name, row in zip(names, rows, strict=True)}
            lengths = {"input_lengths": [len(prompt + tokens)], "token_ids": [prompt + tokens + padding]}
            file.write(json.dumps(columns | lengths) + "\n")
    exec(documented("generation_logprobs"), {})
    expect(Path("batch.parquet"), 10)
