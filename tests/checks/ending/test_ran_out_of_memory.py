from __future__ import annotations

from pathlib import Path

import pytest

from .ends import TRACE, ended, ends

OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(("rows", "severity"), [(7, "info"), (8, "warning"), (40, "warning")])
def test_a_gpu_out_of_memory_is_the_end(tmp_path: Path, rows: int, severity: str) -> None:
    message = f"The run ended after step {rows} with a GPU out-of-memory error (line {rows + 3}): {OUT}."
    assert ends(ended(tmp_path, f"{TRACE}{OUT}\n", rows)) == [("END002", severity, message)]


def test_the_memory_of_the_machine_is_one_too(tmp_path: Path) -> None:
    assert ends(ended(tmp_path, "slurmstepd: error: Detected 1 oom-kill event(s) in step 7\n")) == [
        (
            "END002",
            "warning",
            "The run ended after step 40 with an out-of-memory error of the host (line 41).",
        )
    ]


@pytest.mark.parametrize(
    ("before", "severity", "verdict"), [("", "error", "failing"), ("training finished\n", "warning", "suspect")]
)
def test_it_fails_a_run_that_had_not_finished_or_learned(
    tmp_path: Path, before: str, severity: str, verdict: str
) -> None:
    diagnosis = ended(tmp_path, before + f"{TRACE}{OUT}\n", learns=False)
    assert [found[:2] for found in ends(diagnosis)] == [("END002", severity)]
    assert diagnosis.verdict == verdict


@pytest.mark.parametrize(
    ("end", "what", "action"),
    [
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "an out-of-memory error of the host",
            "Find the process that uses the most memory, and turn off its offloading or save sharded checkpoints",
        ),
        (
            "ray.exceptions.RayTaskError(OutOfMemoryError): ray::run()\ntorch.OutOfMemoryError: CUDA out of memory.",
            "a GPU out-of-memory error",
            "Halve the micro-batch and, in RL, give the rollout engine less GPU memory",
        ),
    ],
)
def test_the_remedy_is_about_the_memory_that_ran_out(tmp_path: Path, end: str, what: str, action: str) -> None:
    (found,) = [f for f in ended(tmp_path, f"{TRACE}{end}\n").findings if f.code == "END002"]
    assert what in found.message
    assert [remedy.title for remedy in found.remedies] == [action]
