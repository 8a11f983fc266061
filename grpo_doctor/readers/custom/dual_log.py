"""Collects the values of the fairness/hallucination trainer's log, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .. import Input, Run, RunBuilder, Sample

FORMAT = "dual-console"
FAIRNESS, HALLUCINATION = "fairness", "hallucination"
Handling: TypeAlias = "tuple[str, re.Pattern[str], Callable[[Log, re.Match[str]], None]]"
"""The text that a line must contain before the pattern is tried, the pattern, and the function that receives the
match."""
_ABSURD = re.compile(r"\d{19}")
_OPEN_ARRAY = re.compile(r"(?:Top-5 probs|Before scale|After scale):\s*\[[^\]]*$")
_LONGEST_ARRAY = 1 << 13
_OF_FAIRNESS = frozenset({"reward_mean", "reward_std", "response_length_mean", "truncated_rate"})
"""Fields whose values for the fairness samples are used for the whole run if the trainer prints no other values."""


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@dataclass
class Step:
    """The values of one step in the log, counted from 1."""

    number: int | None
    line: int
    fields: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=lambda: {FAIRNESS: {}, HALLUCINATION: {}})
    lists: dict[str, list[float]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    warnings: list[tuple[str, int]] = field(default_factory=list)
    ended: bool = False

    def close(self) -> None:
        """Average the collected values. A complete step without a line about zero-variance groups has no zero-variance
        groups."""
        for name, values in self.lists.items():
            task, _, field_name = name.rpartition(".")
            (self.tasks[task] if task else self.fields).setdefault(field_name, mean(values))
        if self.ended:  # the trainer prints this line only if there are zero-variance groups
            self.fields.setdefault("zero_variance_groups", 0.0)

    def known(self) -> bool:
        """Return whether a step has any measured value. An incomplete step has only the composition of its batch."""
        measured = any(values.keys() - {"groups"} for values in self.tasks.values())
        return bool(measured or self.fields.keys() - {"by_task"} or self.samples or self.warnings)


class Log:
    """The current step of a log, and the earlier steps."""

    def __init__(self, file: Input, shift: int, handlers: list[Handling]) -> None:
        self.builder, self.handlers = RunBuilder(file.source, FORMAT), handlers
        self.run = self.builder.run
        self.shift = shift
        self.line = 0
        self.step = Step(None, 0)
        self.steps = [self.step]
        self.counted = False  # the log does not number its steps
        self.passed = False  # within a skipped block
        self.open = ""  # an array that continues on the next line
        self.task = ""
        self.text: list[str] | None = None
        self.groups: float | None = None
        self.blocked: list[float] = []
        self.monitor = False

    @property
    def fields(self) -> dict[str, Any]:
        return self.step.fields

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        return self.step.tasks

    def take(self, number: int, text: str) -> None:
        """Process one line of the console."""
        self.line = number
        if self.open:
            text, self.open = (text if "[" in text else self.open + " " + text.strip()), ""
        if _OPEN_ARRAY.search(text) and len(text) < _LONGEST_ARRAY:
            self.open = text
            return
        if self.text is not None:
            self._response(text)
        if _ABSURD.search(text):  # too large for any count in a log
            return
        for mark, pattern, handler in self.handlers:
            if mark in text and (found := pattern.search(text)):
                handler(self, found)
                return

    def at(self, step: int) -> None:
        """Assign the following lines to a step, counted from 1. Ignore a number that is too large for a record."""
        if step > 2**62:
            return
        if self.step.number is None:  # earlier lines belong to the first step
            self.step.number, self.step.line = step, self.line
        elif step != self.step.number:
            self.step = Step(step, self.line)
            self.steps.append(self.step)

    def zero_based(self, step: str) -> None:
        """Assign the following lines to a step that is counted from 0, in a log that also counts from 1."""
        self.at(int(step) + self.shift)

    def put(self, name: str, value: float) -> None:
        """Set a value of the current step. In a log without step numbers, a repeated value begins the next step."""
        if self.step.number is None:
            self.at(1)
            self.counted = True
        elif self.counted and name in self.fields:
            self.at(self.step.number + 1)
        self.fields[name] = value

    def gather(self, name: str, value: float) -> None:
        """Add one of several values of the current step. The values are averaged."""
        self.step.lists.setdefault(name, []).append(value)

    @property
    def number(self) -> int:
        return 1 if self.step.number is None else self.step.number

    def both(self, name: str, fairness: float, hallucination: float) -> None:
        self.tasks[FAIRNESS][name] = fairness
        self.tasks[HALLUCINATION][name] = hallucination

    def warn(self, message: str) -> None:
        """Record a warning that the trainer printed."""
        self.step.warnings.append((message, self.line))

    def _response(self, text: str) -> None:
        assert self.text is not None
        if text.startswith("    "):
            self.text.append(text[4:])
            return
        if self.text:
            response = "\n".join(self.text)
            self.step.samples.append(Sample(step=self.number, response=response, task=self.task or None))
        self.text = None

    def finish(self) -> Run:
        for step in self.steps:
            step.close()
            self._complete(step.fields, step.tasks)
            if not step.known():
                continue
            for message, line in step.warnings:
                self.builder.event("log-warning", message, line)
            self.builder.add({"step": 1 if step.number is None else step.number, **step.fields}, step.line)
            for sample in step.samples:
                self.builder.sample(sample)
        self._note()
        return self.builder.finish()

    def _complete(self, fields: dict[str, Any], tasks: dict[str, dict[str, Any]]) -> None:
        """Derive the number of groups and the values for both tasks together."""
        if self.groups is None:
            fields.pop("zero_variance_groups", None)
        elif "zero_variance_groups" in fields:
            fields.setdefault("groups", self.groups)
            _share_groups(tasks, self.groups, fields["zero_variance_groups"])
        for name in ("truncated_rate", "response_length_mean", "kl", "kl_coef", "policy_loss", "kl_loss", "eval_score"):
            if (value := together(tasks, name)) is not None:
                fields.setdefault(name, value)
        if "reward_mean" in tasks[FAIRNESS] and "reward_mean" not in tasks[HALLUCINATION]:
            for name in _OF_FAIRNESS & tasks[FAIRNESS].keys():
                fields.setdefault(name, tasks[FAIRNESS][name])
        if set(self.blocked) == {1.0}:
            fields.pop("eos_suppressed_rate", None)
        known = {task: values for task, values in tasks.items() if values}
        if known:
            fields["by_task"] = known

    def _note(self) -> None:
        notes = self.run.notes
        if any("entropy_mean" in step.fields for step in self.steps):
            notes.append(
                "the trainer prints entropy, and with it mean and spread of the reward, only for the fairness "
                "samples: they are used for the whole run"
            )
        if any("logit_gap" in step.fields for step in self.steps):
            notes.append(
                "logits are those of the first generated token of the first sample; "
                "the gap is before, the probabilities are after division by the temperature"
            )
        if self.blocked and set(self.blocked) == {1.0}:
            notes.append(
                "the EOS suppressor reports every sample as blocked at every count; in this trainer it counts the "
                "samples that it has blocked itself, which are always all of them, so no trigger rate was read"
            )
        if self.monitor:
            notes.append(
                "the trainer's monitor of zero-gradient groups takes each response for a group; its counts, success "
                "rates and 'normal' were not used; the line about groups with reward std < 0.01 replaces them"
            )


def _share_groups(tasks: dict[str, dict[str, Any]], groups: float, dead: float) -> None:
    """Derive the number of groups and of zero-variance groups of each task. The trainer logs the number of fairness
    groups, and the task of every zero-variance group."""
    fairness, other = tasks[FAIRNESS], tasks[HALLUCINATION]
    if "groups" in fairness:
        other["groups"] = groups - fairness["groups"]
        named = sum(task.get("zero_variance_groups", 0.0) for task in tasks.values())
        if named == dead:
            for task in tasks.values():
                task.setdefault("zero_variance_groups", 0.0)


def together(tasks: dict[str, dict[str, Any]], name: str) -> float | None:
    """Return the mean over both tasks, weighted by their number of groups if known; None unless both values are
    known."""
    pair = [tasks[task] for task in (FAIRNESS, HALLUCINATION)]
    if any(name not in task for task in pair):
        return None
    weights = [max(task.get("groups", 1.0), 0.0) for task in pair]
    if not sum(weights):
        return None
    return float(sum(task[name] * w for task, w in zip(pair, weights, strict=True)) / sum(weights))
