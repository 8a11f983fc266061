"""The Parquet file of a token batch, its limits, and what happens to files that are damaged or incomplete."""

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.mismatch import BatchError, Response, TokenBatch, examined, read_batch, write_batch
from grpo_doctor.mismatch import batch as module
from grpo_doctor.record import StepRecord

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
