"""Every wrong variant of the reference trainer is flagged by its own probe, and no correct one is flagged. On the first
variant of some codes, all probes run. `python -m tests.probes.broken_styles` shows for every variant in other styles
that no other code heads the report.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes
from tests.probes import broken_reference
from tests.probes.open_notes import open_notes
from tests.probes.reference import Reference

CAUSES = {
    "PAD001": "CountAsPosition ExtractionDropsFirst ExtractionDropsLast ExtractionOfFirstRowOnly "
    "TextCutAtSpecial ExtractionBeginsInPrompt",
    "PAD002": "AssumesRightPadding StartsOneLate StartsOneEarly EndsOneEarly ShiftedForLongest EosMissing PromptTrained "
    "TrainsPadding SingleTokenDropped LastMissingWhenCut ShiftedForLongestPrompt "
    "Unshifted LabelsUnshifted",
    "PAD003": "ByIdentity TrailingPadStripped",
    "PAD004": "NoAttentionMask SomeRowsUnmasked",
    "KL006": "RawPromptInLoss RawPromptInReference OtherReference PromptLosesFirstToken NewlineLostInLoss",
    "KL003": "ReferenceIsThePolicy",
    "KL004": "RewardsDivergence",
    "GEN005": "TrainsFallback LosesEos",
    "RAT003": "Dropout",
    "TOK001": "SftPlain OneNewline NewlineBeforeAnswer SystemTurnLost",
    "TOK003": "LabelsByPad LabelsLoseEos LabelsOnPrompt",
    "TOK004": "GoesOnAfterTurn",
    "TOK006": "PenaltyOverAll PenaltyOverLastPromptToken PenaltyOverPromptOnly "
    "PenaltyOverLastPromptTokenOnly HuggingFacePenalty",
    "GEN001": "TrainMode ForcesTrainMode",
    "GEN002": "Stale",
    "GEN006": "Twice TwiceCold",
    "GEN007": "Greedy TemperatureLost",
    "ADV005": "IndexRanks",
    "ADV006": "Uncentred OwnGroups WrongGroups BatchCentred Backwards",
    "ADV007": "VarianceForStd",
    "ADV013": "NoEpsilon",
    "ENT006": "FlippedEntropy FlippedForPositive FlippedForLong FlippedInSurgery EntropyOnPrompt EntropyEverywhere",
    "ENT007": "LogsAnotherLoss",
    "ENT011": "Surrogate",
    "GRD006": "Overwrites",
    "STL004": "OptimizerOfACopy HeadForgotten ForgetsToStep Frozen",
}
RIGHT = (
    "RightPadded TextExtraction RightSurgery NestedIds",
    "RightPaddedResponses TensorExtraction EntropyLossAdded",
    "IntMaskOverTokens Flat EvalModeSampler",
    "PaddingEverywhere BoolMask WithoutCache Hot",
)
"""Right variants; those that change different parts are one trainer."""
RIGHT_ADVANTAGES = ("PopulationStd", "CentredOnly", "BatchStd", "NumpyAdvantages")
PAD_IS_EOS = {"ByIdentity", "TrailingPadStripped", "LabelsByPad"}


def adapted(kind: type[Reference]) -> Adapter:
    """Return the adapter with all entry points of a kind of trainer."""
    torch.set_num_threads(1)
    trainer = kind(pad_is_eos=True) if kind.__name__ in PAD_IS_EOS else kind()
    more: dict[str, Any] = {"penalize": trainer.penalize} if hasattr(trainer, "penalize") else {}
    return trainer.adapter(**more)


def probed(name: str, *codes: str) -> Diagnosis:
    """Return the diagnosis of a variant by its name, with these probes or with all."""
    return run_probes(adapted(getattr(broken_reference, name)), catalogue=load().select(codes))


WHOLE = {"PAD002", "GEN007", "STL004", "ADV006"}
"""Codes of the mask, the sampler, the update and the advantages."""
FIRST = [(names.split()[0], code) for code, names in CAUSES.items() if code in WHOLE]
FURTHER = [(name, code) for code, names in CAUSES.items() for name in names.split()[code in WHOLE :]]


@pytest.mark.parametrize(("name", "code"), FIRST)
def test_a_wrong_variant_is_flagged_only_by_its_probe(name: str, code: str) -> None:
    diagnosis = probed(name)
    assert diagnosis.cause == code, diagnosis.findings
    assert [f.code for f in diagnosis.findings if f.role == "cause"] == [code], diagnosis.findings
    assert diagnosis.verdict == "failing"


@pytest.mark.parametrize(("name", "code"), FURTHER)
def test_a_wrong_variant_is_flagged_by_its_probe(name: str, code: str) -> None:
    diagnosis = probed(name, code)
    assert (diagnosis.cause, diagnosis.verdict) == (code, "failing"), diagnosis.coverage.skipped


@pytest.mark.parametrize("names", RIGHT)
def test_right_variants_are_not_flagged(names: str) -> None:
    kind = type("Right", tuple(getattr(broken_reference, name) for name in names.split()), {})
    diagnosis = run_probes(adapted(kind))
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])


@pytest.mark.parametrize("name", RIGHT_ADVANTAGES)
def test_right_advantages_are_not_flagged(name: str) -> None:
    diagnosis = run_probes(getattr(broken_reference, name)().adapter("advantages"))
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert {"ADV005", "ADV006", "ADV007"} <= {*diagnosis.coverage.passed_codes}


@pytest.mark.parametrize("name", ["PenaltyOverResponse", "TopK", "TopP", "ColdInLossOnly"])
def test_filters_that_the_loss_does_not_know_are_a_warning_at_least(name: str) -> None:
    diagnosis = probed(name, "GEN004", "GEN006", "GEN007", "RAT003")
    assert [f.code for f in diagnosis.findings if f.severity != "info"] == ["GEN004"], diagnosis.findings


def test_names_an_undeclared_sampling_temperature_as_the_cause() -> None:
    told = [(f.code, f.severity, f.role) for f in probed("LossAtOne", "GEN").findings if f.severity != "info"]
    assert [(code, role) for code, _, role in told] == [("GEN007", "cause"), ("GEN004", "symptom")]
    assert told[0][1] == "error"


def test_nan_for_a_group_of_one_is_an_info_where_the_group_size_is_unknown() -> None:
    told = [(f.code, f.severity) for f in probed("NanForOne", "ADV013", "GRD001").findings]
    assert told == [("ADV013", "info"), ("GRD001", "info")]


def test_ids_that_are_tokenised_again_are_a_warning() -> None:
    diagnosis = probed("Retokenises", "TOK005", "GEN005")
    assert [(f.code, f.severity) for f in diagnosis.findings if f.severity != "info"] == [("TOK005", "warning")]


@pytest.mark.parametrize("name", ["NeverDivides", "DividesTwice"])
def test_a_gradient_that_only_has_another_length_is_a_warning(name: str) -> None:
    (found,) = probed(name, "GRD006").findings
    assert (found.code, found.severity) == ("GRD006", "warning")
    assert found.message.endswith("times its norm: the divisor is wrong.")


def test_two_beginnings_in_one_path_only_are_an_error() -> None:
    assert probed("DoubleBos", "TOK002").finding("TOK002") is not None
