"""The fairness/hallucination trainer behind BoBaCai/grpo-dual: its console, and its step metrics as CSV or JSONL.

The console has had three generations (31 October to 1 December 2025) and a paraphrase in BoBaCai/grpo-dual, the
one-line form; all are read alike. Steps are 1-based except in the logits block, the boundary block, the monitor of
zero-gradient groups and the one-line form, which count from 0.

What is not read, because it says nothing: the count of blocked EOS tokens (the processor counts what it has set to
minus infinity itself, so it is always all of them), and the monitor of zero-gradient groups (it slices the responses
as if each were a group, so its counts and success rates belong to nobody).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...run import Run, RunBuilder, Sample
from ..formats.table import split
from ..input import Head, Input

FORMAT = "dual-console"

FAIRNESS, HALLUCINATION = "fairness", "hallucination"

_CONSOLE = re.compile(
    r"\[Fairness诊断[@\]]|\[Step \d+\] Logits Distribution Debug|\[Step \d+ Logits\]|零梯度组监控 \(Step \d"
    r"|\[(?:诊断\d?[:：][^\]]{1,40}|Judge|Reward Scale)@step\d|\[(?:BranchedKL|QuickEval)@\d|\[模板/边界核查\] Step \d"
    r"|Loss组件诊断 @step\d|\[EOS Supp|BBQ Adapter: \d+ 类别"
)
_ONE_BASED = re.compile(r"@(?:step)?\d|\[步骤\d|⚠️ \[Step \d+\]")
_TABLE = ("kl_f", "kl_h", "beta_f", "grad_cosine_sim")


def sniff(head: Head) -> int:
    first = head.lines[0] if head.lines else ""
    if all(name in first for name in _TABLE):
        return 3
    return 3 if _CONSOLE.search(head.text) else 0


def read(file: Input) -> list[Run]:
    head = file.head()
    first = head.lines[0].lstrip() if head.lines else ""
    if all(name in first for name in _TABLE):
        run = _read_metrics(file, _objects(file) if first.startswith("{") else _cells(file))
    else:
        log = _Log(file, shift=int(any(_ONE_BASED.search(text) for _, text in file.lines())))
        for number, text in file.lines():
            log.take(number, text)
        run = log.finish()
    run.notes += file.notes
    return [run]


# -- the console -----------------------------------------------------------------------------------------------

_Handler = Callable[..., None]
_HANDLERS: list[tuple[str, re.Pattern[str], _Handler]] = []
"""What a line must hold for its pattern to be tried, the pattern, and what takes its groups."""

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?:-\d+\.?\d*)?)"
_PAIR = re.compile(rf"(截断率|生成长度|KL散度|β值): F={_NUMBER}(%?)\s+H={_NUMBER}")
_POSTFIX = re.compile(rf"(loss|kl|β_f|β_h)={_NUMBER}")
_ABSURD = re.compile(r"\d{19}")
_OPEN_ARRAY = re.compile(r"(?:Top-5 probs|Before scale|After scale):\s*\[[^\]]*$")
_LONGEST_ARRAY = 1 << 13

_PAIRED = {
    "截断率": "truncated_rate",
    "生成长度": "response_length_mean",
    "KL散度": "kl",
    "β值": "kl_coef",
}

_OF_FAIRNESS = frozenset({"reward_mean", "reward_std", "response_length_mean", "truncated_rate"})
"""Fields that stand for the run, like entropy, where the trainer prints them for the fairness samples alone."""


def _number(text: str) -> float:
    """A printed number; the middle of a range such as ``7-10``, which only the paraphrase prints."""
    found = re.fullmatch(r"(\d+\.?\d*)-(\d+\.?\d*)", text)
    return (float(found[1]) + float(found[2])) / 2 if found else float(text)


def _numbers(text: str) -> list[float]:
    return [_number(value) for value in re.findall(_NUMBER, text)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _on(mark: str, pattern: str) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        _HANDLERS.append((mark, re.compile(pattern), handler))
        return handler

    return register


@dataclass
class _Step:
    """What the log says of one step, counted from 1."""

    number: int | None
    line: int
    fields: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=lambda: {FAIRNESS: {}, HALLUCINATION: {}})
    lists: dict[str, list[float]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    warnings: list[tuple[str, int]] = field(default_factory=list)
    ended: bool = False

    def close(self) -> None:
        """Averages what was gathered; a step that was read to its end without dead groups has none."""
        for name, values in self.lists.items():
            task, _, field_name = name.rpartition(".")
            (self.tasks[task] if task else self.fields).setdefault(field_name, _mean(values))
        if self.ended:  # the line about dead groups is printed only where there are some
            self.fields.setdefault("zero_variance_groups", 0.0)

    def known(self) -> bool:
        """Whether anything was measured: a step whose batch alone is named was cut off."""
        measured = any(values.keys() - {"groups"} for values in self.tasks.values())
        return bool(measured or self.fields.keys() - {"by_task"} or self.samples or self.warnings)


class _Log:
    """The step that is being read, and those before it."""

    def __init__(self, file: Input, shift: int) -> None:
        self.builder = RunBuilder(file.source, FORMAT)
        self.run = self.builder.run
        self.shift = shift
        self.line = 0
        self.step = _Step(None, 0)
        self.steps = [self.step]
        self.counted = False  # the log names no steps
        self.passed = False  # within a block that is passed over
        self.open = ""  # an array that goes on in the next line
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
        """One line of the console."""
        self.line = number
        if self.open:
            text, self.open = (text if "[" in text else self.open + " " + text.strip()), ""
        if _OPEN_ARRAY.search(text) and len(text) < _LONGEST_ARRAY:
            self.open = text
            return
        if self.text is not None:
            self._response(text)
        if _ABSURD.search(text):  # no count of a log is so large, and no step may be
            return
        for mark, pattern, handler in _HANDLERS:
            if mark in text and (found := pattern.search(text)):
                handler(self, *found.groups())
                return

    def at(self, step: int) -> None:
        """The lines that follow belong to this step, counted from 1; a number that no record could bear is none."""
        if step > 2**62:
            return
        if self.step.number is None:  # what stood before the first step belongs to it
            self.step.number, self.step.line = step, self.line
        elif step != self.step.number:
            self.step = _Step(step, self.line)
            self.steps.append(self.step)

    def zero_based(self, step: str) -> None:
        """The same for a step that is counted from 0, in a log that also counts from 1."""
        self.at(int(step) + self.shift)

    def put(self, name: str, value: float) -> None:
        """A value of the current step; where the log names no step, a value that comes again begins the next."""
        if self.step.number is None:
            self.at(1)
            self.counted = True
        elif self.counted and name in self.fields:
            self.at(self.step.number + 1)
        self.fields[name] = value

    def gather(self, name: str, value: float) -> None:
        """One of several values of the step, of which it has the mean."""
        self.step.lists.setdefault(name, []).append(value)

    @property
    def number(self) -> int:
        return 1 if self.step.number is None else self.step.number

    def both(self, name: str, fairness: float, hallucination: float) -> None:
        self.tasks[FAIRNESS][name] = fairness
        self.tasks[HALLUCINATION][name] = hallucination

    def warn(self, message: str) -> None:
        """The trainer's own alarm."""
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
        """What follows from the rest of the log: the number of groups, and figures of both tasks together."""
        if self.groups is None:
            fields.pop("zero_variance_groups", None)
        elif "zero_variance_groups" in fields:
            fields.setdefault("groups", self.groups)
            _share_groups(tasks, self.groups, fields["zero_variance_groups"])
        for name in ("truncated_rate", "response_length_mean", "kl", "kl_coef", "policy_loss", "kl_loss", "eval_score"):
            if (value := _together(tasks, name)) is not None:
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
                "the trainer prints entropy, and with it mean and spread of the reward, for the fairness samples "
                "alone: they stand for the run"
            )
        if any("logit_gap" in step.fields for step in self.steps):
            notes.append(
                "logits are those of the first generated token of the first sample; "
                "the gap is before, the probabilities are after division by the temperature"
            )
        if self.blocked and set(self.blocked) == {1.0}:
            notes.append(
                "the EOS suppressor reports every sample as blocked at every count; in this trainer it counts what it "
                "has blocked itself, which is always all, so no trigger rate was read from it"
            )
        if self.monitor:
            notes.append(
                "the trainer's monitor of zero-gradient groups takes each response for a group; its counts, success "
                "rates and 'normal' were passed over for those of the line about groups with reward std < 0.01"
            )


