"""Small generated inputs of every kind that is read: the seeds of the mutations."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import zstandard

from grpo_doctor.cli.gate import BASELINE
from grpo_doctor.record import StepRecord, encode
from tests import aflow_log
from tests.readers.make import tfevents, wandb
from tests.readers.test_dual import BOUNDARY, GENERATION_A, GENERATION_B, LOGITS
from tests.readers.test_lever import TABLE

Row = dict[str, Any]


def rows(n: int = 14) -> list[Row]:
    """Return rows as TRL logs them: a rising reward of two components, with occasional groups of equal rewards."""
    return [
        {
            "step": i,
            "reward": round(0.2 + 0.03 * i, 4),
            "reward_std": 0.4,
            "rewards/form/mean": 0.1 + 0.01 * i,
            "rewards/right/mean": 0.1 + 0.02 * i,
            "kl": 0.001 * i,
            "entropy": 1.2 - 0.05 * i,
            "loss": 0.01 * (-1) ** i,
            "grad_norm": 0.3,
            "learning_rate": 1e-6,
            "completions/mean_length": 200.0 + i,
            "frac_reward_zero_std": 0.25,
            "clip_ratio/region_mean": 0.01,
            "epoch": i / 10,
        }
        for i in range(1, n + 1)
    ]


def logs() -> dict[str, bytes]:
    """Return name and content of one log of each format."""
    table = rows()
    lines = [json.dumps(row) for row in table]
    names = list(table[0])
    records = [
        StepRecord(step=r["step"], reward_mean=r["reward"], loss=r["loss"], group_rewards=[[0.0, 1.0]]) for r in table
    ]
    cell = {"cell_type": "code", "outputs": [{"output_type": "stream", "text": [f"{row}\n" for row in table]}]}
    curves = {name: [row[name] for row in table] for name in names}
    found = {
        "metrics.jsonl": "\n".join(lines),
        "trainer_state.json": json.dumps({"max_steps": 14, "log_history": table}),
        "curves.json": json.dumps({"config": {"beta": 0.04, "num_generations": 8}, "history": curves}),
        "train.log": "".join(f"{i}%|## | {i}/14 [00:0{i % 9}<00:10, 1.0s/it]\r{row}\n" for i, row in enumerate(table, 1)),
        "verl.log": "".join(
            f"(T pid=7) step:{r['step']} - actor/entropy:{r['entropy']:.4f} - critic/score/mean:np.float64({r['reward']}) "
            f"- actor/grad_norm:0.3 - response_length/clip_ratio:0.0 - training/global_step:{r['step']}\n"
            for r in table
        ),
        "hand.log": "args: {'lr': 1e-06, 'beta': 0.04}\n"
        + "".join(f"Step {r['step']}/14 | loss={r['loss']} | reward: {r['reward']} ± 0.4 | kl 1e-3 | len 200\n" for r in table),
        "rewards.txt": "".join(f"Iter {r['step']}\nRewards: tensor([0., 1., {r['reward']}])\nloss: {r['loss']}\n" for r in table),
        "table.csv": "\n".join([",".join(names), *(",".join(str(row[name]) for name in names) for row in table)]),
        "table.md": "\n".join(["| step | reward | loss |", "|---|---|---|", *(f"| {r['step']} | {r['reward']} | {r['loss']} |" for r in table)]),
        "run.ipynb": json.dumps({"cells": [cell], "nbformat": 4, "metadata": {}}),
        "table.html": "<table><tr><th>Step</th><th>reward</th></tr>"
        + "".join(f"<tr><td>{r['step']}</td><td>{r['reward']}</td></tr>" for r in table) + "</table>",
        "completions.jsonl": "\n".join(json.dumps({"step": i // 4, "prompt": "2+2", "completion": "4", "reward": i % 2}) for i in range(24)),
        "records.jsonl": b"\n".join(map(encode, records)).decode(),
        "dual.log": LOGITS.format(step=0, label="a", logit=30.5, gap=9.1) + BOUNDARY + GENERATION_A + GENERATION_B,
        "lever.log": TABLE,
        "aflow.log": _aflow(),
        "quick.jsonl": "\n".join(json.dumps({"step": i, "reward": i / 450, "rewards/a/mean": i / 900}) for i in range(450)),
        "long.csv": "step,metric,value\n" + "".join(f"{r['step']},{n},{r[n]}\n" for r in table for n in ("reward", "loss")),
    }  # fmt: skip
    binary = {
        "events.out.tfevents.1.a": tfevents(
            [(r["step"], {"train/reward": r["reward"]}) for r in table], {"args": "{}"}
        ),
        "run-a.wandb": wandb(table, {"beta": 0.1, "num_generations": {"value": 8}}),
        "metrics.jsonl.gz": gzip.compress("\n".join(lines).encode(), mtime=0),
        "metrics.jsonl.zst": zstandard.compress("\n".join(lines).encode()),
        "logs.zip": _archive({"metrics.jsonl": "\n".join(lines)}),
        "completions.parquet": _parquet(found["completions.jsonl"]),
        "trackio.db": _trackio(table),
    }
    return {**{name: text.encode() for name, text in found.items()}, **binary}


def _aflow() -> str:
    row = {
        "n_groups": "4",
        "n_dsl": "8",
        "n_fallback": "2",
        "zero_var_groups": "1",
        "mean_reward": "0.4",
        "update": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        steps = [{**row, "step": str(i), "cache_warning": str(int(i == 3))} for i in range(1, 7)]
        return aflow_log.write(Path(folder, "a.log"), steps).read_text(encoding="utf-8")


def _archive(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def _parquet(rows: str) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([json.loads(row) for row in rows.splitlines()]), out)
    return out.getvalue()


def _trackio(table: list[Row]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.db")
        with sqlite3.connect(path) as store:
            store.execute("create table metrics(id integer primary key, run_id, run_name, step, metrics)")
            store.execute("create table configs(run_id, run_name, config)")
            store.executemany(
                "insert into metrics(run_id, run_name, step, metrics) values ('a', 'a', ?, ?)",
                [(row["step"], json.dumps(row)) for row in table],
            )
        store.close()
        return path.read_bytes()


def configurations() -> dict[str, bytes]:
    """Return name and content of one configuration of each kind."""
    trl = {
        "per_device_train_batch_size": 4,
        "num_generations": 8,
        "beta": 0.04,
        "learning_rate": 1e-6,
        "max_steps": 100,
    }
    said = ", ".join(f"{name}={value}" for name, value in trl.items())
    return {
        "args.json": json.dumps(trl).encode(),
        "grpo.yaml": b"trainer: grpo\nmodel: a/b\n" + "".join(f"{k}: {v}\n" for k, v in trl.items()).encode()
        + b"actor: &a {lr: 1e-6}\ncritic: *a\nrewards:\n  - name: x\n    weight: 0.5\n",
        "grpo.toml": b"[grpo]\n" + "".join(f"{k} = {v}\n" for k, v in trl.items()).encode(),
        "train.py": f"from trl import GRPOConfig, GRPOTrainer\nK = 8\nargs = GRPOConfig({said})\n"
        "def reward(completions, **kw):\n    return [len(c) for c in completions]\n"
        "trainer = GRPOTrainer(model='a', args=args, reward_funcs=reward)\n".encode(),
        "run.sh": b"#!/bin/bash\nN=8\nset -x\npython3 -m verl.trainer.main_ppo \\\n  algorithm.adv_estimator=grpo \\\n"
        b"  actor_rollout_ref.rollout.n=$N \\\n  actor_rollout_ref.actor.ppo_mini_batch_size=${B:-256} \\\n"
        b"  data.train_batch_size=$((N * 16)) trainer.total_epochs=1 \"$@\" <<EOF\nx\nEOF\n",
        "notebook.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": [f"args = GRPOConfig({said})\n"]}]}).encode(),
    }  # fmt: skip


def options() -> dict[str, bytes]:
    """Return the user's settings in both files that may contain them."""
    own = (
        'select = ["ADV", "KL001"]\nignore = ["entropy-collapse"]\npreview = true\nfail-on = "warning"\n'
        'budget-seconds = 60\nbudget_megabytes = 512.5\nchecks = []\n'
        '[map]\n"train/score" = "reward_mean"\n[settings]\ngroup_size = 8\nbeta = 0.04\n'
        '[thresholds.KL001]\nhold = 3\n'
    )  # fmt: skip
    accepted = '[[tool.grpo-doctor.accept]]\ncode = "ADV003"\nreason = "known"\nuntil = 2999-12-31\npath = "logs/*"\n'
    return {
        "grpo-doctor.toml": own.encode(),
        "pyproject.toml": f"[project]\nname = 'a'\n[tool.grpo-doctor]\nfail_on = 'error'\n{accepted}".encode(),
    }


def baselines() -> dict[str, bytes]:
    """Return baselines of known findings."""
    known = [{"source": "made/metrics.jsonl", "code": code} for code in ("ADV003", "KL001")]
    return {"known.json": json.dumps({"schema": BASELINE, "findings": known}).encode()}


TRAINER = b'''import torch
from .rewards import accuracy_reward

class Trainer:
    def __init__(self, model, tokenizer, group_size=8):
        self.model, self.tokenizer, self.group_size = model, tokenizer, group_size

    def generate_rollouts(self, prompts: list[str]) -> "list[str]":
        return self.model.generate(**self.tokenizer(prompts, padding=True))

    def compute_logprobs(self, input_ids, attention_mask, *, temperature: float = 1.0):
        return self.model(input_ids, attention_mask).logits.log_softmax(-1)

def compute_advantages(rewards, group_size, eps=1e-6):
    """Of each group."""
    grouped = rewards.view(-1, group_size)
    return (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + eps)

def grpo_loss(new_logprobs, old_logprobs, advantages, mask, **kwargs):
    return -(torch.exp(new_logprobs - old_logprobs) * advantages * mask).sum()

if __name__ == "__main__":
    Trainer(None, None)
'''
"""A trainer in which functions that look like entry points are found."""
