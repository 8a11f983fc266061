"""The diagnosis is the same for the whole log and step by step; alarms hold, clear and pause; causes come first."""

from __future__ import annotations

import math
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo_doctor import LiveDoctor, StepRecord, diagnose
from grpo_doctor.diagnosis.catalogue import Catalogue, load
from grpo_doctor.diagnosis.check import CheckError, Finding, Severity
from grpo_doctor.diagnosis.declare import take_loaded
from grpo_doctor.diagnosis.hysteresis import Alarm
from grpo_doctor.record import NUMBER_FIELDS, Event
from grpo_doctor.run import RunBuilder, Sample, run_of
from grpo_doctor.testing import find, make_run, records_of, run_check

RATES = {name for name in NUMBER_FIELDS if name.endswith(("_rate", "_share", "_prob", "_fraction"))}
FLAGS = {"update_applied", "generation_training_mode", "generation_checkpointing"}
COUNTS = {"group_size", "groups", "zero_variance_groups", "all_correct_groups", "all_wrong_groups", "live_groups"}


def made_up_records(seed: int, steps: int) -> list[StepRecord]:
    """A run with arbitrary values: missing columns, gaps, NaN, infinities, jumps, plateaus, restarts, events, repeated
    steps."""
    rng = random.Random(seed)
    fields = [f for f in NUMBER_FIELDS if f != "step" and rng.random() < 0.8]
    level = {f: rng.choice([0.0, 0.01, 0.3, 0.95, 3.0, 40.0]) for f in fields}
    sparse = {f: rng.choice([0.0, 0.0, 0.3, 0.8]) for f in fields}
    records = []
    for i in range(steps):
        row: dict[str, Any] = {}
        for f in fields:
            if rng.random() < 0.03:
                level[f] = rng.choice([0.0, 0.02, 0.5, 1.0, 8.0, 100.0])
            value = level[f] * rng.choice([1.0, 1.0, rng.uniform(0.8, 1.2)])
            value = min(value, 1.0) if f in RATES else float(value > 0.4) if f in FLAGS else value
            value = math.floor(value) if f in COUNTS else value
            if rng.random() >= sparse[f]:
                row[f] = rng.choice([math.nan, math.inf]) if rng.random() < 0.003 else value
        if "advantage_std" in row and rng.random() < 0.7:
            row["advantage_abs_values"] = rng.choice([[1.0], [0.7071], [0.3, 1.2], []])
        if rng.random() < 0.1:
            row["events"] = [Event(kind="log-warning", message="Caching is incompatible with gradient checkpointing")]
        records.append(StepRecord(step=i if rng.random() > 0.01 else max(0, i - 5), **row))
    again = rng.choice([0.0, 0.0, 0.05, 0.5])  # how often another record follows with the same step
    twice = [part for record in records for part in _parts(record, rng, again)]
    return twice[:steps]


def _parts(record: StepRecord, rng: random.Random, again: float) -> list[StepRecord]:
    """Return the record, or two records that share its fields, like trainers that log a step in pieces."""
    if rng.random() >= again:
        return [record]
    kept, other = StepRecord(step=record.step), StepRecord(step=record.step)
    for name in record.__struct_fields__[1:]:
        for part in rng.choice([(kept,), (other,), (kept, other)]):
            setattr(part, name, getattr(record, name))
    if rng.random() < 0.1:
        other.events = [Event(kind="restart")]
    return [kept, other]


def samples_of(seed: int, steps: int) -> list[list[Sample]]:
    rng = random.Random(seed)
    texts = ("Custom -> Review", "Custom 11. 1. 1. 11.", "a b a b a b a b a b", "Program -> done", "")
    return [
        [Sample(step=i, response=rng.choice(texts), valid=rng.random() < 0.5) for _ in range(rng.choice([0, 4]))]
        for i in range(steps)
    ]


def essence(findings: list[Finding]) -> dict[str, tuple[Any, ...]]:
    return {
        f.code: (f.severity, f.confidence, f.role, f.onset_step, f.detected_step, f.last_step, f.cleared, f.message)
        for f in findings
    }


