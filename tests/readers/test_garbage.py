"""Any bytes give a run or one clear error, in time that is at most linear in the file size."""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_doctor.readers import ReadError, fast, read, row_buffer
from grpo_doctor.readers.formats import verl_console

from .make import known, run_of, tfevents, wandb

PIECES = [
    b"{'loss': 0.1, 'reward': nan, 'epoch': 1}", b'{"step": 1, "reward": 0.5}', b"step:1 - actor/entropy:0.5 - a/b:1",
    b"Step 12/500", b"iter 3 | loss=0.1 | reward 0.2", b"| reward | 0.5 |", b"\r", b"\n", b"\0", b"\x1b[31m", b"{", b"}", b"'",
    b'"', b"[", b"]", b": ", b"=", b"nan", b"inf", b"-1e999", b"1e-5", b"99999999999999999999", b"%|", b" 3/9 [", b"\xff\xfe",
    b"step,reward,loss\n1,2,3\n", b"<table><tr><td>", b"</td></tr></table>", b'{"cells": [{"cell_type": "code", "outputs": [{"text": [', b"| step | loss |\n", b"1700000000000 0.5 1\n", b'{"log_history": [', b'{"schema":1,"step":', "奖励: 0.5".encode(), b"PAR1", b":W&B\xe1\xbe\x00",
    b"\x18\0\0\0\0\0\0\0aaaabrain.Event:2", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"(TaskRunner pid=1) {'a': {", b"0,5", b"np.float64(",
    b'{"step": 1e400, "rewards": [[1, 2], [null]]}', b'{"type": "eval", "step": 0, "reward": 1}', b"\xe5\xa5", b" " * 50,
]  # fmt: skip
garbage = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=40).map(b"".join)


def survives(content: bytes, name: str = "x.log") -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        runs, said = [], str(path)
        try:
            runs = read(path)
        except ReadError as error:
            said = str(error)
        assert str(path) in said
        assert "\n" not in said
        for run in runs:
            assert all(len(column) == len(run) == len(run.lines) for column in run.columns.values())


@settings(max_examples=100, deadline=None)
@given(garbage)
def test_garbage(content: bytes) -> None:
    survives(content)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["trl", "jsonl", "verl", "tfevents", "wandb", "json", "csv"]), st.data())
def test_damaged_logs(kind: str, data: st.DataObject) -> None:
    table = [{"step": i, "train/reward": 0.5, "loss": i / 3, "epoch": i / 10} for i in range(1, 8)]
    logs = {
        "trl": "\n".join(f"{row}" for row in table).encode(),
        "jsonl": "\n".join(map(json.dumps, table)).encode(),
        "verl": b"\n".join(b"step:%d - actor/entropy:0.5 - critic/score/mean:0.5" % i for i in range(9)),
        "tfevents": tfevents([(i, {"train/reward": 0.5}) for i in range(9)], {"args": "{}"}),
        "wandb": wandb(table, {"beta": 0.1}),
        "json": json.dumps(table).encode(),
        "csv": b"step,reward,loss\n" + b"\n".join(b"%d,0.5,0.1" % i for i in range(9)),
    }
    content = bytearray(logs[kind])
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(content[: data.draw(st.integers(1, len(content)))]))


def mixed(lines: int) -> bytes:
    rng = random.Random(lines)
    return b"".join(b"".join(rng.choices(PIECES[:6] + PIECES[10:26], k=8)) + b"\n" for _ in range(lines))


@pytest.mark.parametrize(
    "content",
    [mixed, lambda n: b"{'" * n * 20, lambda n: b"[" * n * 20, lambda n: b"reward: " * n * 10, lambda n: b"1/" * n * 20,
     lambda n: b"<html>" + b"<td" * n * 20, lambda n: b"<table><tr><td>1" * n, lambda n: b"1  2  " * n * 20,
     lambda n: b"step loss\n1 2" + b" - 1" * n * 20, lambda n: b"step:1 - " + b"a/b:1 - " * n * 9, lambda n: b"\xe6\xad\xa5" * n * 9,
     lambda n: b"1e" * n * 30, lambda n: b"[rank" * n * 9, lambda n: b"iter 1 " + b"(" * n * 30,
     lambda n: (b"a" * 30 + b"=1 ") * n * 2, lambda n: b"%|" * n * 30, lambda n: b"{'a': {\n" * n],
    ids=["mixed", "braces", "brackets", "keys", "slashes",
         "tags", "cells", "spaces", "dashes", "verl", "chinese", "exponents", "ranks", "parentheses", "names", "bars", "open mappings"],
)  # fmt: skip
def test_time_grows_with_the_file_and_no_faster(tmp_path: Path, content: Callable[[int], bytes]) -> None:
    def seconds(n: int) -> float:
        path = tmp_path / f"{n}.log"
        path.write_bytes(content(n))
        started = time.process_time()
        survives(path.read_bytes())
        return time.process_time() - started

    seconds(100)
    small, large = min(seconds(1000) for _ in range(2)), min(seconds(8000) for _ in range(2))
    assert large < 8 * 3 * small + 0.5


