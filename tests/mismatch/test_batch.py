"""The Parquet file of a token batch, its limits, and what happens to files that are damaged or incomplete."""

import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.mismatch import BatchError, Response, TokenBatch, examined, read_batch, responses_of, write_batch
from grpo_doctor.mismatch import batch as module
from grpo_doctor.record import StepRecord

TO_PUSH, FOR_VERL, *_ = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs/mismatch.md").read_text("utf-8"), re.DOTALL
)
"""The code of the documentation."""

WHOLE = Response(
    token_ids=[1, 2, 3, 4, 5],
    prompt_length=2,
    mask=[True, True, False],
    engine_logprobs=[-0.5, -1.5, -2.5],
    old_logprobs=[-0.5, -1.25, -2.5],
    new_logprobs=[-0.5, -1.0, -2.5],
    reference_logprobs=[-1.0, -1.0, -1.0],
    entropy=[0.5, 0.25, 0.125],
    engine_experts=[1, 2, 1, 3, 0, 2],
    trainer_experts=[1, 2, 1, 2, 0, 2],
    advantage=-1.0,
    weight_version=7,
)


def test_reads_what_was_written(tmp_path: Path) -> None:
    batch = TokenBatch(
        step=9,
        responses=[WHOLE, Response(token_ids=[4, 5], prompt_length=1)],
        weight_version=8,
        settings={"top_p": 0.9},
    )
    assert write_batch(tmp_path / "batches" / "b.parquet", batch) == 2
    assert read_batch(tmp_path / "batches" / "b.parquet") == batch


def test_responses_are_taken_from_lists_and_padded_arrays() -> None:
    first, second = responses_of(
        [[1, 2], [3]],
        [np.array([4, 5]), [6]],
        engine_logprobs=np.array([[-1.0, -2.0], [-3.0, 0.0]]),
        old_logprobs=[[-1.5, -2.5], [-3.5]],
        entropy=None,
        advantage=np.array([0.5, -0.5]),
    )
    assert first == Response(
        token_ids=[1, 2, 4, 5],
        prompt_length=2,
        engine_logprobs=[-1.0, -2.0],
        old_logprobs=[-1.5, -2.5],
        advantage=0.5,
    )
    assert (second.token_ids, second.engine_logprobs, second.advantage) == ([3, 6], [-3.0], -0.5)


def test_a_response_with_fewer_values_than_tokens_is_left_out() -> None:
    (kept,) = responses_of([[1], [2]], [[3, 4], [5, 6]], engine_logprobs=[[-1.0], [-1.0, -2.0]])
    assert kept.token_ids == [2, 5, 6]
    assert len(responses_of([[1]] * 65, [[2]] * 65)) == 64


def test_the_example_of_the_documentation_names_the_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(TO_PUSH, names)
    assert "MIS007" in {finding.code for finding in names["findings"]}
    assert len(read_batch(Path("batch.parquet")).responses) == 64


def test_the_trainer_for_verl_writes_every_tenth_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {"prompts": [[1]], "responses": [[2, 3]], "response_mask": [[1, 1]]}
    stored = ids | {"rollout_log_probs": [[-1.0, -2.0]], "old_log_probs": [[-1.5, -2.0]]}

    class Trainer:
        def step(self, metrics: object, timing_raw: object) -> SimpleNamespace:
            return SimpleNamespace(keys=["0_0_0"], partition_id="train")

    def kept(keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        return {field: stored[field] for field in select_fields}

    v1 = SimpleNamespace(get_trainer_cls=lambda name: Trainer, register_trainer=lambda name: lambda trainer: trainer)
    monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=kept))
    monkeypatch.setitem(sys.modules, "verl.trainer.ppo.v1", v1)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(FOR_VERL, names)
    trainer = names["WithBatches"]()
    for trainer.global_steps in range(1, 21):
        assert trainer.step({}, {}).keys == ["0_0_0"]
    assert sorted(path.name for path in Path("runs/batches").iterdir()) == [
        "step-000010.parquet",
        "step-000020.parquet",
    ]
    (response,) = read_batch(Path("runs/batches/step-000020.parquet")).responses
    assert (response.token_ids, response.engine_logprobs, response.old_logprobs) == (
        [1, 2, 3],
        [-1.0, -2.0],
        [-1.5, -2.0],
    )


def test_a_batch_gives_the_scalars_that_a_record_does_not_have() -> None:
    record = examined(StepRecord(step=1, rollout_logp_diff=9.0), TokenBatch(step=1, responses=[WHOLE]))
    assert record.rollout_logp_diff == 9.0
    assert (record.rollout_mismatch_k1, record.rollout_surprise, record.trainer_surprise) == (-0.125, 1.0, 0.875)
    assert record.rollout_mismatch_kl == pytest.approx((math.exp(0.25) - 1.25) / 2)


def test_keeps_at_most_64_responses_and_two_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "b.parquet"
    assert write_batch(file, TokenBatch(step=1, responses=[WHOLE] * 65)) == 64
    monkeypatch.setattr(module, "MOST_BYTES", file.stat().st_size - 1)
    many = [Response(token_ids=list(range(n, n + 500)), prompt_length=1) for n in range(64)]
    assert 0 <= write_batch(file, TokenBatch(step=1, responses=many)) < 64


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (Response(token_ids=[1, 2], prompt_length=3), "prompt_length 3 is not in its tokens"),
        (Response(token_ids=[1, 2], prompt_length=0, entropy=[0.5]), "entropy has 1 values for 2 tokens"),
        (
            Response(token_ids=[1, 2], prompt_length=0, engine_experts=[1, 2, 3]),
            "engine_experts has 3 values, which is not a multiple of its 2 tokens",
        ),
    ],
)
def test_refuses_lists_that_do_not_fit(response: Response, message: str, tmp_path: Path) -> None:
    with pytest.raises(BatchError, match=message):
        write_batch(tmp_path / "b.parquet", TokenBatch(step=1, responses=[response]))
    with pytest.raises(BatchError, match=message):
        LiveDoctor().push(StepRecord(step=1), batch=TokenBatch(step=1, responses=[response]))


def test_names_what_to_install_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(BatchError, match=r"pip install '.\[parquet\]'"):
        write_batch(tmp_path / "b.parquet", TokenBatch(step=1, responses=[]))


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "b.parquet"
    write_batch(file, TokenBatch(step=1, responses=[WHOLE]))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BatchError, match="not a complete Parquet file"):
        read_batch(file)
    result = CliRunner().invoke(app, ["analyze", str(file)])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_batch_without_log_probabilities_gives_no_cause(tmp_path: Path) -> None:
    doctor = LiveDoctor(catalogue=load().select(["MIS"]))
    assert (
        doctor.push(StepRecord(step=1), batch=TokenBatch(step=1, responses=[Response(token_ids=[1], prompt_length=0)]))
        == []
    )
