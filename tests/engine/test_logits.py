"""The chunked statistics of logits against float64."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from grpo_doctor.engine.logits import group_maxima, largest_five, logit_statistics


@pytest.mark.parametrize("width", [5, 96, 1279, 1280, 5000, 32000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_statistics_agree_with_float64(width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(width)
    logits = (4 * torch.randn(17, width)).to(dtype)
    found = logit_statistics(logits, chunk_bytes=4 * width * 5)  # 5 rows a chunk, the last one ragged
    exact = logits.double()
    logprobs = exact.log_softmax(-1)
    top = exact.topk(5, -1).values
    close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-6)
    close(found.largest.double(), top[:, 0])
    close(found.gap.double(), top[:, 0] - top[:, 1])
    close(found.top_probs.double(), logprobs.topk(5, -1).values.exp())
    close(found.entropy.double(), -(logprobs.exp() * logprobs).sum(-1))
    close(found.normaliser.double(), exact.logsumexp(-1))


def test_top_five_is_exact_with_ties_and_in_the_last_ragged_group() -> None:
    rows = torch.zeros(2, 1290)
    rows[0, -3:] = torch.tensor([3.0, 9.0, 3.0])
    rows[1, [0, 1, 2, 700]] = 5.0
    maxima = torch.empty(2, 11)
    group_maxima(rows, maxima)
    assert largest_five(rows, maxima).tolist() == [[9.0, 3.0, 3.0, 0.0, 0.0], [5.0, 5.0, 5.0, 5.0, 0.0]]


def test_tokens_of_probability_0_do_not_change_the_entropy() -> None:
    logits = torch.full((1, 10), -math.inf)
    logits[0, :6] = 0.0
    assert logit_statistics(logits).entropy.item() == pytest.approx(math.log(6), abs=1e-6)


@pytest.mark.parametrize("offset", [-300.0, 0.0, 300.0])
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_logits_far_from_zero_and_far_apart(offset: float, spread: float) -> None:
    torch.manual_seed(0)
    logits = offset + spread * torch.randn(9, 3000)
    found, logprobs = logit_statistics(logits), logits.double().log_softmax(-1)
    exact = -(logprobs.exp() * logprobs).sum(-1)
    torch.testing.assert_close(found.entropy.double(), exact, atol=1e-4, rtol=1e-4)  # float32 holds 300 to 3e-5
    torch.testing.assert_close(found.normaliser.double(), logits.double().logsumexp(-1), atol=1e-4, rtol=0)


def test_tokens_of_probability_0_next_to_logits_far_from_0() -> None:
    logits = torch.tensor([[-math.inf] * 4 + [500.0, 500.0], [-math.inf] * 4 + [-500.0, -500.0]])
    found = logit_statistics(logits)
    assert found.entropy.tolist() == pytest.approx([math.log(2)] * 2, abs=1e-4)
    assert found.top_probs[:, :3].tolist() == [pytest.approx([0.5, 0.5, 0.0], abs=1e-5)] * 2


def test_a_nan_stays_in_its_row() -> None:
    logits = torch.zeros(3, 8)
    logits[1, 2] = math.nan
    assert logit_statistics(logits).entropy.isnan().tolist() == [False, True, False]
