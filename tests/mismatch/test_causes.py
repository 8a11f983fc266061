"""The cause of generated batches of every kind is right: a sample of benchmarks/mismatch.py, with other seeds."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.mismatch import Response, TokenBatch, causes_of, write_batch
from grpo_doctor.readers import read

from .toy import CODES, STRENGTHS, TOLD_AS, made


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("kind", [kind for kind in STRENGTHS if kind != "healthy"])
def test_recognises_the_kind_and_reports_its_check(kind: str, tmp_path: Path) -> None:
    batch = made({kind: STRENGTHS[kind][1]}, 1)
    told = TOLD_AS.get(kind, kind)
    assert causes_of(batch)[0].name == told
    write_batch(tmp_path / "batch.parquet", batch)
    (run,) = read(tmp_path / "batch.parquet")
    assert diagnose(run).finding(CODES[told]) is not None


def test_two_sides_with_the_same_weights_have_no_cause() -> None:
    assert causes_of(made({}, 1)) == []


def test_finds_two_causes_together() -> None:
    assert {cause.name for cause in causes_of(made({"temperature": 1.25, "stale": 12}, 1))} == {"temperature", "stale"}


def test_the_ratio_of_the_temperatures_is_measured() -> None:
    assert causes_of(made({"temperature": 1.25}, 1))[0].effect == pytest.approx(1.25, rel=0.02)


def _noise(size: float, **known: list[float]) -> TokenBatch:
    """A batch whose differences are noise of this size."""
    rng = np.random.default_rng(0)
    responses = []
    for _ in range(20):
        trainer = -rng.exponential(0.7, 30)
        engine = trainer + size * rng.standard_normal(30)
        responses.append(
            Response(
                token_ids=[5] * 31, prompt_length=1, engine_logprobs=engine.tolist(), old_logprobs=trainer.tolist()
            )
        )
    return TokenBatch(step=3, responses=responses)


def test_noise_is_rounding_up_to_its_limit_and_undetermined_above() -> None:
    assert [cause.name for cause in causes_of(_noise(0.05))] == ["precision"]
    assert causes_of(_noise(0.12)) == []


def test_recorded_versions_show_stale_weights() -> None:
    batch = _noise(0.12)
    batch.weight_version = 5
    for response in batch.responses:
        response.weight_version = 3
    assert [(cause.name, cause.effect) for cause in causes_of(batch)] == [("stale", 2.0)]
    for response in batch.responses:
        response.weight_version = 5
    assert [cause.name for cause in causes_of(batch)] == ["other-weights"]


def test_a_difference_that_grows_with_the_age_shows_stale_weights() -> None:
    young, old = _noise(0.02), _noise(0.3)
    for version, response in enumerate([*young.responses, *old.responses]):
        response.weight_version = 5 if version < 20 else 1
    batch = TokenBatch(step=3, responses=[*young.responses, *old.responses], weight_version=5)
    assert causes_of(batch)[0].name == "stale"


def test_fewer_than_200_tokens_are_not_judged() -> None:
    batch = _noise(0.05)
    batch.responses = batch.responses[:6]
    assert causes_of(batch) == []


def test_unknown_log_probabilities_are_left_out() -> None:
    batch = _noise(0.05)
    for response in batch.responses:
        assert response.engine_logprobs is not None
        assert response.old_logprobs is not None
        response.engine_logprobs[0] = math.nan
        response.old_logprobs[1] = math.nan
    batch.responses[3].engine_logprobs = [math.nan] * 30
    assert [cause.name for cause in causes_of(batch)] == ["precision"]