def _share_groups(tasks: dict[str, dict[str, Any]], groups: float, dead: float) -> None:
    """Groups and dead groups of each task; the trainer names the groups of fairness and every dead group's task."""
    fairness, other = tasks[FAIRNESS], tasks[HALLUCINATION]
    if "groups" in fairness:
        other["groups"] = groups - fairness["groups"]
        named = sum(task.get("zero_variance_groups", 0.0) for task in tasks.values())
        if named == dead:
            for task in tasks.values():
                task.setdefault("zero_variance_groups", 0.0)


def _together(tasks: dict[str, dict[str, Any]], name: str) -> float | None:
    """Mean over the tasks, by their number of groups where it is known; None unless both are."""
    pair = [tasks[task] for task in (FAIRNESS, HALLUCINATION)]
    if any(name not in task for task in pair):
        return None
    weights = [max(task.get("groups", 1.0), 0.0) for task in pair]
    if not sum(weights):
        return None
    return float(sum(task[name] * w for task, w in zip(pair, weights, strict=True)) / sum(weights))


# sharpness


@_on("Logits Distribution Debug", r"\[Step (\d+)\] Logits Distribution Debug(?: \((.*?)\))?")
def _logits(log: _Log, step: str, label: str | None) -> None:
    log.zero_based(step)
    log.passed = bool(label and label.startswith("post"))  # after clipping the logits are centred: another thing


