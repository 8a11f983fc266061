"""Texts generated from the advisories: the page, the draft of an entry, the threads that they explain."""

from __future__ import annotations

import csv
import re
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.advisories import advisories
from grpo_doctor.advisories.page import page
from tests.corpus_path import SHARED, needs

from .draft import draft, tags
from .reproduce import CASES, RESULTS, Case

THREADS = SHARED / "THREADS.csv"
EXPLAINED = {
    "RLA-2026-001": "huggingface/trl#4159",
    "RLA-2026-003": "huggingface/trl#2856",
    "RLA-2026-004": "huggingface/trl#2708",
    "RLA-2026-005": "huggingface/trl#3029",
    "RLA-2026-009": "huggingface/trl#5312",
    "RLA-2026-012": "huggingface/trl#4975",
    "RLA-2026-020": "huggingface/trl#7039",
    "RLA-2026-021": "huggingface/trl#6550",
    "RLA-2026-022": "huggingface/trl#5814",
    "RLA-2026-024": "huggingface/trl#3926",
    "RLA-2026-025": "huggingface/trl#6424",
    "RLA-2026-027": "huggingface/trl#3853",
    "RLA-2026-042": "verl-project/verl#891",
    "RLA-2026-043": "verl-project/verl#3720",
    "RLA-2026-055": "OpenRLHF/OpenRLHF#217",
    "RLA-2026-067": "THUDM/slime#365",
    "RLA-2026-074": "NVIDIA-NeMo/RL#3171",
    "RLA-2026-076": "NVIDIA-NeMo/RL#2895",
    "RLA-2026-083": "areal-project/AReaL#1388",
    "RLA-2026-084": "areal-project/AReaL#1346",
    "RLA-2026-102": "modelscope/ms-swift#8102",
    "RLA-2026-120": "unslothai/unsloth#5673",
}
"""Threads of the collection whose cause is a bug of released versions, and the advisory for it."""


def test_every_advisory_is_on_the_page() -> None:
    text = page()
    for one in advisories():
        assert len(re.findall(rf"\{{#{one.id}\}}", text)) == 1
        assert one.title[1:] in text.replace("&lt;", "<")


def test_the_field_of_the_page_hides_what_lacks_a_word(browser: Any) -> None:
    sheet = browser.new_page()
    sections = "".join(f'<h3 id="RLA-{n}">RLA-{n}</h3><p>{words}</p>' for n, words in enumerate(("trl LoRA", "verl")))
    field = files("grpo_doctor.advisories").joinpath("filter.html").read_text(encoding="utf-8")
    sheet.set_content(f"{field}<h2>trl</h2>{sections}")
    sheet.fill("#advisory-filter", "Lora trl")
    assert sheet.inner_text("#advisory-count") == "1 of 2"
    assert [sheet.is_visible(f"#RLA-{n}") for n in range(2)] == [True, False]
    sheet.fill("#advisory-filter", "")
    assert sheet.is_visible("#RLA-1")


@pytest.mark.parametrize("id", EXPLAINED)
def test_an_advisory_names_the_thread_that_it_explains(id: str) -> None:
    one = next(one for one in advisories() if one.id == id)
    assert EXPLAINED[id] in one.sources


@needs(THREADS)
def test_the_explained_threads_are_in_the_collection() -> None:
    with THREADS.open(encoding="utf-8") as file:
        known = {f"{row['repo']}#{row['number']}".lower() for row in csv.DictReader(file)}
    short = {name.split("/")[-1] for name in known} | known
    assert all(thread.lower() in known or thread.split("/")[-1].lower() in short for thread in EXPLAINED.values())


def test_every_reproduced_advisory_has_its_results() -> None:
    reproduced = {one.id for one in advisories() if one.verified == "reproduced"}
    rows = re.findall(r"^\| (RLA-\d+-\d+) \| \S+ (\S+) \| .*? \| (occurs|fixed) \|", RESULTS.read_text("utf-8"), re.M)
    assert reproduced == {case.id for case in CASES}
    assert set(rows) == {row for c in CASES for row in ((c.id, c.affected, "occurs"), (c.id, c.fixed, "fixed"))}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reproduces_at_releases_inside_and_after_the_range(case: Case) -> None:
    one = next(one for one in advisories() if one.id == case.id)
    assert (one.affects(case.affected), one.affects(case.fixed), one.package) == (True, False, case.package)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose fix was backported to the patch release of an older branch."""

    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for tag, text in (("v0.1.0", "loss"), ("v0.2.0", "loss"), ("v0.2.1", "loss / temperature")):
        (tmp_path / "trainer.py").write_text(text, encoding="utf-8")
        git("add", ".")
        git("commit", "-q", "--allow-empty", "-m", f"Fix the loss (#{len(tag)})" if "/" in text else "Go on")
        git("tag", tag)
    git("tag", "v0.3.0rc1")
    return tmp_path


def test_drafts_an_entry_from_the_tags(clone: Path) -> None:
    assert tags(clone) == ["v0.1.0", "v0.2.0", "v0.2.1"]
    for marker in ("", "temperature"):
        text = draft("owner/name", clone, "HEAD", "trainer.py" if marker else "", marker)
        assert 'introduced = "0.1.0"\nfixed = "0.2.1"' in text
        assert 'sources = ["owner/name#6"]' in text


def test_refuses_to_draft_where_no_release_has_the_fix(clone: Path) -> None:
    with pytest.raises(SystemExit, match="last_affected"):
        draft("owner/name", clone, "HEAD", file="trainer.py", marker="clamp")
