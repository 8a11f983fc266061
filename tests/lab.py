"""``make lab``: every fault of the engine on several seeds, and what the doctor says of it. Not part of the suite.

Prints a table: what was named, since when, how long after the fault began, and causes that are wrong. Options:
``--seeds 3``, ``--steps 45``, ``--only NAME`` (repeatable, ``healthy`` too), ``--json FILE``, and ``--keep FOLDER``
for the runs' folders: a run that stands there already is not trained but analysed again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from grpo_doctor import Diagnosis, LiveDoctor, diagnose
from grpo_doctor.check import Severity
from grpo_doctor.engine.faults import FAULTS, sick_engine
from grpo_doctor.engine.model import load_model
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import load_task
from grpo_doctor.engine.trainer import Trainer, TrainingDied
from grpo_doctor.record import read_records
from grpo_doctor.session import Folder, Session
from grpo_doctor.sources import read


def begins(name: str, steps: int) -> int:
    """Step at which a fault begins to show."""
    return {"nan-at-step": min(30, steps // 2), "train-mode-generation": 2}.get(name, 1)


def trained(names: list[str], seed: int, keep: Path | None = None, **changes: Any) -> tuple[Diagnosis, list[Any]]:
    """The doctor's last word on a run with these faults, and the run's records; ``keep`` is the folder to write."""
    engine, of_fault = sick_engine(names)
    settings = settings_of({**of_fault, **changes, "seed": seed}, "lab")
    trainer = Trainer(engine(settings, *load_model(settings), load_task(settings.task, settings.reward)))
    declared = json.loads(json.dumps({**settings.declared(), "inject": names}))
    doctor = LiveDoctor(declared)
    watcher: LiveDoctor | Session = doctor
    if keep is not None:
        watcher = Session(Folder(keep), doctor, trainer, save_steps=settings.max_steps + 1)
        watcher.folder.begin(declared)
    records = []
    try:
        for record, samples in trainer.run():
            watcher.push(record, samples)
            records.append(record)
    except TrainingDied:
        pass
    return doctor.diagnosis(), records


def examined(name: str, seed: int, steps: int, keep: Path | None) -> tuple[Diagnosis, list[Any]]:
    """What `trained` gives for one line of the table, or the same of the run that was kept."""
    folder = None if keep is None else keep / f"{name}-{steps}-{seed}"
    if folder is not None and (folder / "records.jsonl").exists():
        return diagnose(read(folder)[0]), list(read_records(folder / "records.jsonl"))
    long: dict[str, Any] = (
        {} if name == "train-mode-generation" else {"max_steps": steps}
    )  # it brings its own length and needs it
    names = [] if name == "healthy" else [name]
    if folder is None:
        return trained(names, seed, **long)
    with TemporaryDirectory() as draft:  # a run that is broken off leaves nothing
        found = trained(names, seed, Path(draft), **long)
        shutil.copytree(draft, folder)
    return found


def row(name: str, seed: int, steps: int, keep: Path | None) -> dict[str, Any]:
    """What the doctor says of one run."""
    began = time.process_time()
    named = () if name == "healthy" else FAULTS[name].named_by
    diagnosis, records = examined(name, seed, steps, keep)
    headline = diagnosis.finding(diagnosis.cause) if diagnosis.cause else None
    causes = [f.code for f in diagnosis.findings if f.role == "cause"]
    own = next((f for f in diagnosis.findings if f.code in named), None)
    first = begins(name, steps)
    notes = [
        f"{f.code}{'' if f.role == 'note' else '*'}"
        for f in diagnosis.findings
        if f.level >= Severity.WARNING and f.code not in (named if own else ())
    ]
    return {
        "fault": name,
        "seed": seed,
        "verdict": diagnosis.verdict,
        "headline": f"{headline.code} ({headline.role})" if headline else "",
        "own": f"{own.code} ({own.role}, {own.severity})" if own else "",
        "onset": own.onset_step if own else None,
        "delay": own.detected_step - first if own else None,
        "wrong": [code for code in causes if code not in named],
        "others": notes,
        "rewards": [round(sum(r.reward_mean for r in part) / len(part), 2) for part in (records[:5], records[-5:])],
        "seconds": round(time.process_time() - began),
    }


def main() -> int:
    """Prints the table; 1 if any wrong cause was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--only", action="append", choices=["healthy", *FAULTS])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    head = "fault seed verdict headline own onset delay wrong others rewards seconds".split()
    table = Table(*head, box=None, padding=(0, 1))
    rows = []
    for name in options.only or ["healthy", *FAULTS]:
        for seed in range(options.seeds):
            rows.append(row(name, seed, options.steps, options.keep))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            table.add_row(*(_words(rows[-1][key]) for key in head))
    Console(width=200, highlight=False).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any(row["wrong"] for row in rows))


def _words(value: Any) -> str:
    return "" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    sys.exit(main())