@_on("Temperature:", r"^\s+Temperature: " + _NUMBER)
def _temperature(log: _Log, value: str) -> None:
    log.fields["temperature"] = _number(value)


@_on("Max logit:", r"Max logit: " + _NUMBER)
def _logit_max(log: _Log, value: str) -> None:
    if not log.passed:
        log.gather("logit_max", _number(value))


@_on("Gap (1st-2nd):", r"Gap \(1st-2nd\): " + _NUMBER)
def _logit_gap(log: _Log, value: str) -> None:
    if not log.passed:
        log.gather("logit_gap", _number(value))


@_on("Top-5 probs:", r"Top-5 probs:\s*\[([^\]]*)\]")
def _top5(log: _Log, values: str) -> None:
    if not log.passed:
        log.fields["topk_probs"] = _numbers(values)


@_on("Max prob:", r"Max prob: " + _NUMBER)
def _top1(log: _Log, value: str) -> None:
    if not log.passed:
        log.gather("top1_prob", _number(value))


@_on(" Logits]", r"\[Step (\d+) Logits\](.*)")
def _one_line(log: _Log, step: str, rest: str) -> None:
    log.zero_based(step)
    for name, pattern in (("logit_max", r"Max logit=" + _NUMBER), ("logit_gap", r"Gap=" + _NUMBER)):
        if found := re.search(pattern, rest):
            log.fields[name] = _number(found[1])
    if (top := re.search(r"Top5=\[([^\]]*)", rest)) and (values := _numbers(top[1])):
        log.fields["topk_probs"], log.fields["top1_prob"] = values, values[0]


# entropy


@_on("Fairness整体熵统计", rf"Fairness整体熵统计: mean={_NUMBER}, min={_NUMBER}, max={_NUMBER}")
def _entropy_a(log: _Log, mean: str, low: str, high: str) -> None:
    log.put("entropy_mean", _number(mean))
    log.fields["entropy_min"], log.fields["entropy_max"] = _number(low), _number(high)
    log.tasks[FAIRNESS]["entropy_mean"] = _number(mean)


@_on("[Fairness诊断", rf"\[Fairness诊断(?:@step(\d+))?\].*?Entropy(?:\(mean\))?[:=]\s*(?:mean=)?{_NUMBER}(.*)")
def _entropy_b(log: _Log, step: str | None, mean: str, rest: str) -> None:
    if step:
        log.at(int(step))
    log.put("entropy_mean", _number(mean))
    log.tasks[FAIRNESS]["entropy_mean"] = _number(mean)
    if found := re.search(rf"min={_NUMBER}, max={_NUMBER}", rest):
        log.fields["entropy_min"], log.fields["entropy_max"] = _number(found[1]), _number(found[2])


@_on("[Fairness诊断@step", r"\[Fairness诊断@step(\d+)\] 发现 (\d+) 个Fairness样本")
def _fairness_a(log: _Log, step: str, _: str) -> None:
    log.at(int(step))
    log.task = FAIRNESS