def test_rows_of_one_shape_read_fast_are_those_read_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    lines = []
    for step in range(3000):
        row = {
            "step": step,
            "reward": rng.random(),
            "kl": 0.5 if step % 7 else None,
            "skipped": step % 2 == 0,
            "note": "x",
        }
        if step % 500 == 250:
            row |= {"eval_reward": 0.5, "new_key": 1}
        line = json.dumps(row)
        lines.append(line.replace('"kl": null', '"kl": NaN') if step % 997 == 1 else line)
    lines[1500] = '{"step": 1500, "rew'
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    same_read_quickly_and_slowly(path, monkeypatch, 2999)


def trl(step: int, rng: random.Random) -> str:
    row = {
        "loss": rng.random(),
        "reward": rng.random(),
        "kl": 0.5 if step % 7 else None,
        "note": "x",
        "epoch": step / 9,
    }
    row |= {"eval_reward": 0.5} if step % 50 == 0 else {}
    shown = {key: f"{value:.4g}" if step > 900 and isinstance(value, float) else value for key, value in row.items()}
    return f"{step % 100}%|##  | {step}/9999 [00:10<10:00]\n{shown}\n".replace(
        "'kl': 0.5", "'kl': nan" if step % 97 == 1 else "'kl': 0.5"
    )


def verl(step: int, rng: random.Random) -> str:
    keys = [
        "actor/entropy",
        "perf/a",
        "critic/score/mean",
        "perf/b",
        *(["val-core/acc/mean@1"] if step % 50 == 0 else []),
    ]
    figure = "{:.4f}" if step % 2 else "np.float64({:.4f})"
    values = (figure.format(rng.random()) if step % 97 else "nan" for _ in keys)
    return f"\x1b[36m(T pid=1)\x1b[0m step:{step} - {' - '.join(map(':'.join, zip(keys, values, strict=True)))}\nstep:1 - or not\n"


@pytest.mark.parametrize("line", [trl, verl])
def test_consoles_read_fast_are_those_read_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: Callable[[int, random.Random], str]
) -> None:
    rng = random.Random(5)
    path = tmp_path / "train.log"
    path.write_text("".join(line(step, rng) for step in range(1, 1500)), encoding="utf-8")
    same_read_quickly_and_slowly(path, monkeypatch, 1499)


def test_tables_read_fast_are_those_read_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    odd = ["", "nan", "inf", "12.5%", "1e400", '"0,5"', "x", "1_0"]
    rows = [
        [str(step), *(rng.choice(odd) if rng.random() < 0.02 else repr(rng.random()) for _ in range(5)), "a b"]
        for step in range(1, 1500)
    ]
    path = tmp_path / "metrics.csv"
    lines = ["step,reward,train/loss,val/score,my_own,epoch,note", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    same_read_quickly_and_slowly(path, monkeypatch, 1499)


def same_read_quickly_and_slowly(path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(fast, "CHUNK", 256)
    add = row_buffer.Rows.add
    slowly = []

    def counted(self: row_buffer.Rows, *row: Any) -> bool:
        slowly.append(row)
        return add(self, *row)

    monkeypatch.setattr(row_buffer.Rows, "add", counted)
    (quick,) = read(path)
    assert len(slowly) < 0.5 * steps
    monkeypatch.setattr(fast.JsonShape, "take", lambda self, raw, line, step: False)
    monkeypatch.setattr(fast.CellShape, "take", lambda self, cells, line: False)
    monkeypatch.setattr(verl_console.Lines, "quick", lambda self, line, raw: False)
    (slow,) = read(path)
    assert known(quick) == known(slow)
    assert quick.unread == slow.unread
    assert quick.notes == slow.notes
    assert np.array_equal(quick.steps, slow.steps)
    assert np.array_equal(quick.lines, slow.lines)
    assert quick.mapping == slow.mapping
    assert len(quick) == steps


def test_infinite_figures_are_read_without_a_warning(tmp_path: Path) -> None:
    rows = "".join(f"step {i} | reward {'inf' if i % 3 else 1e200} | loss 1e308 | kl inf\n" for i in range(9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(run_of(tmp_path, "a.log", rows)) == 9
