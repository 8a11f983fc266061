"""Reads the fairness/hallucination trainer of BoBaCai/grpo-dual: console output, and step metrics as CSV or JSONL.

The console output had three versions (31 October to 1 December 2025), and BoBaCai/grpo-dual also contains a one-line
form. All four forms are read in the same way. Steps are usually counted from 1. The logits block, the boundary block,
the monitor of zero-gradient groups and the one-line form count from 0.

Two metrics are not read. The count of blocked EOS tokens always includes all EOS tokens, because the processor counts
the tokens that it masked itself. The monitor of zero-gradient groups treats each response as a group, so the counts and
success rates of the monitor are wrong.
"""

from __future__ import annotations

import re

from .. import Head, Input, Run
from .dual_lines import HANDLERS
from .dual_log import FORMAT, Log
from .dual_metrics import read_metrics

__all__ = ["FORMAT", "read", "sniff"]

_CONSOLE = re.compile(
    r"\[Fairness诊断[@\]]|\[Step \d+\] Logits Distribution Debug|\[Step \d+ Logits\]|零梯度组监控 \(Step \d"
    r"|\[(?:诊断\d?[:：][^\]]{1,40}|Judge|Reward Scale)@step\d|\[(?:BranchedKL|QuickEval)@\d|\[模板/边界核查\] Step \d"
    r"|Loss组件诊断 @step\d|\[EOS Supp|BBQ Adapter: \d+ 类别"
)
_ONE_BASED = re.compile(r"@(?:step)?\d|\[步骤\d|⚠️ \[Step \d+\]")
_TABLE = ("kl_f", "kl_h", "beta_f", "grad_cosine_sim")


def sniff(head: Head) -> int:
    return 3 if _of_metrics(head) or _CONSOLE.search(head.text) else 0


def _of_metrics(head: Head) -> bool:
    """Return whether the first line of a file has the names of the step metrics."""
    return bool(head.lines) and all(name in head.lines[0] for name in _TABLE)


def read(file: Input) -> list[Run]:
    if _of_metrics(file.head()):
        run = read_metrics(file)
    else:
        log = Log(file, int(any(_ONE_BASED.search(text) for _, text in file.lines())), HANDLERS)
        for number, text in file.lines():
            log.take(number, text)
        run = log.finish()
    run.notes += file.notes
    return [run]