@_on("Fairness样本", rf"Fairness样本 \d+: entropy={_NUMBER}")
def _entropy_of_sample(log: _Log, value: str) -> None:
    log.gather("entropy_mean", _number(value))


@_on("Entropy", rf"^\s*Entropy(?:\(mean\))?[:=]\s*{_NUMBER}")
def _entropy_line(log: _Log, value: str) -> None:
    if log.task == FAIRNESS:  # one sample of generation A
        log.gather("entropy_mean", _number(value))
        log.gather(f"{FAIRNESS}.entropy_mean", _number(value))
    else:
        log.put("entropy_mean", _number(value))


@_on("Length:", r"\bLength: (\d+) tokens(?:.*?Truncated: (True|False))?")
def _length_a(log: _Log, value: str, truncated: str | None) -> None:
    log.gather(f"{FAIRNESS}.response_length_mean", _number(value))
    if truncated:
        _truncated_a(log, truncated)


@_on("Truncated:", r"Truncated: (True|False)")
def _truncated_a(log: _Log, value: str) -> None:
    log.gather(f"{FAIRNESS}.truncated_rate", float(value == "True"))


@_on("Generated:", r"^\s+Generated: (.+)")
def _generated_a(log: _Log, text: str) -> None:
    log.step.samples.append(Sample(step=log.number, response=text, task=FAIRNESS))


@_on("Reward (原始)", rf"Reward \(原始\): {_NUMBER}")
def _reward_a(log: _Log, value: str) -> None:
    log.gather(f"{FAIRNESS}.reward_mean", _number(value))


# the end of a response


@_on("初始化: min_new_tokens=", r"min_new_tokens=(\d+)")
def _eos_init(log: _Log, value: str) -> None:
    log.run.settings["min_new_tokens"] = _number(value)


@_on("已阻止", r"已阻止 (\d+)/(\d+)")
def _eos_blocked(log: _Log, blocked: str, batch: str) -> None:
    log.blocked.append(_number(blocked) / max(_number(batch), 1.0))


@_on("EOS", r"(?i)EOS suppressor\D*(?:[\d.]+%\D*)?(\d+)/(\d+)")
def _eos_one_line(log: _Log, blocked: str, batch: str) -> None:
    log.blocked.append(_number(blocked) / max(_number(batch), 1.0))
    log.put("eos_suppressed_rate", log.blocked[-1])


@_on("生成长度: Fairness avg", rf"生成长度: Fairness avg={_NUMBER}, Hallucination avg={_NUMBER}")
def _lengths(log: _Log, fairness: str, hallucination: str) -> None:
    log.both("response_length_mean", _number(fairness), _number(hallucination))


@_on("截断率过高", r"\[步骤(\d+)\] 截断率过高\(F:(\d+\.?\d*)%, H:(\d+\.?\d*)%\)")
def _truncation(log: _Log, step: str, fairness: str, hallucination: str) -> None:
    log.at(int(step))
    log.both("truncated_rate", _number(fairness) / 100, _number(hallucination) / 100)
    log.warn(f"truncation too high: fairness {fairness} %, hallucination {hallucination} %")


@_on("当前max_new_tokens=", r"当前max_new_tokens=(\d+)")
def _limit(log: _Log, value: str) -> None:
    log.fields["max_new_tokens"] = _number(value)


@_on("降低temperature=", rf"降低temperature={_NUMBER}.*?rep_penalty={_NUMBER}")
def _sampling(log: _Log, temperature: str, penalty: str) -> None:
    log.run.settings.setdefault("temperature", _number(temperature))
    log.run.settings.setdefault("repetition_penalty", _number(penalty))


@_on("presence_penalty=", rf"增大presence_penalty={_NUMBER}")
def _presence(log: _Log, value: str) -> None:
    log.run.settings.setdefault("presence_penalty", _number(value))


@_on("gen_len超过硬约束", r"\[步骤(\d+)\] 检测到gen_len超过硬约束: max=(\d+) > (\d+)")
def _mask_too_long(log: _Log, step: str, longest: str, limit: str) -> None:
    log.at(int(step))
    log.warn(f"completion mask of {longest} tokens is longer than the limit of {limit}: it covers prompt or padding")


# the boundary between prompt and response


@_on("[模板/边界核查]", r"\[模板/边界核查\] Step (\d+)")
def _boundary(log: _Log, step: str) -> None:
    log.zero_based(step)


