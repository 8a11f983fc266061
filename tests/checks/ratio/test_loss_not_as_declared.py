from collections.abc import Mapping
from typing import Any

import pytest
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes
from tests.probes.test_loss_form import objective


def probed(settings: Mapping[str, Any], **form: Any) -> Diagnosis:
    adapter = Adapter(settings=dict(settings), seams={"objective": objective(**form)})
    return run_probes(adapter, catalogue=load().select(["RAT011"]))


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        ({}, {}),
        ({"loss_type": "dapo"}, {"aggregation": "token mean", "high": 0.28}),
        ({"loss_type": "grpo", "importance_sampling_level": "token"}, {"aggregation": "sequence mean"}),
        ({"loss_agg_mode": "seq-mean-token-sum"}, {"aggregation": "sequence sum"}),
        ({"loss_type": "of their own"}, {"aggregation": "constant"}),
    ],
)
def test_a_loss_as_declared_holds_and_its_formula_is_a_note(settings: dict[str, Any], form: dict[str, Any]) -> None:
    found = probed(settings, **form)
    assert found.findings == []
    assert [note for note in found.notes if note.startswith("The loss is ")]


def test_reports_another_average_than_declared() -> None:
    found = probed({"loss_type": "grpo"}, aggregation="token mean").findings[0]
    assert (found.severity, found.message) == (
        "error", "loss_type=grpo declares the aggregation 'sequence mean', but the probe measured 'token mean'."
    )  # fmt: skip


def test_reports_token_ratios_where_sequence_ratios_are_declared() -> None:
    found = probed({"importance_sampling_level": "sequence"}, ratio="token").findings[0]
    assert (
        found.message
        == "importance_sampling_level=sequence declares the ratio 'sequence mean', but the probe measured 'token'."
    )


def test_a_loss_without_gradient_is_not_judged() -> None:
    def nothing(new: Tensor, *_: Any) -> Tensor:
        return (0 * new).sum()

    found = run_probes(Adapter(seams={"objective": nothing}), catalogue=load().select(["RAT011"]))
    assert found.findings == []
    assert found.verdict == "unjudged"


def test_a_reversed_k3_is_an_error() -> None:
    assert probed({}, kl="k3", beta=0.1).findings == []
    found = probed({}, kl="reversed k3", beta=0.1).findings[0]
    assert (found.severity, found.message) == (
        "error",
        "KL (coefficient 0.1) is k3 with the difference reversed, d = policy - reference: with d = reference - policy, "
        "exp(d) - d - 1 estimates the KL.",
    )


def test_a_ratio_that_is_always_1_is_a_note() -> None:
    (note,) = probed({}, ratio="none").notes
    assert note.endswith(" [log π A]. The ratio is 1 in every update of a batch, so a clip has no effect")
    assert "ratio is 1" not in probed({}).notes[0]
