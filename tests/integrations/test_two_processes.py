"""A training of two processes is watched as one, and continues as one if grpo-doctor fails on a rank."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="the extra trl is not installed")

from grpo_doctor.readers import read
from grpo_doctor.record import read_records
from tests.cli import children
from tests.integrations import two_processes

pytestmark = pytest.mark.slow
FAILING = ("rank 1 fails", "rank 0 fails", "veto")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one folder per training, named after its fault; ``alone`` has no fault."""
    folder = tmp_path_factory.mktemp("two")
    done = children.ended(two_processes.main, [str(folder), "alone", *FAILING, "twice", "nan"], folder, {})
    told = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*/rank-*.txt")))
    assert done.returncode == 0, f"{done.stderr[-2000:]}\n{told}"
    return folder


def said(folder: Path) -> list[str]:
    """Return the output of the two processes."""
    return [(folder / f"rank-{rank}.txt").read_text().strip() for rank in (0, 1)]


def ended(folder: Path) -> set[str]:
    """Return at which step the processes ended, and with which weights."""
    return {text.splitlines()[-1] for text in said(folder)}


@pytest.mark.parametrize("what", FAILING)
def test_they_go_on_together_with_the_same_weights(trained: Path, what: str) -> None:
    (together,) = ended(trained / what)
    assert together.startswith("ended at 4 with ")
    assert {together} == ended(trained / "alone")
    words = "".join(said(trained / what))
    assert words.count("UNWATCHED") == 1
    assert "grpo-doctor failed at step 2" in words


def test_they_train_twice(trained: Path) -> None:
    folder = trained / "twice"
    assert len(ended(folder)) == 1
    for name in ("run", "run-2"):
        assert [r.step for r in read_records(folder / name / "records.jsonl")] == [1, 2, 3, 4]
        for rank in (0, 1):
            ranks = read_records(folder / name / "ranks" / f"records-rank{rank}.jsonl")
            assert [r.step for r in ranks] == [1, 2, 3, 4]


def test_they_write_one_merged_record_a_step(trained: Path) -> None:
    folder = trained / "nan"
    assert all(line.startswith("ended at 3 ") for line in ended(folder)), "stop on one rank stops all"
    written = list(read_records(folder / "run" / "records.jsonl"))
    assert [r.step for r in written] == [1, 2, 3]
    assert {(r.groups, len(r.group_rewards or [])) for r in written} == {(2.0, 2)}
    ranks = [list(read_records(folder / "run" / "ranks" / f"records-rank{n}.jsonl")) for n in (0, 1)]
    for one, first, second in zip(written, *ranks, strict=True):
        assert one.group_rewards == [*(first.group_rewards or []), *(second.group_rewards or [])]
        assert (first.step, first.groups, second.groups) == (one.step, 1, 1)
        assert first.logit_max != second.logit_max, "a rank's file holds what the rank saw"
    assert len(list(read(folder / "run"))) == 1, "the ranks are no runs of their own"
