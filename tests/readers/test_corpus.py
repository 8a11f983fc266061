"""A sample of the real logs: rows and rewards are counted by a text search that is independent of the reader."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from grpo_doctor.readers import read
from tests.corpus_path import CORPUS, needs_corpus
from tests.goldens.sample import sampled

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"


def labelled(*words: str) -> list[str]:
    """Return the files of the corpus whose format contains one of the words."""
    if not CORPUS.is_dir():
        return []
    with open(CORPUS / "labels.csv", encoding="utf-8", newline="") as file:
        return [row["file"] for row in csv.DictReader(file) if any(word in row["format"] for word in words)]


def few(names: Iterable[str]) -> list[str]:
    """Return a sample of these files of the corpus."""
    return [name.removeprefix("logs/") for name in sampled(f"logs/{name}" for name in names)]


def text_of(name: str) -> str:
    text = (CORPUS / name).read_bytes().decode("utf-8", "replace")
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "\n")


def rewards(name: str) -> list[float]:
    """Return every reward in the runs of a file, in row order."""
    columns = [run.columns["reward_mean"] for run in read(CORPUS / name) if "reward_mean" in run.columns]
    return [value for column in columns for value in column[~np.isnan(column)].tolist()]


def in_console(name: str) -> list[float]:
    found: list[str] = []
    for row in re.findall(r"\{'[^{}\n]*\}", text_of(name)):
        if "'reward':" in row and row not in found[-1:]:
            found.append(row)
    return [float(re.search(rf"'reward': '?({NUMBER})", row)[1]) for row in found]  # type: ignore[index]


def in_verl(name: str) -> list[float]:
    pattern = rf"step:(\d+) - [^\n]*?critic/score/mean:(?:np\.float64\()?({NUMBER})"
    return list({int(step): float(value) for step, value in re.findall(pattern, text_of(name))}.values())


def in_history(name: str) -> list[float]:
    """Return the value of every key ``reward`` of a JSON document that is next to a step."""
    value = json.loads((CORPUS / name).read_text(encoding="utf-8"))
    rows = value if isinstance(value, list) else value.get("log_history", [])
    return [float(row["reward"]) for row in rows if row.get("reward") is not None and "train_runtime" not in row]


def same(name: str, wanted: list[float]) -> None:
    assert rewards(name) == pytest.approx(wanted, abs=1e-9, nan_ok=True)


def consoles() -> list[str]:
    return [name for name in labelled("TRL") if Path(name).suffix not in (".json", ".jsonl")]


@needs_corpus
@pytest.mark.parametrize("name", few(consoles()))
def test_rewards_of_consoles_of_trl(name: str) -> None:
    same(name, in_console(name))


@needs_corpus
@pytest.mark.parametrize("name", few(labelled("verl-console")))
def test_rewards_of_consoles_of_verl(name: str) -> None:
    same(name, in_verl(name))


@needs_corpus
@pytest.mark.parametrize("name", few(name for name in labelled("TRL") if name.endswith("step_logs.json")))
def test_rewards_of_histories(name: str) -> None:
    same(name, in_history(name))


ROLLOUT = r'"type": "rollout",[^\n]*?"reward": (NUMBER)'
PRINTED = {
    "assignment5-alignment/metrics.jsonl": ROLLOUT,
    "minimind-from-scratch/": r"\bReward: (NUMBER), (?:KL_ref|Fmt)",
    "trainer_state.json": r'"reward": (NUMBER)',
    "Fair-RLVR/step_logs.json": r'"reward_mean": (NUMBER)',
    "Fair-RLVR/wandb-summary.json": r'"train/reward": ?(NUMBER)',
    "grpo_log.jsonl": r'"mean_reward": (NUMBER)',
    "WidgetAnchor/": r"\bmean_reward: (NUMBER)",
    "reward-hacking-entropy/metrics.jsonl": r'"reward/mean": (NUMBER)',
    "tinker-cookbook-reward-hacking/metrics.jsonl": r'"env/all/reward/total": (NUMBER)',
    "promptops_arena/": r'"total": (NUMBER)',
    "trajectory.json": r'"(?:reward|objective/scores)": (NUMBER)',
    "logic-rl-formula/": r"critic/score/mean:(NUMBER)",
    "GUI-Cursor-Moving/": r"critic/score/mean:(NUMBER)",
}
"""What a file's name holds, and how its trainer prints the reward of a step: found by a search of the whole text."""
LISTED = {
    "autoresearch/grpo_v3_run.log": r"^\[step \d+\] (?:SKIP )?rewards=\[([^\]]*)\]",
    "autoresearch/grpo_remediated.log": r"^\[step \d+\] rewards=\[([^\]]*)\]",
    "probability-aligned-llms/": r"rewards: tensor\(\[([^\]]*)\]",
}
"""The same where the rewards of a step stand one by one; its reward is their mean."""


def others(found: Iterable[str]) -> list[str]:
    """Return the files of the corpus whose names contain one of these."""
    return [name for name in labelled("") if any(part in name for part in found)]


def pattern_of(name: str, patterns: dict[str, str]) -> str:
    return next(pattern for part, pattern in patterns.items() if part in name).replace("NUMBER", NUMBER)


@needs_corpus
@pytest.mark.parametrize("name", few(others(PRINTED)))
def test_rewards_of_all_that_print_one_a_step(name: str) -> None:
    printed = re.findall(pattern_of(name, PRINTED), text_of(name), re.MULTILINE)
    same(name, [float(value) for value in printed])


@needs_corpus
@pytest.mark.parametrize("name", few(others(LISTED)))
def test_rewards_of_all_that_list_them(name: str) -> None:
    printed = re.findall(pattern_of(name, LISTED), text_of(name), re.MULTILINE)
    same(name, [float(np.mean([float(value) for value in listed.split(",")])) for listed in printed])


@needs_corpus
@pytest.mark.parametrize("name", few(labelled("tfevents")))
def test_rewards_of_event_files(name: str) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(CORPUS / name)).Reload()
    same(name, [event.value for event in events.Scalars("train/reward")])
