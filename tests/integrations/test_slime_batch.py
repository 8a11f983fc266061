"""slime's ``--rollout-data-postprocess-path``: data in the layout that its training processes pass."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_doctor.integrations.slime_batch import record
from grpo_doctor.mismatch import read_batch

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")
ARGS = SimpleNamespace(rollout_temperature=1.0, rollout_top_p=0.9)


def data(difference: float = 0.25) -> dict[str, Any]:
    engine = [torch.full((n,), -1.0) for n in (3, 2)]
    return {
        "tokens": [torch.arange(5), torch.arange(4)],
        "response_lengths": [3, 2],
        "loss_masks": [torch.tensor([1, 1, 0], dtype=torch.int), torch.ones(2, dtype=torch.int)],
        "rollout_log_probs": engine,
        "log_probs": [logprobs + difference for logprobs in engine],
    }


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRPO_DOCTOR_OUT", "mine")


def test_every_tenth_rollout_gives_a_batch_once() -> None:
    for rollout in range(12):
        record(ARGS, rollout, data())
        record(ARGS, rollout, data(difference=0.5))  # another process
    assert sorted(path.name for path in Path("mine/batches").iterdir()) == [
        "step-000000.parquet",
        "step-000010.parquet",
    ]
    batch = read_batch(Path("mine/batches/step-000010.parquet"))
    assert (batch.step, batch.settings) == (10, {"temperature": 1.0, "top_p": 0.9})
    first, second = batch.responses
    assert (first.prompt_length, first.mask, first.old_logprobs) == (2, [True, True, False], [-0.75] * 3)
    assert (second.token_ids, second.engine_logprobs, second.reference_logprobs) == ([0, 1, 2, 3], [-1.0] * 2, None)


def test_a_process_without_both_sides_writes_nothing() -> None:
    for name in ("log_probs", "rollout_log_probs"):
        record(ARGS, 0, {key: value for key, value in data().items() if key != name})
    assert not Path("mine").exists()


def test_a_response_that_is_split_over_processes_is_left_out() -> None:
    split = data()
    split["log_probs"][0] = split["log_probs"][0][:2]
    record(ARGS, 0, split)
    assert len(read_batch(Path("mine/batches/step-000000.parquet")).responses) == 1