@pytest.mark.parametrize("declared", [{}, {"group_size": 2, "temperature": 0.4, "kl_coef": 0.2, "learning_rate": 1e-4}])
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 70), block=st.sampled_from([1, 3, 16, 8192]))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_step_by_step_finds_what_the_whole_finds(declared: dict[str, Any], seed: int, steps: int, block: int) -> None:
    records, samples = made_up_records(seed, steps), samples_of(seed, steps)
    builder = RunBuilder()
    builder.run.settings.update(declared)
    for record, texts in zip(records, samples, strict=True):
        builder.add(record)
        for text in texts:
            builder.sample(text)
    run = builder.finish()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grpo_doctor.diagnosis.examine.BLOCK", block)
        whole = diagnose(run)
    live = LiveDoctor(declared)
    for record, texts in zip(records, samples, strict=True):
        live.push(record, texts)
    assert live.diagnosis().steps == len(run)
    assert essence(live.diagnosis().findings) == essence(whole.findings)
    assert live.diagnosis().cause == whole.cause


@given(
    flags=st.lists(st.booleans(), max_size=80),
    hold=st.sampled_from([(1, 1), (3, 5), (2, 2), (5, 10)]),
    clear=st.integers(1, 6),
    cuts=st.lists(st.integers(0, 80), max_size=5),
)
def test_an_alarm_fed_in_blocks_is_the_alarm_fed_by_rows(
    flags: list[bool], hold: tuple[int, int], clear: int, cuts: list[int]
) -> None:
    by_row, by_block = Alarm(Severity.ERROR, hold, clear), Alarm(Severity.ERROR, hold, clear)
    for i, flag in enumerate(flags):
        by_row.push(flag, i, i, i + 1)
    edges = sorted({0, len(flags), *(c for c in cuts if c < len(flags))})
    for start, stop in pairwise(edges):
        rows = np.arange(start, stop)
        for _ in by_block.block(np.array(flags[start:stop], bool), start, rows, rows + 1):
            pass
    for name in ("active", "quiet", "recent", "episodes"):
        assert getattr(by_row, name) == getattr(by_block, name), name
    one, other = by_row.main, by_block.main
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.onset_row, one.detected_step, one.last_row) == (
            other.onset_row,
            other.detected_step,
            other.last_row,
        )


@pytest.mark.parametrize(
    ("flags", "onset", "detected", "last", "active"),
    [
        ("..x.x.....", None, None, None, False),  # two of five are not three
        ("..x.x.x...", 3, 7, 7, True),
        ("..xxx.....", 3, 5, 5, False),  # five quiet rows clear it
        ("..xxx....x", 3, 5, 10, True),
        ("..xxxxxxx......xxx", 3, 5, 18, True),  # a pause shorter than the episode does not start a new one
        ("..xxx............xxx", 18, 20, 20, True),  # a longer one does
    ],
)
def test_hold_clear_and_pause(
    flags: str, onset: int | None, detected: int | None, last: int | None, active: bool
) -> None:
    alarm = Alarm(Severity.WARNING, (3, 5), 5)
    for i, flag in enumerate(flags):
        alarm.push(flag == "x", i, i, i + 1)
    episode = alarm.main
    found = (episode.onset_step, episode.detected_step, episode.last_step) if episode else (None, None, None)
    assert (*found, alarm.active) == (onset, detected, last, active)


def leaf(folder: Path, body: str, name: str = "rate_too_low") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(
        "from grpo_doctor import any_of, check, fires\n" + body,
        encoding="utf-8",
    )
    return folder


PAGE = '"""Low.\n\n## What it sees\nx\n\n## Why it matters\nx\n\n## Known false alarms\nx\n\n## Remedy\nx\n\n## Sources\nx\n"""'


def test_a_users_folder_of_checks_loads_by_the_same_path(tmp_path: Path) -> None:
    folder = leaf(
        tmp_path / "mine" / "own",
        f'@check("OWN001", severity="error")\ndef rate_too_low(valid_rate, *, low=0.5):\n    {PAGE}\n'
        '    return fires(valid_rate < low, "Valid is {valid:.2f}.", valid=valid_rate)\n',
    )
    catalogue = load((folder.parent,))
    assert catalogue.checks["OWN001"].family == "own"
    run = run_of([StepRecord(step=i, valid_rate=0.4) for i in range(10)])
    finding = diagnose(run, catalogue=catalogue).finding("OWN001")
    assert finding is not None
    assert finding.message == "Valid is 0.40."


OWN_CHECK = f'@check("OWN012")\ndef low(valid_rate):\n    {PAGE}\n    return fires(valid_rate < 0, "x")\n'
OWN_PROBE = (
    'from grpo_doctor import probe\n@probe("OWN012", severity="error")\ndef probe_it(advantages):\n'
    '    """## What this certifies, and what it does not\n    x"""\n'
)


