"""Exceptions with an established cause: every entry explains its own example, and the first sentence gives the cause."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import grpo_doctor.diagnosis.known_errors as module
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.known_errors import known_error
from grpo_doctor.readers import read
from grpo_doctor.run import Ending

ENTRIES = tomllib.loads(Path(module.__file__).with_suffix(".toml").read_text("utf-8"))["error"]
ROWS = "".join(f"step {i} | reward 0.{20 + i % 3} | loss 0.5 | grad_norm 0.{90 - i}\n" for i in range(1, 41))
EQUAL = "Traceback (most recent call last):\nAssertionError: only support equal chunk. Got size of DataProto 512 and chunk 6.\n"


def explained(message: str) -> tuple[str, str] | None:
    return known_error(Ending(kind="exception", what="a traceback", line=1, raised=message))


def said(folder: Path, text: str) -> str:
    (folder / "train.log").write_text(text, encoding="utf-8")
    return diagnose(read(folder / "train.log")[0]).headline


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["words"][:40])
def test_an_entry_explains_its_example_and_has_two_sources(entry: dict[str, Any]) -> None:
    found = explained(entry["example"])
    assert found is not None
    assert len(set(entry["sources"])) >= 2
    assert "{" not in "".join(found)


@pytest.mark.parametrize(
    ("group", "cause"),
    [
        (1, "The group size is 1, and a group of one response has no advantage."),
        (2, "The batch (3 x 1) is not a multiple of the group size (2)."),
    ],
)
def test_a_group_of_one_is_another_cause_than_a_batch_that_is_not_whole_groups(group: int, cause: str) -> None:
    found = explained(
        "ValueError: The global train batch size (3 x 1) must be evenly divisible by the number of generations per "
        f"prompt ({group})"
    )
    assert found is not None
    assert found[0] == cause


def test_other_exceptions_are_not_explained() -> None:
    assert explained("KeyError: 'answer'") is None
    assert known_error(None) is None


def test_a_crash_before_the_first_row_gives_the_cause_and_the_next_step(tmp_path: Path) -> None:
    assert said(tmp_path, EQUAL) == (
        "No metric was read before the run ended with a traceback (line 1): AssertionError: only support equal chunk. "
        "Got size of DataProto 512 and chunk 6. A batch of 512 samples cannot be split equally over 6 workers. Make "
        "data.train_batch_size (times rollout.n if responses are split) a multiple of the number of GPUs."
    )


@pytest.mark.parametrize("rows", [4, 40])
def test_a_crash_after_rows_gives_the_cause_too(tmp_path: Path, rows: int) -> None:
    headline = said(tmp_path, "".join(ROWS.splitlines(keepends=True)[:rows]) + EQUAL)
    assert "A batch of 512 samples cannot be split equally over 6 workers." in headline
    assert headline.count("cannot be split equally") == 1


def test_an_unknown_crash_before_the_first_row_keeps_the_general_next_step(tmp_path: Path) -> None:
    assert said(tmp_path, "Traceback (most recent call last):\nKeyError: 'answer'\n").endswith(
        "Fix this exception, and start it again."
    )
