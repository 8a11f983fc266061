"""Random runs: no learning run is flagged, and the first sentence states what happened to a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.run import Run
from tests.synthetic import varied


@pytest.mark.parametrize("seed", range(30))
def test_a_learner_is_not_flagged(seed: int) -> None:
    diagnosis = diagnose(varied.learner(np.random.default_rng(seed)))
    assert (diagnosis.verdict != "failing", diagnosis.cause) == (True, None), diagnosis.headline


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("happens", varied.FAILING)
def test_the_first_sentence_states_what_happened(happens: Callable[[np.random.Generator], Run], seed: int) -> None:
    diagnosis = diagnose(happens(np.random.default_rng(seed)))
    assert (diagnosis.verdict, diagnosis.cause in varied.FAILING[happens]) == ("failing", True), diagnosis.headline