@_on("<|eot_id|> tokens", r"^\s*Response: (\d+)个<\|eot_id\|> tokens")
def _response_eot(log: _Log, count: str) -> None:
    log.gather("eot_per_response", _number(count))
    log.gather("chat_header_rate", 0.0)


@_on("chat header", r"异常: Response开头似乎包含chat header")
def _chat_header(log: _Log) -> None:
    headers = log.step.lists.setdefault("chat_header_rate", [0.0])
    headers[-1] = 1.0
    log.warn("a response seems to begin with a chat header")


@_on("pad_token_id == eot_token_id", r"警告: pad_token_id == eot_token_id")
def _pad_is_eot(log: _Log) -> None:
    log.run.settings["pad_equals_eot"] = True
    log.warn("pad_token_id equals eot_token_id")


@_on("异常:", r"异常: (Prompt|Response|Full)包含(\d+)个<\|eot_id\|>")
def _eot_alarm(log: _Log, where: str, count: str) -> None:
    log.warn(f"{where.lower()} holds {count} <|eot_id|> tokens")


# rewards and groups


@_on("Batch Composition@step", r"Batch Composition@step(\d+)\] (\d+) Fairness样本")
def _composition(log: _Log, step: str, fairness: str) -> None:
    log.at(int(step))
    log.tasks[FAIRNESS]["groups"] = _number(fairness)


@_on("[Judge@step", r"\[Judge@step(\d+)\] time=[\d.]+s providers=\{([^}]*)\}")
def _judge(log: _Log, step: str, providers: str) -> None:
    log.at(int(step))
    counts = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", providers)}
    if total := sum(counts.values()):
        log.fields["judge_failure_rate"] = counts.get("heuristic", 0) / total


@_on("[诊断: 0分候选详情@step", r"@step(\d+)\] 发现")
def _zero_scores(log: _Log, step: str) -> None:
    log.at(int(step))
    log.run.unread["0分候选 (candidates scored 0)"] = log.run.unread.get("0分候选 (candidates scored 0)", 0) + 1


@_on("Reward Scale@step", r"\[诊断2: Reward Scale@step(\d+)\] FAIRNESS_REWARD_SCALE=(\d+\.?\d*)")
def _scale(log: _Log, step: str, scale: str) -> None:
    log.at(int(step))
    log.run.settings["fairness_reward_scale"] = _number(scale)


@_on("Before scale:", r"Before scale:\s*\[([^\]]*)\]")
def _before_scale(log: _Log, values: str) -> None:
    if rewards := _numbers(values):
        log.tasks[FAIRNESS]["success_rate"] = _mean([float(r > 0.5) for r in rewards])  # the trainer's own rule


@_on("After scale:", r"After scale:\s*\[([^\]]*)\]")
def _after_scale(log: _Log, values: str) -> None:
    rewards, groups = _numbers(values), int(log.tasks[FAIRNESS].get("groups", 0))
    if not rewards:
        return
    task = log.tasks[FAIRNESS]
    task["reward_mean"], task["reward_min"], task["reward_max"] = _mean(rewards), min(rewards), max(rewards)
    if groups and len(rewards) % groups == 0:
        size = len(rewards) // groups
        task["group_rewards"] = [rewards[i : i + size] for i in range(0, len(rewards), size)]


@_on("Reward Normalization@step", r"Reward Normalization@step(\d+)")
def _normalization(log: _Log, step: str) -> None:
    log.at(int(step))


@_on("EMA stats:", rf"EMA stats: mean={_NUMBER}, std={_NUMBER}")
def _ema(log: _Log, mean: str, std: str) -> None:
    log.tasks[FAIRNESS]["reward_ema_mean"] = _number(mean)
    log.tasks[FAIRNESS]["reward_ema_std"] = _number(std)


@_on("Advantage计算@step", r"Advantage计算@step(\d+)")
def _advantage(log: _Log, step: str) -> None:
    log.at(int(step))


@_on("adv=0", r"组\d+ \((\w+)\): std=[\d.]+ < 0\.01 → adv=0")
def _dead_group(log: _Log, task: str) -> None:
    values = log.tasks.setdefault(task, {})
    values["zero_variance_groups"] = values.get("zero_variance_groups", 0.0) + 1


@_on("零梯度组监控", r"零梯度组监控 \(Step (\d+)\)")
def _monitor(log: _Log, step: str) -> None:
    log.zero_based(step)
    log.monitor = True


