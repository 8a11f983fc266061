"""The record keeps what checks need: NaN, infinities, and every finished step of a killed writer."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_doctor.readers import read
from grpo_doctor.record import FIELDS, Event, RecordError, RecordWriter, StepRecord, decode, encode, read_records
from grpo_doctor.run import RunBuilder, run_of

numbers = st.one_of(st.none(), st.floats(allow_nan=False), st.sampled_from([math.inf, -math.inf]))


@given(st.integers(0, 2**53), numbers, numbers, st.lists(st.floats(allow_nan=False), max_size=5))
def test_written_records_are_read_back(step: int, loss: float | None, kl: float | None, top: list[float]) -> None:
    record = StepRecord(step=step, loss=loss, kl=kl, topk_probs=top, reward_components={"f": 1.0})
    assert decode(encode(record)) == record


def test_nan_survives_as_words_that_any_json_reader_takes() -> None:
    line = encode(StepRecord(step=3, loss=math.nan, grad_norm=math.inf, group_rewards=[[math.nan, 1.0]]))
    assert json.loads(line) == {
        "schema": 1, "step": 3, "loss": "NaN", "grad_norm": "Infinity", "group_rewards": [["NaN", 1.0]],
    }  # fmt: skip
    back = decode(line)
    assert back.loss is not None
    assert math.isnan(back.loss)
    assert back.grad_norm == math.inf


def test_bare_nan_written_by_others_is_read() -> None:
    back = decode('{"step": 1, "loss": NaN, "grad_norm": -Infinity}')
    assert math.isnan(back.loss or 0.0)
    assert back.grad_norm == -math.inf


def test_missing_is_unknown_and_not_zero() -> None:
    assert all(getattr(decode('{"step": 1}'), name) is None for name in FIELDS if name != "step")


@pytest.mark.parametrize("line", ["", "{", "[1]", '{"loss": 1}', '{"step": "x"}', '{"step": 1, "loss": "low"}'])
def test_a_line_that_is_not_a_record_is_reported(line: str) -> None:
    with pytest.raises(RecordError):
        decode(line)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with RecordWriter(path) as writer:
        for step in range(20):
            writer.write(StepRecord(step=step, loss=0.5))
    path.write_bytes(path.read_bytes() + b'{"schema":1,"step":20,"lo')
    assert [record.step for record in read_records(path)] == list(range(20))
    run = read(path)[0]
    assert len(run) == 20
    assert run.notes == ["line 21 is incomplete and was skipped (the writer was interrupted)"]


def test_a_killed_writer_loses_no_finished_step(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    script = (
        "import sys; from pathlib import Path; from grpo_doctor.record import *\n"
        "w = RecordWriter(Path(sys.argv[1]))\n"
        "for step in range(10**9):\n"
        "    w.write(StepRecord(step=step, loss=0.25)); print(step, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    finished = 0
    for _ in range(200):
        finished = int(writer.stdout.readline())
    time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    steps = [record.step for record in read_records(path)]
    assert steps == list(range(len(steps)))
    assert len(steps) > finished


def test_records_at_once_are_those_one_after_the_other() -> None:
    restart = Event(kind="restart", message="resumed")
    records = [
        StepRecord(step=1, loss=0.5, groups=4, normaliser="group", group_rewards=[[0.0, 1.0]]),
        StepRecord(step=1, loss=math.nan, groups=4, update_applied=True),
        StepRecord(step=2, grad_norm=math.inf, events=[Event(kind="update")]),
        StepRecord(step=2, kl_k3=0.1, events=[restart]),
    ]
    singly, at_once = RunBuilder(), RunBuilder()
    for line, record in enumerate(records, 1):
        singly.add(record, line)
    at_once.add_records(records[:1], [1])
    at_once.add_records(records[1:], [2, 3, 4])
    one, other = singly.finish(), at_once.finish()
    assert one.columns.keys() == other.columns.keys()
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, other.columns[name])
    assert (
        (one.steps.tolist(), one.lines.tolist())
        == (other.steps.tolist(), other.lines.tolist())
        == ([1, 2, 2], [2, 3, 4])
    )
    assert (one.events, one.settings) == (other.events, other.settings)
    assert other.settings == {"normaliser": "group"}


def test_a_step_that_no_counter_reaches_is_not_a_record() -> None:
    with pytest.raises(RecordError, match=r"Expected `int` <= .* at `\$.step`"):
        decode('{"schema":1,"step":99999999999999999999}')


def test_a_run_as_a_frame_is_indexed_by_step_and_keeps_what_is_unknown() -> None:
    frame = run_of([StepRecord(step=3, loss=0.5), StepRecord(step=7, loss=0.25, kl=0.1)]).to_frame()
    assert frame.index.tolist() == [3, 7]
    assert frame["loss"].tolist() == [0.5, 0.25]
    assert frame["kl"].isna().tolist() == [True, False]


def test_half_a_character_in_a_name_is_written_as_an_escape_and_read_back() -> None:
    record = StepRecord(step=1, reward_components={"\ud800": 0.5})
    line = encode(record)
    assert b"\\ud800" in line
    assert decode(line).reward_components == {"\ud800": 0.5}
