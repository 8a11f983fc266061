"""Reads the console of the AFlow-GRPO trainer of beita6969/colab-grpo (``src/grpo_trainer.py``).

The logs have several pitfalls. The block ``GRPO诊断 (Batch级别)`` and ``avg_reward`` contain statistics of the
advantages, not of the rewards. Answers are scored in the order in which they complete. The executor's answers
(``### Step 1: …``) are not the policy's output. The lines of stderr and stdout are mixed, and numbers are printed as
``np.float64(…)``. The policy's own text consists of the output of the generation phase, and of the first 60 characters
of valid workflows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import Event, Head, Input, NotRead, Run, RunBuilder, Sample, Table
from ..known_warnings import sign
from ..values import number as as_number
from ..values import whole

FORMAT = "aflow-console"

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_JUDGED = re.compile(r"\[S(\d{1,6})-(\d{1,6})/(\d{1,6})\] .{1,4}正确性: (-?[\d.]{1,12})")
_ADVANTAGE = re.compile(r"np\.float64\(([-+\d.einfa]{1,30})\)|([-+]?\d+\.\d+)")
_OPERATOR = re.compile(r"[A-Z][A-Za-z]{2,30}")


def sniff(head: Head) -> int:
    marks = ("📍 Step ", "DSL质量: fallback=", "P27 简单GRPO诊断", "WA-GRPO", "AFlow + ROLL")
    return 3 if sum(mark in head.text for mark in marks) >= 2 else 0


@dataclass
class _Step:
    """The values of one step so far."""

    number: int
    line: int
    fields: dict[str, Any] = field(default_factory=dict)
    valid: list[bool] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)
    echoed: str | None = None
    group_rewards: dict[int, list[float]] = field(default_factory=dict)
    live_values: set[float] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return "update_applied" in self.fields and bool(self.valid)


def read(file: Input) -> list[Run]:
    builder = RunBuilder(file.source, FORMAT)
    reader = _Reader(builder)
    for number, text in file.lines():
        reader.take(number, text)
    reader.finish()
    run = builder.finish()
    run.notes += file.notes
    run.tables += list(_tables(reader))
    return [run]


class _Reader:
    """Reads the lines one by one and passes every complete step to the builder."""

    def __init__(self, builder: RunBuilder) -> None:
        self.builder = builder
        self.settings = builder.run.settings
        self.step: _Step | None = None
        self.block = ""
        self.updates = 0
        self.patterns: Counter[str] = Counter()
        self.outputs = self.fallbacks = 0

    def take(self, number: int, text: str) -> None:
        if (message := sign(text)) is not None:
            self._event(number, message)
        if "📍 Step " in text:
            self._close()
            found = _NUMBER.findall(text)
            if found:
                self.step = _Step(whole(found[0]), number)
        elif self.step is None:
            self._declared(text)
        else:
            self._in_step(self.step, text)

    def _event(self, number: int, message: str) -> None:
        event = Event(kind="log-warning", message=message, line=number)
        if self.step is None:
            self.builder.event(event.kind, event.message, event.line)
            if "梯度检查点已启用" in message:
                self.settings["gradient_checkpointing"] = True
        else:
            self.step.events.append(event)

    def _declared(self, text: str) -> None:
        for mark, name, convert in (
            ("初始LR:", "learning_rate", float),
            ("Warmup步数:", "warmup_steps", whole),
            ("总训练步数:", "max_steps", whole),
        ):
            if mark in text and (found := _NUMBER.findall(text.split(mark, 1)[1])):
                self.settings[name] = convert(found[0])
        if "trainable params:" in text:
            self.settings["use_peft"] = True

    def _in_step(self, step: _Step, text: str) -> None:
        if "DSL" in text:
            self._response(step, text)
        elif "未检测到有效格式" in text:
            if step.echoed is not None:
                step.garbage.append(step.echoed)
            step.echoed = None
        elif "超级batch推理" in text:
            found = _NUMBER.findall(text)
            if len(found) >= 2:
                self.settings["group_size"] = whole(found[1])
                step.fields["group_size"] = float(found[1])
        elif "Temperature:" in text:
            _take(step.fields, "temperature", text)
        elif "更新策略" in text or "跳过更新" in text:
            step.fields["update_applied"] = "更新策略" in text
            if "跳过更新" in text:
                step.fields["update_skipped_reason"] = "all advantages are 0"
        elif "正确性: " in text and (judged := _JUDGED.search(text)):
            if (reward := as_number(judged[4])) is not None:
                step.group_rewards.setdefault(int(judged[1]), []).append(reward)
        else:
            self._statistics(step, text)

    def _response(self, step: _Step, text: str) -> None:
        if "检测到开放式DSL:" in text:
            step.echoed = text.split("检测到开放式DSL:", 1)[1].strip()
        elif "DSL成功转换为代码" in text:
            step.echoed = None
        elif "DSL质量: fallback=" in text:
            valid = "fallback=False" in text
            step.valid.append(valid)
            if valid and "DSL=" in text:
                step.patterns.append(text.split("DSL=", 1)[1].strip())

    def _statistics(self, step: _Step, text: str) -> None:
        """Read the numbers of a block. The same words mean rewards in one block and advantages in another block."""
        if "简单GRPO诊断" in text or "GRPO诊断 (Batch" in text or "Metrics:" in text:
            self.block = text
        elif "准确率统计:" in text and "/" in text:
            found = _NUMBER.findall(text)
            if len(found) >= 2 and float(found[1]):
                step.fields["success_rate"] = float(found[0]) / float(found[1])
        elif "简单GRPO诊断" in self.block:
            self._rewards(step, text)
        elif "GRPO诊断 (Batch" in self.block:
            self._advantages(step, text)
        elif "Metrics:" in self.block:
            name, colon, value = text.strip().partition(":")
            fields = {"loss": "loss", "kl_div": "kl"}
            if colon and name in fields:
                step.fields[fields[name]] = _float(value)

    @staticmethod
    def _rewards(step: _Step, text: str) -> None:
        found = _NUMBER.findall(text)
        if "零方差组:" in text and len(found) >= 2:
            step.fields["zero_variance_groups"], step.fields["groups"] = float(found[0]), float(found[1])
        elif "平均奖励:" in text:
            _take(step.fields, "reward_mean", text)
        elif "奖励范围:" in text and "[" in text:
            low, _, high = text.split("[", 1)[1].partition(",")
            step.fields["reward_min"], step.fields["reward_max"] = _float(low), _float(high)

    @staticmethod
    def _advantages(step: _Step, text: str) -> None:
        if "Batch奖励:" in text and "std=" in text:
            step.fields["advantage_std"] = _float(text.split("std=", 1)[1])
            step.fields["advantage_mean"] = _float(text.split("mean=", 1)[1])
        elif "奖励范围:" in text and "[" in text:
            low, _, high = text.split("[", 1)[1].partition(",")
            step.fields["advantage_min"], step.fields["advantage_max"] = _float(low), _float(high)
        elif text.lstrip().startswith("组") and "[" in text and "(mean=" in text:
            values = [float(a or b) for a, b in _ADVANTAGE.findall(text.split("[", 1)[1].split("(mean=")[0])]
            if values and max(values) - min(values) > 1e-8:
                step.live_values.update(round(abs(v), 6) for v in values)

    def finish(self) -> None:
        if self.step is not None and not self.step.complete:
            self.builder.run.notes.append(
                NotRead(f"the log ends in the middle of step {self.step.number}, which was skipped")
            )
        self._close()

    def _close(self) -> None:
        step, self.step, self.block = self.step, None, ""
        if step is None or not step.complete:
            return
        row: dict[str, Any] = {"step": step.number, **step.fields, "events": step.events}
        row["fallback_rate"] = 1 - sum(step.valid) / len(step.valid)
        if step.live_values:
            row["advantage_abs_values"] = sorted(step.live_values)[:8]
        sizes = {len(rewards) for rewards in step.group_rewards.values()}
        if sizes == {row.get("group_size")} and len(step.group_rewards) == row.get("groups"):
            row["group_rewards"] = [rewards for _, rewards in sorted(step.group_rewards.items())]
        if step.fields["update_applied"]:
            self._learning_rate(row)
        self.builder.add(row, step.line)
        for pattern in step.patterns:
            self.builder.sample(Sample(step=step.number, response=pattern, valid=True))
        for garbage in step.garbage:
            self.builder.sample(Sample(step=step.number, response=garbage, valid=False))
        self.patterns.update(step.patterns)
        self.outputs += len(step.valid)
        self.fallbacks += len(step.valid) - sum(step.valid)

    def _learning_rate(self, row: dict[str, Any]) -> None:
        """Compute the learning rate from the printed linear warm-up, which starts at 0 and changes with every optimizer
        step."""
        warmup, rate = self.settings.get("warmup_steps"), self.settings.get("learning_rate")
        if warmup and rate and self.updates < warmup:
            row["learning_rate"] = rate * self.updates / warmup
        self.updates += 1


def _float(text: str) -> float:
    found = _NUMBER.search(text)
    if found is not None:
        return float(found[0])
    return math.inf if "inf" in text else math.nan


def _take(fields: dict[str, Any], name: str, text: str) -> None:
    fields[name] = _float(text.rsplit(":", 1)[1])


def _tables(reader: _Reader) -> Iterator[Table]:
    """Rebuild the output tables of beita6969/colab-grpo from the log."""
    total, valid = reader.outputs, reader.outputs - reader.fallbacks
    if not total:
        return
    counts = {"valid": valid, "fallback": reader.fallbacks}
    yield _shares(f"Outputs: {total}, of which {len(reader.patterns)} distinct valid", "kind", counts, total)
    if not valid:
        return
    frequent = _shares("Most frequent valid outputs", "output", dict(reader.patterns.most_common(10)), valid)
    frequent.texts = True
    yield frequent
    operators: Counter[str] = Counter()
    structure: Counter[str] = Counter()
    for text, n in reader.patterns.items():
        for operator in _OPERATOR.findall(text):
            operators[operator] += n
        structure[_form(text)] += n
    operator_rows = [[operator, str(n)] for operator, n in operators.most_common()]
    yield Table(title="Operators", head=["operator", "count"], rows=operator_rows)
    yield _shares("Structure", "form", dict(structure.most_common()), valid)


def _form(text: str) -> str:
    return "conditional" if "?" in text else "loop" if text.endswith("*") else "chain" if "->" in text else "single"


def _shares(title: str, what: str, counts: dict[str, int], whole: int) -> Table:
    rows = [[name, str(n), f"{n / whole:.1%}"] for name, n in counts.items()]
    return Table(title=title, head=[what, "count", "share"], rows=rows)
