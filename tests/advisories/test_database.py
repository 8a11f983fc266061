"""The advisories load, cite their sources, and refer only to what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_doctor.advisories import AdvisoryError, advisories, find
from grpo_doctor.advisories.database import read_all
from grpo_doctor.advisories.releases import before, release
from grpo_doctor.preflight.frameworks import frameworks
from grpo_doctor.series.derived import MEANINGS

ENTRY = """
[[advisory]]
id = "RLA-2026-001"
package = "trl"
title = "the loss is wrong"
introduced = "0.23.0"
fixed = "0.24.0"
symptom = "a"
effect = "b"
severity = "warning"
do = "c"
sources = ["huggingface/trl#4159"]
verified = "reported"
"""
DERIVED = {"world_size", "minibatches", "use_peft", "reward_weights_count", "kl_reward_coef"}
"""Settings that preflight works out of several keys."""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_an_entry(tmp_path: Path) -> None:
    (one,) = read_all([written(tmp_path / "a.toml", ENTRY)])
    assert (one.id, one.range) == ("RLA-2026-001", ">= 0.23.0, < 0.24.0")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('sources = ["huggingface/trl#4159"]', "sources = []", "has no source"),
        ('["huggingface/trl#4159"]', '["a blog"]', "is not owner/name#NUMBER"),
        ('fixed = "0.24.0"', "", "has no range"),
        ('fixed = "0.24.0"', 'fixed = "0.23.0"', "the range is empty"),
        ('fixed = "0.24.0"', 'fixed = "next"', "is not the number of a release"),
        ('introduced = "0.23.0"', "", "introduced"),
        ('"RLA-2026-001"', '"CVE-1"', "an id is RLA-YEAR-NUMBER"),
        ('"reported"', '"read in source"', "what was read"),
        ('"reported"', '"believed"', "verified"),
        ('symptom = "a"', 'symptom = " "', "`symptom` is empty"),
        ('symptom = "a"', 'symptom = "a"\nwhen = ["use_vllm"]', "is not NAME OPERATOR VALUE"),
        ('symptom = "a"', 'symptom = "a"\nwhen = ["loss_type == dapo"]', "quote a word"),
        ('symptom = "a"', 'symptom = "a"\nenvironment = ["vllm new"]', "is not PACKAGE OPERATOR VERSION"),
        ('symptom = "a"', 'symptom = "a"\nsymptoms = "b"', "symptoms"),
        ("[[advisory]]", "[advisory]", "[[advisory]]"),
    ],
)
def test_refuses_an_entry_with_the_reason(tmp_path: Path, old: str, new: str, why: str) -> None:
    path = written(tmp_path / "a.toml", ENTRY.replace(old, new))
    with pytest.raises(AdvisoryError, match=re.escape(why)) as error:
        read_all([path])
    assert str(path) in str(error.value)


def test_refuses_an_id_that_is_used_twice(tmp_path: Path) -> None:
    files = [written(tmp_path / name, ENTRY) for name in ("a.toml", "b.toml")]
    with pytest.raises(AdvisoryError, match="used twice"):
        read_all(files)


def test_every_condition_names_a_setting_or_a_field() -> None:
    known = DERIVED | {name for framework in frameworks() for name in framework.settings}
    for one in advisories():
        for name, conditions in one.conditions.items():
            names = MEANINGS.keys() if name == "signature" else known
            assert all(condition.name in names for condition in conditions), one.id


def test_holds_sixty_advisories_of_which_twenty_were_read_in_source() -> None:
    every = advisories()
    assert len(every) >= 60
    assert sum(one.verified == "read in source" for one in every) >= 20


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("0.22.2", False),
        ("0.23", True),
        ("0.23.1", True),
        ("0.24.0", False),
        ("v0.24.0", False),
        ("0.24.0.dev0", None),
        ("0.24.0rc1", None),
        ("main", None),
    ],
)
def test_compares_a_version_with_a_range(tmp_path: Path, version: str, affected: bool | None) -> None:
    (one,) = read_all([written(tmp_path / "a.toml", ENTRY)])
    assert one.affects(version) is affected


def test_does_not_know_versions_after_the_last_one_that_was_checked(tmp_path: Path) -> None:
    text = ENTRY.replace('fixed = "0.24.0"', 'last_affected = "0.24.0"')
    (one,) = read_all([written(tmp_path / "a.toml", text)])
    assert [one.affects(version) for version in ("0.24.0", "0.24.1")] == [True, None]


def test_orders_post_releases() -> None:
    assert before("0.7.1", "0.7.1.post1")
    assert before("0.7.1.post1", "0.7.2")
    assert not before("0.7.1.dev0", "0.8")
    assert release("0.18") == release("0.18.0")


def test_a_remedy_upgrades_to_the_release_that_has_the_fix() -> None:
    for one in advisories():
        named = re.findall(r"[Uu]pgrade to [\w.-]+ (\d+\.\d+)", one.do)
        if named and one.fixed:
            assert [word for word in named if not one.fixed.startswith(word)] == [], one.id


def test_finds_the_advisories_of_a_version() -> None:
    assert "RLA-2026-003" in [one.id for one in find("trl", "0.15.0")]
    assert "RLA-2026-003" not in [one.id for one in find("TRL", "0.15.1")]
    assert find("ms_swift") == find("ms-swift")