def test_a_probe_in_the_file_next_to_a_check_belongs_to_it(tmp_path: Path) -> None:
    folder = leaf(tmp_path / "beside", OWN_CHECK)
    leaf(folder, OWN_PROBE, "rate_too_low_probe")
    found = load((folder,)).checks["OWN012"]
    assert found.name == "low"
    assert found.probe_arguments == {"advantages": True}
    assert "## What this certifies" in found.page


def test_a_probe_in_another_file_may_not_take_the_code_of_a_check(tmp_path: Path) -> None:
    folder = leaf(tmp_path / "elsewhere", OWN_CHECK)
    whole = PAGE.replace("## Remedy", "## What this certifies, and what it does not\nx\n\n## Remedy")
    leaf(folder, f'from grpo_doctor import probe\n@probe("OWN012")\ndef p(advantages):\n    {whole}\n', "other_probe")
    with pytest.raises(CheckError, match=r"rate_too_low\.py: OWN012 is already used by .*other_probe\.py"):
        load((folder,))
    take_loaded()


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        ('[OWN005]\nremedies = ["none-such"]\n', "OWN005: no remedy 'none-such' here or in remedies.toml"),
        ('[remedies.x]\ntitle = "t"\n', "the remedy 'x' lacks 'evidence'"),
        ('[remedies.x]\ntitle = "t"\nevidence = "e"\nsource = "s"\nhand = "h"\n', "the remedy 'x' has 'hand'"),
        ('[OWN005]\n[[OWN005.rivals]]\nname = "n"\n', "OWN005: a rival lacks 'why'"),
        ("[OWN005\n", "advice.toml: Expected"),
    ],
)
def test_wrong_advice_names_the_file_and_what_to_change(tmp_path: Path, advice: str, said: str) -> None:
    body = f'@check("OWN005")\ndef f(valid_rate):\n    {PAGE}\n    return fires(valid_rate < 0, "x")\n'
    folder = leaf(tmp_path / f"advice{abs(hash(said))}", body)
    (folder / "advice.toml").write_text(advice, encoding="utf-8")
    with pytest.raises(CheckError, match=re.escape(said)):
        load((folder,))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('@check("OWN002")\ndef f(valid_rate):\n    """No headings."""\n', "lacks the heading '## What it sees'"),
        (
            f'@check("OWN003")\ndef f(now=any_of("reward_now", "kl")):\n    {PAGE}\n',
            "'reward_now' cannot have alternatives",
        ),
        (f'@check("OWN003")\ndef f(valid_ratio):\n    {PAGE}\n', "'valid_ratio' is not a record field"),
        (f'@check("GEN001")\ndef f(valid_rate):\n    {PAGE}\n', "GEN001 is already used by"),
        (f'@check("own4")\ndef f(valid_rate):\n    {PAGE}\n', "a code has two or three capital letters"),
        (
            f'@check("OWN006", explains=("OWN007",))\ndef f(valid_rate):\n    {PAGE}\n'
            f'@check("OWN007", explains=("OWN006",))\ndef g(valid_rate):\n    {PAGE}\n',
            "`explains` is circular: OWN006 -> OWN007 -> OWN006",
        ),
        (
            f'@check("OWN008", explains=("OWN999",))\ndef f(valid_rate):\n    {PAGE}\n    return fires(valid_rate < 0, "x")\n',
            "refers to OWN999, but no check has this code",
        ),
        (
            f'@check("OWN009", withholds={{"no-such": "x"}})\ndef f(valid_rate):\n    {PAGE}\n'
            '    return fires(valid_rate < 0, "x")\n',
            "withholds 'no-such', but no remedy has this id",
        ),
        (
            '@check("OWN011")\ndef f(valid_rate, *, low=0.5):\n    '
            + PAGE.replace("## Remedy", "## Thresholds\n- `high`: x\n\n## Remedy"),
            "its page explains a threshold 'high' that it does not have",
        ),
    ],
)
def test_a_check_file_that_cannot_load_reports_file_code_and_fix(tmp_path: Path, body: str, said: str) -> None:
    folder = leaf(tmp_path / f"bad{abs(hash(said))}", body)
    with pytest.raises(CheckError) as failed:
        load((folder,))
    take_loaded()
    assert said in str(failed.value)
    assert "rate_too_low.py" in str(failed.value)


def test_select_and_ignore_by_code_name_and_family() -> None:
    catalogue = load()
    assert set(catalogue.select(["GEN001", "zero-variance-groups"]).checks) == {"GEN001", "ADV003"}
    assert all(c.family == "update" for c in catalogue.select(["update"], ["UPD001"]).checks.values())
    assert "UPD001" not in catalogue.select([], ["UPD"]).checks
    with pytest.raises(CheckError, match="no check, name or family is called 'entropy-colapse'"):
        catalogue.select(["entropy-colapse"])


