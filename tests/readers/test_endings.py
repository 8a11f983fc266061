"""The ending of a log is reported with its line, on the run that it ends; an unread reward is reported with the
option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.examine import diagnose

from .make import run_of

ROWS = "".join(f"step {i} | reward 0.{i:02d} | loss 0.5\n" for i in range(1, 31))


@pytest.mark.parametrize(
    ("end", "what", "line", "raised"),
    [
        (
            'Traceback (most recent call last):\n  File "a.py", line 3\nValueError: x\n',
            "a traceback",
            31,
            "ValueError: x; ",
        ),
        (
            "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory.\n",
            "a GPU out-of-memory error",
            32,
            "torch.OutOfMemoryError: CUDA out of memory; ",
        ),
        ("^CTraceback\nKeyboardInterrupt\n", "an interrupt", 32, ""),
        ("KeyboardInterrupt\nIndexError: list index out of range\n", "an interrupt", 31, ""),
        ("slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026 DUE TO TIME LIMIT ***\n", "a time limit", 31, ""),
        (
            "(TaskRunner pid=7) ray.exceptions.ActorDiedError: gone\n",
            "a worker crash",
            31,
            "ray.exceptions.ActorDiedError: gone; ",
        ),
        (
            "ray.exceptions.ActorDiedError: gone\nThere are some potential root causes. (1) The process is killed by "
            "SIGKILL by OOM killer due to high memory usage.\n",
            "a worker crash",
            31,
            "ray.exceptions.ActorDiedError: gone; ",
        ),
        ("bye\nKilled\n", "a kill signal", 32, ""),
        ("Job 7 on node n1 was preempted\n", "a preemption by the scheduler", 31, ""),
        ("run.sh: line 44: 2255645 Killed   python main.py\n", "a kill signal", 31, ""),
        (
            "Sending process 7 closing signal SIGTERM\ntraceback : Signal 11 (SIGSEGV) received by PID 8\n",
            "a native crash",
            32,
            "",
        ),
        (
            "training finished\nTraceback (most recent call last):\nOSError: full\n",
            "a traceback after training had finished",
            32,
            "OSError: full; ",
        ),
        (
            f"RuntimeError: CUDA out of memory: {'Tried to allocate 2 GiB. ' * 30}.\nSending SIGTERM to 7\n",
            "a GPU out-of-memory error",
            31,
            f"RuntimeError: CUDA out of memory: {'Tried to allocate 2 GiB. ' * 5}…; ".replace(" …", "…"),
        ),
        ("[rank3] Watchdog caught collective operation timeout: 1\n", "a collective timeout", 31, ""),
        (
            "slurmstepd: *** JOB 1 CANCELLED AT 9 DUE TO PREEMPTION ***\n",
            "a preemption by the scheduler",
            31,
            "",
        ),
        (
            "Traceback (most recent call last):\nKeyError: 'result'\nTraceback (most recent call last):\n"
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py\n",
            "a traceback",
            31,
            "KeyError: 'result'; ",
        ),
        (
            "Traceback (most recent call last):\nKeyError: Caught KeyError in DataLoader worker process 0.\n"
            "Original Traceback (most recent call last):\nKeyError: 'prompt'\n",
            "a traceback",
            31,
            "KeyError: 'prompt'; ",
        ),
        (
            'Traceback (most recent call last):\n  File "/opt/a.py", line 3, in search\n    x["result"]\n'
            "KeyError: 'result'\n",
            "a traceback",
            31,
            "KeyError: 'result', in search (a.py, line 3); ",
        ),
        (
            "Traceback (most recent call last):\nRuntimeError: [enforce fail at inline_container.cc:672] . "
            "unexpected pos 79 vs 78\n",
            "a failed checkpoint write, probably because the disk is full",
            32,
            "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 79 vs 78; ",
        ),
        (
            "torch.distributed.DistBackendError: ncclSystemError: System call failed\n",
            "an NCCL error",
            31,
            "torch.distributed.DistBackendError: ncclSystemError: System call failed; ",
        ),
        (
            "".join(f"client:{i} [ERROR] Request {i} failed with code 400\n" for i in range(3)),
            "a repeated error",
            31,
            "Request 0 failed with code 400; ",
        ),
        (
            "Traceback (most recent call last):\nopenai.RateLimitError: 429\n",
            "a failed API call",
            32,
            "openai.RateLimitError: 429; ",
        ),
    ],
)
def test_the_end_is_reported(tmp_path: Path, end: str, what: str, line: int, raised: str) -> None:
    run = run_of(tmp_path, "train.log", ROWS + end)
    after = f": {raised}" if raised else "; "
    assert run.notes[0] == f"the log ends with {what} (line {line}){after}the rows before it are not affected"


@pytest.mark.parametrize(
    "end",
    [
        "client [ERROR] failed\n" * 2,
        "client [ERROR] failed\n" * 3 + "retried with success\n",
        'Exception in thread ChkStopThr:\nTraceback (most recent call last):\n  File "a.py", line 3, in b\nTimeoutError: x\n',
        'Exception ignored in: <function f>\nTraceback (most recent call last):\n  File "a.py", line 3\nOSError: x\n',
        '--- Logging error ---\nTraceback (most recent call last):\n  File "a.py", line 3, in b\nValueError: x\n',
    ],
)
def test_errors_that_do_not_end_the_log_are_not_its_ending(tmp_path: Path, end: str) -> None:
    assert run_of(tmp_path, "train.log", ROWS + end).ending is None


def test_a_run_knows_how_it_ended_and_how_often_it_began_again(tmp_path: Path) -> None:
    resumed = "".join(f"step {i} | reward 0.{i:02d} | loss 0.5\n" for i in range(21, 41))
    run = run_of(tmp_path, "train.log", f"{ROWS}{resumed}Training complete.\n")
    assert run.ending is not None
    assert (run.ending.kind, run.ending.line, run.restarts) == ("finished", 51, 1)


def test_a_run_that_died_before_its_first_metric_reports_the_error(tmp_path: Path) -> None:
    text = "Loading\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'answer'\n\nmore words\n"
    run = run_of(tmp_path, "train.log", text)
    assert run.notes[0] == "the log ends with a traceback (line 2): KeyError: 'answer'; no metric was read before it"

    assert (
        diagnose(run).headline
        == "No metric was read before the run ended with a traceback (line 2): KeyError: 'answer'. Fix this exception, "
        "and start it again."
    )


def test_a_run_too_short_to_judge_reports_how_it_ended(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, "train.log", "".join(ROWS.splitlines(True)[:2]) + "run.sh: line 44: 225 Killed   python x.py\n"
    )
    assert diagnose(run).headline == (
        "Only 2 rows were logged (reward 0.01, then 0.02); at least 8 are needed for a verdict. "
        "The log ends with a kill signal (line 3). Fix what ended the run, and start it again."
    )


def test_an_exception_alone_is_what_was_pasted(tmp_path: Path) -> None:
    error = "AssertionError: 256 != 2 * 18 * 7"
    run = run_of(tmp_path, "train.log", f"{error}\n\nIs it the environment?\n")
    assert run.notes[0] == f"the log ends with an exception (line 1): {error}; no metric was read before it"
    assert run_of(tmp_path, "rows.log", f"{ROWS}{error}\n").ending is None  # rows before it: it may have been caught


def test_an_error_before_further_rows_is_not_the_end(tmp_path: Path) -> None:
    half = len(ROWS) // 2
    at = ROWS.index("\n", half) + 1
    run = run_of(tmp_path, "train.log", ROWS[:at] + "Traceback (most recent call last):\nValueError: x\n" + ROWS[at:])
    assert not any("ends with" in note for note in run.notes)


def test_a_reward_that_is_not_read_is_reported_with_the_way(tmp_path: Path) -> None:
    rows = [{"step": i, "loss": 0.5, "kl": 0.01, "my_rwd_total": 0.1 * i} for i in range(1, 9)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert run.notes[0] == (
        "series not recognised: my_rwd_total (8 values); if one is the reward, use --map 'my_rwd_total=reward_mean'"
    )


def test_rows_that_are_merged_are_counted(tmp_path: Path) -> None:
    rows = [{"step": i // 2 + 1, "reward": 0.1, "loss": 0.5} for i in range(20)]
    run = run_of(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    assert "20 rows merged into 10 steps" in run.notes


@pytest.mark.parametrize(
    ("bar", "reached", "planned"),
    [
        ("  0%|          | 0/24 [00:00<?, ?it/s]", 0, 24),
        ("Training Progress:   0%|          | 1/1410 [00:00<?, ?it/s]", 1, 1410),
        ("Loading weights: 100%|####| 311/311 [00:00<00:00, 22765.69it/s]", None, None),
    ],
)
def test_a_log_without_rows_has_the_position_of_its_bar(
    tmp_path: Path, bar: str, reached: int | None, planned: int | None
) -> None:
    run = run_of(tmp_path, "train.log", f"Starting (Ctrl+C stops)\n{bar}\nWarning: pin_memory is not supported\n")
    assert (len(run), run.reached, run.settings.get("max_steps")) == (0, reached, planned)


def test_a_log_with_rows_has_no_separate_position(tmp_path: Path) -> None:
    run = run_of(tmp_path, "train.log", f"{ROWS}  9%|#         | 9/24 [00:00<?, ?it/s]\n")
    assert (len(run) > 0, run.reached) == (True, None)


def test_a_rollout_engine_that_preempts_a_sequence_ends_no_run(tmp_path: Path) -> None:
    """vLLM pauses a response if its cache is full; the report took the warning for the scheduler of the cluster."""
    warning = "WARNING scheduler.py:1555] Sequence group 101 is preempted by PreemptionMode.RECOMPUTE mode\n"
    run = run_of(tmp_path, "train.log", ROWS + warning)
    assert run.ending is None


@pytest.mark.parametrize(("at", "told"), [(2, True), (24, False)])
def test_the_last_bar_of_a_log_without_metrics_is_named_if_it_is_not_complete(
    tmp_path: Path, at: int, told: bool
) -> None:
    log = f"loading the model\n  0%|          | 0/24 [00:00<?, ?it/s]\r {at * 100 // 24}%|#  | {at}/24 [00:09<01:00, 1it/s]\n"
    found = diagnose(run_of(tmp_path, "train.log", log))
    assert found.verdict == "unjudged"
    assert ("The last progress bar reached 2 of 24." in found.headline) is told
