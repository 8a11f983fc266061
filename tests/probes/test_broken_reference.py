"""Every wrong variant of the reference trainer is flagged by its own probe, and no correct one is flagged. On the first
variant of each code, all probes run that the change can affect. `python -m tests.probes.broken_styles` shows for every
variant in other styles that no other code heads the report.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes
from tests.probes import broken_reference
from tests.probes.affected_probes import reached
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
    "RightPadded TextExtraction RightSurgery",
    "RightPaddedResponses TensorExtraction EntropyLossAdded",
    "IntMaskOverTokens Flat EvalModeSampler",
    "PaddingEverywhere BoolMask WithoutCache Hot",
    "NestedIds",
    "PopulationStd",
    "CentredOnly",
    "BatchStd",
    "NumpyAdvantages",
)
"""Right variants; those that change different parts are one trainer."""
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


def caught(name: str) -> Diagnosis:
    """Return the diagnosis with the probes that the change can affect."""
    kind: type[Reference] = getattr(broken_reference, name)
    only = None if name in PAD_IS_EOS else reached(kind, Reference, adapted)
    return run_probes(adapted(kind), catalogue=only)


FIRST = [(names.split()[0], code) for code, names in CAUSES.items()]
FURTHER = [(name, code) for code, names in CAUSES.items() for name in names.split()[1:]]


@pytest.mark.parametrize(("name", "code"), FIRST)
def test_a_wrong_variant_is_flagged_only_by_its_probe(name: str, code: str) -> None:
    diagnosis = caught(name)
    assert diagnosis.cause == code, diagnosis.findings
    assert [f.code for f in diagnosis.findings if f.role == "cause"] == [code], diagnosis.findings
    assert diagnosis.verdict == "failing"


@pytest.mark.parametrize(("name", "code"), FURTHER)
def test_a_wrong_variant_is_flagged_by_its_probe(name: str, code: str) -> None:
    diagnosis = probed(name, code)
    assert (diagnosis.cause, diagnosis.verdict) == (code, "failing"), diagnosis.coverage.skipped


def test_probes_that_a_fault_does_not_reach_say_of_it_what_they_say_of_the_right_trainer() -> None:
    reach, whole = caught("GoesOnAfterTurn"), probed("GoesOnAfterTurn")
    assert 3 < reach.coverage.ran < whole.coverage.ran / 2
    assert told(reach).items() <= told(whole).items() <= (told(run_probes(adapted(Reference))) | told(reach)).items()


def told(diagnosis: Diagnosis) -> dict[str, str]:
    return {f.code: f.message for f in diagnosis.findings}


@pytest.mark.parametrize("names", RIGHT)
def test_right_variants_are_not_flagged(names: str) -> None:
    kind = type("Right", tuple(getattr(broken_reference, name) for name in names.split()), {})
    diagnosis = run_probes(adapted(kind), catalogue=reached(kind, Reference, adapted))
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])


@pytest.mark.parametrize("name", ["PenaltyOverResponse", "TopK", "TopP", "ColdInLossOnly"])
def test_filters_that_the_loss_does_not_know_are_a_warning_at_least(name: str) -> None:
    diagnosis = probed(name, "GEN004", "GEN006", "GEN007", "RAT003")
    assert [f.code for f in diagnosis.findings if f.severity != "info"] == ["GEN004"], diagnosis.findings


def test_a_temperature_of_the_sampler_that_is_not_declared_is_the_cause_of_what_the_loss_does_not_know() -> None:
    told = [(f.code, f.severity, f.role) for f in caught("LossAtOne").findings if f.severity != "info"]
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
