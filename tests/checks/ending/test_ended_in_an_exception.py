from __future__ import annotations

from pathlib import Path

import pytest

from .ends import TRACE, ended, ends


@pytest.mark.parametrize(("rows", "severity"), [(7, "info"), (8, "warning")])
def test_a_traceback_is_the_end_with_the_exception(tmp_path: Path, rows: int, severity: str) -> None:
    message = f"The run ended after step {rows} with a traceback (line {rows + 1}): KeyError: 'answer'."
    assert ends(ended(tmp_path, f"{TRACE}KeyError: 'answer'\n", rows)) == [("END004", severity, message)]


@pytest.mark.parametrize(
    "line",
    [
        "ray.exceptions.ActorDiedError: gone",
        "asyncio.exceptions.TimeoutError: no answer",
        "torch.distributed.DistBackendError: NCCL error",
        "OSError: [Errno 28] No space left on device",
        "ERROR: failed\nERROR: failed\nERROR: failed",
    ],
)
def test_failures_of_workers_services_and_disks_are_exceptions(tmp_path: Path, line: str) -> None:
    assert [code for code, *_ in ends(ended(tmp_path, f"{line}\n"))] == ["END004"]


@pytest.mark.parametrize(
    ("before", "severity", "verdict"), [("", "error", "failing"), ("training finished\n", "warning", "suspect")]
)
def test_it_fails_a_run_that_had_not_finished_or_learned(
    tmp_path: Path, before: str, severity: str, verdict: str
) -> None:
    diagnosis = ended(tmp_path, before + f"{TRACE}KeyError: 'answer'\n", learns=False)
    assert [found[:2] for found in ends(diagnosis)] == [("END004", severity)]
    assert diagnosis.verdict == verdict


def test_the_result_comes_before_the_end(tmp_path: Path) -> None:
    crashed = ended(tmp_path, f"{TRACE}KeyError: 'answer'\n", learns=False)
    assert crashed.cause == "END004"
    assert crashed.headline.startswith("The reward has not risen in 40 steps")
    assert crashed.headline.endswith("The run ended after step 40 with a traceback (line 41): KeyError: 'answer'.")
    short = ended(tmp_path, f"{TRACE}KeyError: 'answer'\n", rows=3)
    assert short.headline.endswith("at least 8 are needed for a verdict. Fix this exception, and start it again.")
