"""Writes a log in the format of the AFlow-GRPO trainer from one row per step, for tests that must not copy a real
one."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

CACHE_WARNING = (
    "Caching is incompatible with gradient checkpointing in Qwen2DecoderLayer. Setting `past_key_values=None`."
)
HEAD = """✅ 梯度检查点已启用 (节省显存)
📈 初始化Cosine学习率调度器 (P1-3)...
  Warmup步数: 100
  总训练步数: 500
  初始LR: 2e-06

🚀 初始化WA-GRPO优势计算器...
"""


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a ``steps.csv``."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, steps: Iterable[dict[str, str]], *, warning: bool = True) -> Path:
    """Write a log of these steps: outputs, zero-variance groups, reward, update or skip, and the caching warning where
    it belongs."""
    parts = [HEAD]
    for row in steps:
        parts.append(f"{'=' * 60}\n📍 Step {row['step']}/500\n{'=' * 60}\n🌡️  Temperature: 0.290\n")
        parts.append(
            f"🚀🚀🚀 超级batch推理: {row['n_groups']}样本 × 2序列 = {row['n_dsl']}个workflow一次性GPU生成...\n"
        )
        if warning and row["cache_warning"] == "1":
            parts.append(CACHE_WARNING + "\n")
        for i in range(int(row["n_dsl"])):
            fallback = i < int(row["n_fallback"])
            dsl = "Custom (default fallback)" if fallback else "Custom -> Review ? Revise : done"
            parts.append(f"  📊 DSL质量: fallback={fallback}, ops=1, chain=False, DSL={dsl}\n")
        parts.append(
            f"🔧 P27 简单GRPO诊断:\n  零方差组: {row['zero_var_groups']}/{row['n_groups']}\n"
            f"  平均奖励: {row['mean_reward']}\n  奖励范围: [0.000, 1.000]\n\n"
        )
        skipped = "⏭️  P28: 跳过更新 - 所有advantage为0，无学习信号"
        parts.append(f"{'🔄 更新策略...' if row['update'] == '1' else skipped}\n\n")
    path.write_text("".join(parts), encoding="utf-8")
    return path
