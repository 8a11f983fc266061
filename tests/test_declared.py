"""Declared settings as columns: numbers and words, whole and step by step, skipped if unknown."""

from grpo_doctor import Fires, any_of, check, diagnose, fires
from grpo_doctor.diagnosis.catalogue import Catalogue
from grpo_doctor.run import Sample
from grpo_doctor.series import Column, each
from grpo_doctor.testing import check_of, make_run, run_check

PAGE = "x\n\n## What it sees\n## Why it matters\n## Known false alarms\n## Remedy\n## Sources\n"


def steep(
    kl: Column,
    rate: Column = any_of("learning_rate", "settings.learning_rate"),
    kind: Column = any_of("settings.loss_type", optional=True),
) -> Fires:
    named = each(lambda k: k == "grpo", kind)
    return fires((rate > 1) & (named > 0), "{rate:.1f}", hold=(1, 1), rate=rate)


steep.__doc__ = PAGE
CHECK = check_of(check("ZZZ001")(steep))


def finding(**settings: object) -> str | None:
    check("ZZZ001")(steep)
    found = run_check(steep, settings, kl="0x3")
    return found.message if found else None


def test_numbers_and_words_of_the_settings_stand_on_every_row() -> None:
    assert finding(learning_rate=2, loss_type="grpo") == "2.0"
    assert finding(learning_rate=1, loss_type="grpo") is None
    assert finding(learning_rate=2, loss_type="dapo") is None
    assert finding(learning_rate=2) is None


def test_a_setting_that_is_not_declared_is_skipped_and_named() -> None:
    coverage = diagnose(make_run({}, kl="0x3"), catalogue=Catalogue([CHECK])).coverage
    assert coverage.skipped == [{"code": "ZZZ001", "needs": ["learning_rate or settings.learning_rate"]}]
    assert CHECK.columns == ["kl", "learning_rate"]


def talks(samples: Column, kl: Column = None) -> Fires:
    return fires(each(len, samples) > 0, "{n:g} samples", hold=(1, 1), n=each(len, samples))


talks.__doc__ = PAGE
check("ZZZ002")(talks)
TALKS = check_of(talks)


def test_samples_without_a_default_are_a_need() -> None:
    alone = Catalogue([TALKS])
    run = make_run(kl="0x3")
    assert diagnose(run, catalogue=alone).coverage.skipped == [{"code": "ZZZ002", "needs": ["samples"]}]
    run.samples[1] = [Sample(step=2, response="a")]
    found = diagnose(run, catalogue=alone).finding("ZZZ002")
    assert found is not None
    assert (found.onset_step, found.message) == (2, "1 samples")
