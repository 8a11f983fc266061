"""What the gate reports: for each arrangement of inputs, its exit code and the output line that names what was not
judged. Every arrangement has one healthy log, so an input that the gate ignored would pass with it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers import walk
from tests.unprivileged import permissions_hold

PASS, FAIL, UNREADABLE, UNJUDGED = 0, 1, 2, 3


def rows(*, bad: bool = False, steps: int = 60) -> list[dict[str, Any]]:
    """Return the rows of a run that learns; a bad one has a loss of NaN starting at step 30."""
    return [
        {
            "step": step,
            "reward": round(0.3 + 0.005 * step + 0.01 * (step * 7 % 5) + (0.001 if bad else 0), 4),
            "loss": float("nan") if bad and step >= 30 else round(0.1 + 0.01 * (step * 3 % 7), 4),
            "grad_norm": round(0.5 + 0.02 * (step * 5 % 11), 4),
        }
        for step in range(1, steps + 1)
    ]


def jsonl(*, bad: bool = False, steps: int = 60) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows(bad=bad, steps=steps)).encode()


def csv(*, bad: bool = False) -> bytes:
    told = rows(bad=bad)
    lines = [",".join(told[0]), *(",".join(str(value) for value in row.values()) for row in told)]
    return "\n".join(lines).encode() + b"\n"


def console(*, bad: bool = False) -> bytes:
    return "".join(
        f"step {r['step']}: loss={r['loss']} reward={r['reward']} grad_norm={r['grad_norm']}\n" for r in rows(bad=bad)
    ).encode()


def state(*, steps: int = 60, planned: int = 60, bad: bool = False) -> bytes:
    history = rows(bad=bad, steps=steps)
    return json.dumps({"global_step": steps, "max_steps": planned, "log_history": history}, indent=1).encode()


def zipped(**members: bytes) -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_jsonl", ".jsonl").replace("_zip", ".zip"), content)
    return buffer.getvalue()


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class Case(NamedTuple):
    """An arrangement: the files next to ``runs/a/metrics.jsonl``, the arguments of the gate, and the expected
    result."""

    make: Callable[[Path], object]
    code: int
    line: str
    strict: int | None = None
    named: tuple[str, ...] = ("runs",)
    locked: tuple[str, ...] = ()


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda here: put(here / "runs" / name, content)


def link(name: str, target: str) -> Callable[[Path], object]:
    def make(here: Path) -> None:
        path = here / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    return make


def both(*makers: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda here: [make(here) for make in makers]


BAD, TORN = jsonl(bad=True), jsonl()[:-20]
NAN = "GRD001 nan-or-inf since step 30"
CASES = {
    # -- good and bad -------------------------------------------------------------------------------------------
    "nothing else": Case(lambda here: None, PASS, "1 run: 1 pass", PASS),
    "a failing log": Case(write("b/metrics.jsonl", BAD), FAIL, f"b/metrics.jsonl: {NAN}"),
    "a failing table": Case(write("b.csv", csv(bad=True)), FAIL, f"b.csv: {NAN}"),
    "a failing console": Case(write("b/train.txt", console(bad=True)), FAIL, f"b/train.txt: {NAN}"),
    "code and weights": Case(
        both(write("train.py", b"loss = 1"), write("model.safetensors", b"\0" * 64)), PASS, "1 run: 1 pass", PASS
    ),
    # -- empty --------------------------------------------------------------------------------------------------
    "an empty folder that is named": Case(
        lambda here: (here / "empty").mkdir(),
        UNJUDGED,
        "unjudged empty: no run found",
        named=("runs", "empty"),
    ),
    "an empty file that is named": Case(
        lambda here: put(here / "b.jsonl", b""), UNJUDGED, "unjudged b.jsonl: ", named=("runs", "b.jsonl")
    ),
    "a folder of no log that is named": Case(
        lambda here: put(here / "code/train.py", b"x = 1\n"),
        UNJUDGED,
        "unjudged code: no run found",
        named=("runs", "code"),
    ),
    "an empty log in a folder": Case(
        write("b/metrics.jsonl", b""), PASS, "b/metrics.jsonl: not read: the file is empty", 2
    ),
    "a console that printed nothing": Case(write("b/slurm-1.err", b""), PASS, "1 ignored", PASS),
    "a log of a process that never trained": Case(
        write("b/train.log", b"loading the model\nready\n"), PASS, "b/train.log: no training metric", PASS
    ),
    "rows of which no metric is known": Case(
        write("b/metrics.jsonl", b'{"alpha": 1}\n{"alpha": 2}\n{"alpha": 3}\n'),
        PASS,
        "b/metrics.jsonl: not read: no training metric",
        2,
    ),
    "an input that is not there": Case(
        lambda here: None, UNREADABLE, "b.jsonl: No such file", named=("runs", "b.jsonl")
    ),
    # -- torn ---------------------------------------------------------------------------------------------------
    "a torn last line": Case(write("b/metrics.jsonl", TORN + b"\n" + BAD[:0]), PASS, "line 60 is incomplete", PASS),
    "a torn trainer_state.json": Case(
        write("b/trainer_state.json", state()[:60]),
        UNREADABLE,
        "b/trainer_state.json: unreadable: the JSON is incomplete",
    ),
    "a torn gzip": Case(
        write("b/metrics.jsonl.gz", gzip.compress(BAD)[:30]), UNREADABLE, "b/metrics.jsonl.gz: unreadable: "
    ),
    "a torn zip": Case(
        write("b/logs.zip", zipped(b_jsonl=BAD)[:-40]), UNREADABLE, "b/logs.zip: unreadable: the archive"
    ),
    "binary data under the name of a log": Case(
        write("b/train.log", b"\0\1\2\3" * 400), UNREADABLE, "b/train.log: unreadable: binary data"
    ),
    "binary data under the name of a table": Case(
        write("b/results.csv", b"\0\1\2\3" * 400), PASS, "b/results.csv: not read: binary data", 2
    ),
    # -- without permission -------------------------------------------------------------------------------------
    "a log without permission": Case(
        write("b/metrics.jsonl", BAD),
        UNREADABLE,
        "b/metrics.jsonl: unreadable: Permission denied",
        locked=("runs/b/metrics.jsonl",),
    ),
    "a table without permission": Case(
        write("b.csv", csv(bad=True)), UNREADABLE, "b.csv: unreadable: Permission denied", locked=("runs/b.csv",)
    ),
    "a document without permission": Case(
        write("b.json", state(bad=True)), UNREADABLE, "b.json: unreadable: Permission denied", locked=("runs/b.json",)
    ),
    "a text without permission": Case(
        write("b.txt", console(bad=True)), UNREADABLE, "b.txt: unreadable: Permission denied", locked=("runs/b.txt",)
    ),
    "a folder without permission": Case(
        write("b/metrics.jsonl", BAD), UNREADABLE, "runs/b: unreadable: a folder: Permission denied", locked=("runs/b",)
    ),
    "a named folder without permission": Case(
        lambda here: put(here / "other/b.jsonl", BAD),
        UNREADABLE,
        "other: unreadable: a folder: Permission denied",
        named=("runs", "other"),
        locked=("other",),
    ),
    # -- hidden and renamed -------------------------------------------------------------------------------------
    "a hidden folder": Case(write(".b/metrics.jsonl", BAD), FAIL, f".b/metrics.jsonl: {NAN}"),
    "a hidden file": Case(write(".b.jsonl", BAD), FAIL, f".b.jsonl: {NAN}"),
    "a rotated log": Case(write("b.jsonl.1", BAD), FAIL, f"b.jsonl.1: {NAN}"),
    "a log rotated by date": Case(write("b.log-20240501", console(bad=True)), FAIL, f"b.log-20240501: {NAN}"),
    "a rotated log that is compressed": Case(write("b.log.2.gz", gzip.compress(BAD)), FAIL, f"b.log.2.gz: {NAN}"),
    "a backup": Case(write("b.jsonl.bak", BAD), FAIL, f"b.jsonl.bak: {NAN}"),
    "an ending that nobody knows": Case(write("b.metrics_v2", BAD), FAIL, f"b.metrics_v2: {NAN}"),
    "ndjson": Case(write("b.ndjson", BAD), FAIL, f"b.ndjson: {NAN}"),
    "debug.log": Case(write("b/debug.log", console(bad=True)), FAIL, f"b/debug.log: {NAN}"),
    "figures that are no rows": Case(
        write("b/notes.txt", b"wandb: Run summary:\nwandb:     train/kl 0.25\nwandb: train/reward nan\n"),
        PASS,
        "b/notes.txt: not read: 2 numbers with metric names",
        2,
    ),
    # -- compressed ---------------------------------------------------------------------------------------------
    "gzip": Case(write("b.jsonl.gz", gzip.compress(BAD)), FAIL, f"b.jsonl.gz: {NAN}"),
    "bzip2": Case(write("b.jsonl.bz2", bz2.compress(BAD)), FAIL, f"b.jsonl.bz2: {NAN}"),
    "xz": Case(write("b.jsonl.xz", lzma.compress(BAD)), FAIL, f"b.jsonl.xz: {NAN}"),
    "zstandard": Case(write("b.jsonl.zst", zstandard.compress(BAD)), FAIL, f"b.jsonl.zst: {NAN}"),
    "zip": Case(write("b.zip", zipped(deep__b_jsonl=BAD)), FAIL, f"b.zip/deep/b.jsonl: {NAN}"),
    "a zip that is named": Case(
        lambda here: put(here / "b.zip", zipped(b_jsonl=BAD)), FAIL, f"b.zip/b.jsonl: {NAN}", named=("runs", "b.zip")
    ),
    "a zip in a zip": Case(
        write("b.zip", zipped(inner_zip=zipped(b_jsonl=BAD))),
        PASS,
        "b.zip/inner.zip: not read: an archive inside an archive",
        2,
    ),
    "an archive that no reader opens": Case(
        write("b.7z", b"7z\xbc\xaf\x27\x1c" + bytes(range(256))), PASS, "b.7z: not read: binary data", 2
    ),
    "a tar archive": Case(
        write("logs.tar", b"b.jsonl".ljust(257, b"\0") + b"ustar" + bytes(300)),
        PASS,
        "logs.tar: not read: a tar archive",
        2,
    ),
    # -- linked -------------------------------------------------------------------------------------------------
    "a link to a failing run": Case(
        both(lambda here: put(here / "elsewhere/metrics.jsonl", BAD), link("b", "../elsewhere")),
        FAIL,
        f"runs/b/metrics.jsonl: {NAN}",
    ),
    "a link to a failing log": Case(
        both(lambda here: put(here / "elsewhere.jsonl", BAD), link("b.jsonl", "../elsewhere.jsonl")),
        FAIL,
        f"runs/b.jsonl: {NAN}",
    ),
    "a link to a folder that is read": Case(link("z", "a"), PASS, "1 run: 1 pass", PASS),
    "a link to itself": Case(link("a/loop", "."), PASS, "1 run: 1 pass", PASS),
    "a link to the folder above": Case(link("up", "../.."), PASS, "runs/up: not read: a link to ", 2),
    "a link that leads nowhere": Case(link("b.jsonl", "gone.jsonl"), PASS, "b.jsonl: not read: a broken link", 2),
    "a link that leads to itself": Case(link("b.jsonl", "b.jsonl"), PASS, "b.jsonl: not read: a broken link", 2),
    "a pipe": Case(lambda here: os.mkfifo(here / "runs/b.log"), PASS, "b.log: not read: not a regular file", 2),
    # -- views and unfinished runs ------------------------------------------------------------------------------
    "a copy": Case(write("b/metrics.jsonl", jsonl()), PASS, "1 duplicate", PASS),
    "a copy that ends otherwise": Case(
        write("b/metrics.jsonl", jsonl(steps=57) + b'{"step": 58, "reward": 0, "loss": NaN, "grad_norm": NaN}\n' * 3),
        FAIL,
        "b/metrics.jsonl: GRD001",
    ),
    "a run that was killed": Case(
        write("b/trainer_state.json", state(steps=40, planned=2000).replace(b"0.5", b"0.6")),
        PASS,
        "checks ran; the log ends at step 40 of 2000",
        PASS,
    ),
}


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_gate_names_what_was_not_judged(
    case: Case, strict: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "runs/a/metrics.jsonl", jsonl())
    case.make(tmp_path)
    for name in case.locked:
        (tmp_path / name).chmod(0)
    try:
        with permissions_hold():
            result = CliRunner().invoke(app, ["gate", *case.named, *(["--strict"] if strict else [])])
    finally:
        for name in case.locked:
            (tmp_path / name).chmod(0o700)
    told = re.sub(r" +", " ", result.output)
    assert case.line in told
    assert result.exit_code == (case.strict if strict and case.strict is not None else case.code), told
    assert ("not read" in told) == (case.strict == UNREADABLE), "what makes strict fail is named, and nothing else is"


def test_a_folder_that_vanishes_while_it_is_read_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a/metrics.jsonl", jsonl())
    put(tmp_path / "b/metrics.jsonl", BAD)
    met = walk._Walk._met

    def vanishing(self: Any, folder: Path) -> Any:
        if folder.name == "a":
            shutil.rmtree(tmp_path / "b", ignore_errors=True)
        return met(self, folder)

    monkeypatch.setattr(walk._Walk, "_met", vanishing)
    result = CliRunner().invoke(app, ["gate", str(tmp_path)])
    assert result.exit_code == UNREADABLE
    assert f"{tmp_path / 'b'}: unreadable: a folder: No such file or directory" in result.output


def test_a_file_that_vanishes_while_it_is_read_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a/metrics.jsonl", jsonl())
    gone = put(tmp_path / "b.csv", csv(bad=True))
    known = walk._Walk._known

    def vanishing(self: Any, path: Path) -> Any:
        answer = known(self, path)
        if path == gone:
            gone.unlink()
        return answer

    monkeypatch.setattr(walk._Walk, "_known", vanishing)
    result = CliRunner().invoke(app, ["gate", str(tmp_path)])
    assert result.exit_code == UNREADABLE
    assert f"{gone}: unreadable: No such file or directory" in result.output