@_on("的reward std<0.01", r"\[Step (\d+)\] (\d+)/(\d+) 组")
def _dead_groups(log: _Log, step: str, dead: str, groups: str) -> None:
    log.at(int(step))
    log.groups = _number(groups)
    log.fields["zero_variance_groups"], log.fields["groups"] = _number(dead), _number(groups)


@_on("[零梯度组诊断@step", r"@step(\d+)\] 组\d+的(\d+)个candidates")
def _candidates(log: _Log, step: str, size: str) -> None:
    log.at(int(step))
    log.run.settings["group_size"] = _number(size)


@_on("[Reward Scale@step", rf"\[Reward Scale@step(\d+)\] F: std={_NUMBER}, H: std={_NUMBER}(.*)")
def _reward_scale(log: _Log, step: str, fairness: str, hallucination: str, rest: str) -> None:
    log.at(int(step))
    log.step.ended = True
    log.both("reward_std", _number(fairness), _number(hallucination))
    if found := re.search(rf"Signal: F={_NUMBER}, H={_NUMBER}", rest):
        log.both("signal", _number(found[1]), _number(found[2]))


@_on("严重失衡", r"严重失衡: F/H=(\d+\.?\d*)")
def _imbalance(log: _Log, ratio: str) -> None:
    log.warn(f"signal of fairness to hallucination is {ratio}")


@_on("[GradientConflict@", r"\[GradientConflict@(\d+)\]")
def _conflict(log: _Log, step: str) -> None:
    log.at(int(step))
    log.warn("the gradients of the two tasks point against each other")


# loss and KL


@_on("Loss组件诊断", r"Loss组件诊断 @step(\d+)")
def _loss(log: _Log, step: str) -> None:
    log.at(int(step))


@_on(" Loss组件:", r"^(Fairness|Hallucination) Loss组件:")
def _loss_of(log: _Log, task: str) -> None:
    log.task = task.lower()


@_on("Reward项", rf"Reward项\(负surrogate\): {_NUMBER}")
def _policy_loss(log: _Log, value: str) -> None:
    log.tasks[log.task or FAIRNESS]["policy_loss"] = _number(value)


@_on("KL项(", rf"KL项\(β={_NUMBER}\): {_NUMBER}\s+\(raw_kl={_NUMBER}\)")
def _kl_loss(log: _Log, beta: str, term: str, kl: str) -> None:
    log.tasks[log.task or FAIRNESS] |= {"kl_coef": _number(beta), "kl_loss": _number(term), "kl": _number(kl)}


@_on("Entropy项(coef=", rf"Entropy项\(coef={_NUMBER}\): {_NUMBER}\s+\(raw_entropy={_NUMBER}\)")
def _entropy_loss(log: _Log, coef: str, term: str, entropy: str) -> None:
    task = log.task or FAIRNESS
    log.tasks[task] |= {"entropy_coef": _number(coef), "entropy_loss": _number(term)}
    log.tasks[task].setdefault("entropy_mean", _number(entropy))
    log.fields["entropy_coef"] = _number(coef)
    if task == FAIRNESS:  # the entropy of the run is that of fairness too
        log.fields["entropy_loss"] = _number(term)


@_on("Overall Loss:", rf"Overall Loss: {_NUMBER}")
def _overall_loss(log: _Log, value: str) -> None:
    log.fields["loss"] = _number(value)


@_on("[BranchedKL@", r"\[BranchedKL@(\d+)\] (.*)")
def _branched_kl(log: _Log, step: str, rest: str) -> None:
    log.at(int(step))
    for task, symbol in ((FAIRNESS, "f"), (HALLUCINATION, "h")):
        if found := re.search(rf"β_{symbol}[^:]*: [\d.]+→(\d+\.?\d*)", rest):
            log.tasks[task]["kl_coef"] = _number(found[1])
        if found := re.search(rf"{task.capitalize()}(?:拉格朗日: KL=| KL过[高低]\()(\d+\.?\d*)", rest):
            log.tasks[task].setdefault("kl", _number(found[1]))


@_on("QuickEval@", r"\[QuickEval@(\d+)\].*?fairness=(\d+\.?\d*)\s+hallucination=(\d+\.?\d*)")
def _quick_eval(log: _Log, step: str, fairness: str, hallucination: str) -> None:
    log.at(int(step))
    log.both("eval_score", _number(fairness), _number(hallucination))