def test_an_unknown_field_is_a_skip_that_names_it() -> None:
    coverage = diagnose(run_of([StepRecord(step=i, loss=0.1) for i in range(20)])).coverage
    skipped = {s["code"]: s["needs"] for s in coverage.skipped}
    assert skipped["UPD003"] == ["update_applied", "invalid_rate"]
    assert skipped["REW015"] == ["eval_score"]


def test_too_few_steps_are_unjudged_and_many_are_not() -> None:
    few = diagnose(run_of([StepRecord(step=i, loss=0.1, reward_mean=0.5) for i in range(2)]))
    assert (few.verdict, few.headline) == (
        "unjudged",
        "Only 2 rows were logged (reward 0.5); at least 8 are needed for a verdict. Train for more steps.",
    )
    dead = diagnose(run_of([StepRecord(step=1, reward_mean=0.5, reward_std=0.0, grad_norm=0.0)]))
    assert dead.headline == (
        "The only row has no learning signal: all groups have zero variance. Only 1 row was logged (reward 0.5); "
        "at least 8 are needed for a verdict. Check the reward function, answer extraction, prompt template and EOS first."
    )
    sparse = diagnose(run_of([StepRecord(step=10 * i, reward_mean=0.1 * i) for i in (1, 2, 3)]))
    assert (sparse.verdict, sparse.headline) == (
        "unjudged",
        "Only 3 rows were logged (reward 0.1, then 0.3); at least 8 are needed for a verdict. Log every step.",
    )


def test_a_setting_that_is_wrong_is_reported_of_a_run_too_short_to_judge() -> None:
    found = diagnose(make_run({"kl_coef": -0.1}, reward_mean="0.1 0.3 0.2"))
    assert found.headline == (
        "The KL coefficient is -0.1, which rewards distance from the reference model. Only 3 rows were logged (reward "
        "0.1, then 0.2)."
    )


def test_a_transcript_without_any_reward_is_reported() -> None:
    run = make_run({}, reward_mean="0x40")
    run.run_type = "evaluation"
    assert diagnose(run).headline == (
        "No training metrics were recognised: the rows are evaluations or rollouts, so there is no verdict. Its reward is 0 on all 40 "
        "rows."
    )


def test_a_transcript_without_an_update_is_not_a_training() -> None:
    run = run_of([StepRecord(step=i, reward_mean=0.5 * (i < 40)) for i in range(80)])
    run.run_type = "evaluation"
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "unjudged"
    assert diagnosis.headline.startswith("No training metrics were recognised: the rows are evaluations or rollouts")


def test_live_cost_needs_no_growing_state() -> None:
    alone = Catalogue([load().checks["ADV003"]])
    doctor = LiveDoctor(catalogue=alone)
    for i in range(500):
        doctor.push(StepRecord(step=i, groups=4, zero_variance_groups=1, reward_mean=0.5))
    assert len(doctor.summary.steps) == 2


def test_a_level_that_ended_long_ago_does_not_come_back_with_one_that_did_not() -> None:
    """Low from the start, a warning until the reward had gained; the info lasts nearly to the end."""
    entropy = "0.05x92 0.2x8"
    flat, rising = "0.1 0.12 0.11 0.09 0.1 " * 6, " ".join(f"{0.1 + i / 100:.2f}" for i in range(70))
    finding = diagnose(run_of(records_of(entropy_mean=entropy, reward_mean=flat + rising))).finding("ENT012")
    assert finding is not None
    assert (finding.severity, finding.cleared, finding.last_step) == ("info", False, 92)


@pytest.mark.parametrize(("lasts", "cleared"), [(90, True), (91, False)])
def test_a_finding_that_ended_in_the_last_tenth_still_holds(lasts: int, cleared: bool) -> None:
    assert find("ENT012", entropy_mean=f"0.05x{lasts} 0.2x{101 - lasts}").cleared is cleared


def test_the_numbers_of_an_active_finding_are_those_of_its_last_row() -> None:
    """The severity is the highest that holds; the last rows may reach only a lower one."""
    falling = run_check("LEN003", truncated_rate="0.625 0.375x3", reward_mean="0.3 0.25 0.24 0.26")
    assert falling is not None
    assert (falling.severity, falling.message) == ("warning", "44% of the responses are truncated at the length limit.")
