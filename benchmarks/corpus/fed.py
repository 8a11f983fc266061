"""Feeds records to tools that read no log: ``python fed.py rlwatch|rlprobe RECORDS.jsonl``; prints JSON.

It runs in the environment of the peers, without this package. Fields go under the tool's names; others are left out.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMES = {
    "rlwatch": {
        "entropy_mean": "entropy", "kl": "kl_divergence", "reward_mean": "reward_mean", "reward_std": "reward_std",
        "advantage_std": "advantage_std", "loss": "loss", "learning_rate": "learning_rate",
        "clip_fraction": "clip_fraction", "grad_norm": "grad_norm",
    },
    "rlprobe": {
        "reward_mean": "reward_mean", "reward_std": "reward_std", "reward_min": "reward_min",
        "reward_max": "reward_max", "kl": "kl_mean", "entropy_mean": "entropy_mean", "ratio_mean": "ratio_mean",
        "clip_fraction": "clip_fraction", "advantage_mean": "adv_mean", "advantage_std": "adv_std",
        "zero_variance_share": "zero_variance_group_frac", "value_loss": "value_loss",
        "value_explained_variance": "value_explained_variance", "loss": "loss", "learning_rate": "lr",
        "grad_norm": "grad_norm", "response_length_mean": "completion_len_mean", "truncated_rate": "truncation_rate",
        "repetition_rate": "repetition_rate",
    },
}  # fmt: skip
"""Field of a record, and the argument of the tool that means the same."""


def rlwatch(rows: list[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
    """Every alert of a monitor that is called step by step."""
    import rlwatch as tool

    monitor = tool.attach(framework="manual", run_id="board", storage={"log_dir": folder})
    return [{"severity": alert.severity} for row in rows for alert in monitor.log_step(**row)]


def rlprobe(rows: list[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
    """The findings of its doctor on a recording of the rows."""
    from rlprobe.doctor import diagnose
    from rlprobe.schemas import RunManifest, StepRecord
    from rlprobe.storage import RunWriter

    writer = RunWriter(folder, RunManifest(run_id="board", created_at="2026-01-01T00:00:00", algorithm="grpo"))
    for row in rows:
        writer.add_step(StepRecord(**row))
    writer.close()
    return [finding.model_dump() for finding in diagnose(Path(folder))]


def main() -> None:
    """Reads the records, feeds them and prints the findings."""
    tool, source = sys.argv[1:]
    rows = []
    for line in Path(source).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        rows.append(
            {"step": record["step"]} | {to: float(record[name]) for name, to in NAMES[tool].items() if name in record}
        )
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        found = {"rlwatch": rlwatch, "rlprobe": rlprobe}[tool](rows, folder)
    print(json.dumps({"findings": found}, default=str))


if __name__ == "__main__":
    main()