@_on(": F=", r"^(\s*(?:截断率|KL散度): F=.*)")
def _eval_pairs(log: _Log, text: str) -> None:
    for name, fairness, percent, hallucination in _PAIR.findall(text):
        scale = 0.01 if percent else 1.0
        log.both(_PAIRED[name], _number(fairness) * scale, _number(hallucination) * scale)


@_on("GRPO训练:", r"GRPO训练:.*?(\d+)/\d+ (.*)")
def _progress(log: _Log, done: str, rest: str) -> None:
    values = {name: _number(value) for name, value in _POSTFIX.findall(rest)}
    if values and log.step.number is None:
        log.at(max(int(done), 1))
    for name in ("loss", "kl"):
        if name in values:
            log.fields[name] = values[name]
    for name, task in (("β_f", FAIRNESS), ("β_h", HALLUCINATION)):
        if name in values:
            log.tasks[task]["kl_coef"] = values[name]


# texts


@_on("样本 #", r"^样本 #\d+ \((Fairness|Hallucination)\)")
def _sample(log: _Log, task: str) -> None:
    log.task = task.lower()


@_on("Response 完整内容:", r"Response 完整内容:")
def _response(log: _Log) -> None:
    log.text = []


# -- step metrics as CSV and JSONL -----------------------------------------------------------------------------

_FLAT = {
    "loss": "loss",
    "kl_overall": "kl",
    "clip_frac": "clip_fraction",
    "lr": "learning_rate",
    "max_new_tokens_train": "max_new_tokens",
}
_BY_TASK = {
    "kl_{}": "kl",
    "beta_{}": "kl_coef",
    "reward_{}_mean": "reward_mean",
    "reward_{}_std": "reward_std",
    "gen_len_{}_mean": "response_length_mean",
    "trunc_frac_{}": "truncated_rate",
}
_PROVIDERS = ("provider_openai", "provider_claude", "provider_heuristic")


def _cells(file: Input) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = file.lines()
    header = split(next(lines)[1])
    for number, text in lines:
        if not text.strip():
            continue
        cells = split(text)
        if len(cells) != len(header):
            file.notes.append(f"line {number} has {len(cells)} cells where the header has {len(header)}; left out")
            continue
        yield number, dict(zip(header, cells, strict=True))


def _objects(file: Input) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in file.lines():
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            file.notes.append(f"line {number} is no JSON object and was left out")
            continue
        if isinstance(row, dict):
            yield number, row


def _values(row: dict[str, Any]) -> dict[str, float]:
    out = {}
    for name, value in row.items():
        try:
            out[name] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return out


def _read_metrics(file: Input, rows: Iterator[tuple[int, dict[str, Any]]]) -> Run:
    builder = RunBuilder(file.source, "dual-metrics")
    taken = {"step", *_FLAT, *_PROVIDERS, "nan_inf_hits"}
    taken |= {name.format(letter) for name in _BY_TASK for letter in "fh"}
    for number, row in rows:
        values = _values(row)
        if not 0 <= values.get("step", -1) < 1e15:
            file.notes.append(f"line {number} has no step and was left out")
            continue
        tasks: dict[str, dict[str, Any]] = {
            task: {
                field: values[name.format(letter)] for name, field in _BY_TASK.items() if name.format(letter) in values
            }
            for task, letter in ((FAIRNESS, "f"), (HALLUCINATION, "h"))
        }
        fields: dict[str, Any] = {field: values[name] for name, field in _FLAT.items() if name in values}
        for name in ("kl_coef", "response_length_mean", "truncated_rate"):
            if (value := _together(tasks, name)) is not None:
                fields[name] = value
        if judged := sum(values.get(name, 0.0) for name in _PROVIDERS):
            fields["judge_failure_rate"] = values.get("provider_heuristic", 0.0) / judged
        if hits := values.get("nan_inf_hits"):
            builder.event("log-warning", f"the trainer passed over {hits:.0f} losses that were NaN or infinite", number)
        builder.add({"step": values["step"], **fields, "by_task": tasks}, number)
        for name in values.keys() - taken:
            builder.run.unread[name] = builder.run.unread.get(name, 0) + 1
    builder.run.notes.append(
        "the rewards of the two tasks are those after the trainer's normalisation by moving averages"
    )
    return builder.finish()
