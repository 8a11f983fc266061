"""Maps each line of the fairness/hallucination trainer's console to fields and steps.

Most lines have a row in `HANDLERS` with a required text, a pattern and a handler. A handler may record a warning of the
trainer. The prefix of a regex group's name determines where the number of the group is stored (`PLACES`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from .. import Sample
from .dual_log import FAIRNESS, HALLUCINATION, Handling, Log, mean

_Handler: TypeAlias = Callable[[Log, re.Match[str]], None]

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?:-\d+\.?\d*)?"
_PAIR = re.compile(rf"(截断率|生成长度|KL散度|β值): F=({_NUMBER})(%?)\s+H=({_NUMBER})")
_POSTFIX = re.compile(rf"(loss|kl|β_f|β_h)=({_NUMBER})")
_PAIRED = {
    "截断率": "truncated_rate",
    "生成长度": "response_length_mean",
    "KL散度": "kl",
    "β值": "kl_coef",
}


def _number(text: str) -> float:
    """Return a printed number, or the middle of a range such as ``7-10``."""
    try:
        return float(text)
    except ValueError:
        low, _, high = text.rpartition("-")
        return (float(low) + float(high)) / 2


def _numbers(text: str) -> list[float]:
    return [_number(value) for value in re.findall(_NUMBER, text)]


def _gather_before_clipping(log: Log, name: str, value: float) -> None:
    if not log.passed:
        log.gather(name, value)


PLACES: dict[str, Callable[[Log, str, float], Any]] = {
    "at": lambda log, _, value: log.at(int(value)),
    "at0": lambda log, _, value: log.zero_based(str(int(value))),
    "field": lambda log, name, value: log.fields.update({name: value}),
    "put": Log.put,
    "mean": Log.gather,
    "logit": _gather_before_clipping,
    "meanf": lambda log, name, value: log.gather(f"{FAIRNESS}.{name}", value),
    "f": lambda log, name, value: log.tasks[FAIRNESS].update({name: value}),
    "h": lambda log, name, value: log.tasks[HALLUCINATION].update({name: value}),
    "task": lambda log, name, value: log.tasks[log.task or FAIRNESS].update({name: value}),
    "set": lambda log, name, value: log.run.settings.update({name: value}),
    "first": lambda log, name, value: log.run.settings.setdefault(name, value),
}
"""Functions that store the number of a regex group, by the prefix of the group's name. A number before a percent sign
is a share."""


def _taking(message: str = "", then: _Handler | None = None) -> _Handler:
    """Return a handler that stores the numbers of a line by the names of its regex groups, and that may record a
    warning."""

    def take(log: Log, line: re.Match[str]) -> None:
        for name, text in line.groupdict().items():
            place, _, rest = name.partition("_")
            if place in PLACES and text is not None:
                value = _number(text) / (100 if line.string[line.end(name) : line.end(name) + 1] == "%" else 1)
                PLACES[place](log, rest, value)
        if message:
            log.warn(message.format(**line.groupdict()))
        if then is not None:
            then(log, line)

    return take


def _n(name: str) -> str:
    return f"(?P<{name}>{_NUMBER})"


def _logits(log: Log, line: re.Match[str]) -> None:
    log.passed = bool(line["label"] and line["label"].startswith("post"))  # after clipping, the logits are centred


def _top5(log: Log, line: re.Match[str]) -> None:
    if not log.passed:
        log.fields["topk_probs"] = _numbers(line["values"])


def _one_line(log: Log, line: re.Match[str]) -> None:
    for name, pattern in (("logit_max", rf"Max logit=({_NUMBER})"), ("logit_gap", rf"Gap=({_NUMBER})")):
        if found := re.search(pattern, line["rest"]):
            log.fields[name] = _number(found[1])
    if (top := re.search(r"Top5=\[([^\]]*)", line["rest"])) and (values := _numbers(top[1])):
        log.fields["topk_probs"], log.fields["top1_prob"] = values, values[0]


def _entropy(log: Log, line: re.Match[str]) -> None:
    log.put("entropy_mean", _number(line["f_entropy_mean"]))
    if found := re.search(rf"min=({_NUMBER}), max=({_NUMBER})", line["rest"]):
        log.fields["entropy_min"], log.fields["entropy_max"] = _number(found[1]), _number(found[2])


def _of_fairness(log: Log, _: re.Match[str]) -> None:
    log.task = FAIRNESS


def _entropy_line(log: Log, line: re.Match[str]) -> None:
    value = _number(line["value"])
    if log.task == FAIRNESS:  # one sample of a step
        log.gather("entropy_mean", value)
        log.gather(f"{FAIRNESS}.entropy_mean", value)
    else:
        log.put("entropy_mean", value)


def _truncated(log: Log, line: re.Match[str]) -> None:
    if line["truncated"]:
        log.gather(f"{FAIRNESS}.truncated_rate", float(line["truncated"] == "True"))


def _generated(log: Log, line: re.Match[str]) -> None:
    log.step.samples.append(Sample(step=log.number, response=line["text"], task=FAIRNESS))


def _blocked(log: Log, line: re.Match[str]) -> None:
    log.blocked.append(_number(line["blocked"]) / max(_number(line["batch"]), 1.0))


def _blocked_line(log: Log, line: re.Match[str]) -> None:
    _blocked(log, line)
    log.put("eos_suppressed_rate", log.blocked[-1])


def _response_eot(log: Log, _: re.Match[str]) -> None:
    log.gather("chat_header_rate", 0.0)


def _chat_header(log: Log, _: re.Match[str]) -> None:
    log.step.lists.setdefault("chat_header_rate", [0.0])[-1] = 1.0


def _pad_is_eot(log: Log, _: re.Match[str]) -> None:
    log.run.settings["pad_equals_eot"] = True


def _judge(log: Log, line: re.Match[str]) -> None:
    counts = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", line["providers"])}
    if total := sum(counts.values()):
        log.fields["judge_failure_rate"] = counts.get("heuristic", 0) / total


def _zero_scores(log: Log, _: re.Match[str]) -> None:
    log.run.unread["0分候选 (candidates scored 0)"] = log.run.unread.get("0分候选 (candidates scored 0)", 0) + 1


def _before_scale(log: Log, line: re.Match[str]) -> None:
    if rewards := _numbers(line["values"]):
        log.tasks[FAIRNESS]["success_rate"] = mean([float(r > 0.5) for r in rewards])  # the trainer's own rule


def _after_scale(log: Log, line: re.Match[str]) -> None:
    rewards, groups = _numbers(line["values"]), int(log.tasks[FAIRNESS].get("groups", 0))
    if not rewards:
        return
    task = log.tasks[FAIRNESS]
    task["reward_mean"], task["reward_min"], task["reward_max"] = mean(rewards), min(rewards), max(rewards)
    if groups and len(rewards) % groups == 0:
        size = len(rewards) // groups
        task["group_rewards"] = [rewards[i : i + size] for i in range(0, len(rewards), size)]


def _dead_group(log: Log, line: re.Match[str]) -> None:
    values = log.tasks.setdefault(line["of"], {})
    values["zero_variance_groups"] = values.get("zero_variance_groups", 0.0) + 1


def _monitor(log: Log, _: re.Match[str]) -> None:
    log.monitor = True


def _dead_groups(log: Log, line: re.Match[str]) -> None:
    log.groups = _number(line["field_groups"])


def _reward_scale(log: Log, line: re.Match[str]) -> None:
    log.step.ended = True
    if found := re.search(rf"Signal: F=({_NUMBER}), H=({_NUMBER})", line["rest"]):
        log.both("signal", _number(found[1]), _number(found[2]))


def _task(log: Log, line: re.Match[str]) -> None:
    log.task = line["of"].lower()


def _entropy_loss(log: Log, line: re.Match[str]) -> None:
    task = log.task or FAIRNESS
    log.tasks[task].setdefault("entropy_mean", _number(line["entropy"]))
    log.fields["entropy_coef"] = log.tasks[task]["entropy_coef"]
    if task == FAIRNESS:  # the entropy of the run is also the entropy of the fairness task
        log.fields["entropy_loss"] = log.tasks[task]["entropy_loss"]


def _branched_kl(log: Log, line: re.Match[str]) -> None:
    for task, symbol in ((FAIRNESS, "f"), (HALLUCINATION, "h")):
        if found := re.search(rf"β_{symbol}[^:]*: [\d.]+→(\d+\.?\d*)", line["rest"]):
            log.tasks[task]["kl_coef"] = _number(found[1])
        if found := re.search(rf"{task.capitalize()}(?:拉格朗日: KL=| KL过[高低]\()(\d+\.?\d*)", line["rest"]):
            log.tasks[task].setdefault("kl", _number(found[1]))


def _eval_pairs(log: Log, line: re.Match[str]) -> None:
    for name, fairness, percent, hallucination in _PAIR.findall(line["pairs"]):
        scale = 0.01 if percent else 1.0
        log.both(_PAIRED[name], _number(fairness) * scale, _number(hallucination) * scale)


def _progress(log: Log, line: re.Match[str]) -> None:
    values = {name: _number(value) for name, value in _POSTFIX.findall(line["rest"])}
    if values and log.step.number is None:
        log.at(max(int(line["done"]), 1))
    log.fields.update({name: values[name] for name in ("loss", "kl") if name in values})
    for name, task in (("β_f", FAIRNESS), ("β_h", HALLUCINATION)):
        if name in values:
            log.tasks[task]["kl_coef"] = values[name]


def _response(log: Log, _: re.Match[str]) -> None:
    log.text = []


_TOO_LONG = "completion mask of {longest} tokens is longer than the limit of {limit}: it covers prompt or padding"
_ROWS: tuple[tuple[str, str, _Handler], ...] = (
    # sharpness
    ("Logits Distribution Debug", r"\[Step (?P<at0>\d+)\] Logits Distribution Debug(?: \((?P<label>.*?)\))?",
     _taking(then=_logits)),
    ("Temperature:", rf"^\s+Temperature: {_n('field_temperature')}", _taking()),
    ("Max logit:", f"Max logit: {_n('logit_logit_max')}", _taking()),
    ("Gap (1st-2nd):", rf"Gap \(1st-2nd\): {_n('logit_logit_gap')}", _taking()),
    ("Top-5 probs:", r"Top-5 probs:\s*\[(?P<values>[^\]]*)\]", _taking(then=_top5)),
    ("Max prob:", f"Max prob: {_n('logit_top1_prob')}", _taking()),
    (" Logits]", r"\[Step (?P<at0>\d+) Logits\](?P<rest>.*)", _taking(then=_one_line)),
    # entropy
    ("Fairness整体熵统计", rf"Fairness整体熵统计: mean={_n('f_entropy_mean')}(?P<rest>, min=.*, max=.*)",
     _taking(then=_entropy)),
    ("[Fairness诊断", rf"\[Fairness诊断(?:@step(?P<at>\d+))?\].*?Entropy(?:\(mean\))?[:=]\s*(?:mean=)?"
     rf"{_n('f_entropy_mean')}(?P<rest>.*)", _taking(then=_entropy)),
    ("[Fairness诊断@step", r"\[Fairness诊断@step(?P<at>\d+)\] 发现 \d+ 个Fairness样本", _taking(then=_of_fairness)),
    ("Fairness样本", rf"Fairness样本 \d+: entropy={_n('mean_entropy_mean')}", _taking()),
    ("Entropy", rf"^\s*Entropy(?:\(mean\))?[:=]\s*{_n('value')}", _taking(then=_entropy_line)),
    ("Length:", r"\bLength: (?P<meanf_response_length_mean>\d+) tokens(?:.*?Truncated: (?P<truncated>True|False))?",
     _taking(then=_truncated)),
    ("Truncated:", r"Truncated: (?P<truncated>True|False)", _taking(then=_truncated)),
    ("Generated:", r"^\s+Generated: (?P<text>.+)", _taking(then=_generated)),
    ("Reward (原始)", rf"Reward \(原始\): {_n('meanf_reward_mean')}", _taking()),
    # the end of a response
    ("初始化: min_new_tokens=", r"min_new_tokens=(?P<set_min_new_tokens>\d+)", _taking()),
    ("已阻止", r"已阻止 (?P<blocked>\d+)/(?P<batch>\d+)", _taking(then=_blocked)),
    ("EOS", r"(?i)EOS suppressor\D*(?:[\d.]+%\D*)?(?P<blocked>\d+)/(?P<batch>\d+)", _taking(then=_blocked_line)),
    ("生成长度: Fairness avg", rf"生成长度: Fairness avg={_n('f_response_length_mean')}, "
     rf"Hallucination avg={_n('h_response_length_mean')}", _taking()),
    ("截断率过高", r"\[步骤(?P<at>\d+)\] 截断率过高\(F:(?P<f_truncated_rate>\d+\.?\d*)%, "
     r"H:(?P<h_truncated_rate>\d+\.?\d*)%\)",
     _taking("truncation too high: fairness {f_truncated_rate} %, hallucination {h_truncated_rate} %")),
    ("当前max_new_tokens=", r"当前max_new_tokens=(?P<field_max_new_tokens>\d+)", _taking()),
    ("降低temperature=", rf"降低temperature={_n('first_temperature')}.*?rep_penalty={_n('first_repetition_penalty')}",
     _taking()),
    ("presence_penalty=", rf"增大presence_penalty={_n('first_presence_penalty')}", _taking()),
    ("gen_len超过硬约束", r"\[步骤(?P<at>\d+)\] 检测到gen_len超过硬约束: max=(?P<longest>\d+) > (?P<limit>\d+)",
     _taking(_TOO_LONG)),
    # the boundary between prompt and response
    ("[模板/边界核查]", r"\[模板/边界核查\] Step (?P<at0>\d+)", _taking()),
    ("<|eot_id|> tokens", r"^\s*Response: (?P<mean_eot_per_response>\d+)个<\|eot_id\|> tokens",
     _taking(then=_response_eot)),
    ("chat header", r"异常: Response开头似乎包含chat header",
     _taking("a response seems to begin with a chat header", _chat_header)),
    ("pad_token_id == eot_token_id", r"警告: pad_token_id == eot_token_id",
     _taking("pad_token_id equals eot_token_id", _pad_is_eot)),
    ("异常:", r"异常: (?P<where>Prompt|Response|Full)包含(?P<count>\d+)个<\|eot_id\|>", lambda log, line: log.warn(
        f"{line['where'].lower()} holds {line['count']} <|eot_id|> tokens")),
    # rewards and groups
    ("Batch Composition@step", r"Batch Composition@step(?P<at>\d+)\] (?P<f_groups>\d+) Fairness样本", _taking()),
    ("[Judge@step", r"\[Judge@step(?P<at>\d+)\] time=[\d.]+s providers=\{(?P<providers>[^}]*)\}", _taking(then=_judge)),
    ("[诊断: 0分候选详情@step", r"@step(?P<at>\d+)\] 发现", _taking(then=_zero_scores)),
    ("Reward Scale@step", r"\[诊断2: Reward Scale@step(?P<at>\d+)\] "
     r"FAIRNESS_REWARD_SCALE=(?P<set_fairness_reward_scale>\d+\.?\d*)", _taking()),
    ("Before scale:", r"Before scale:\s*\[(?P<values>[^\]]*)\]", _taking(then=_before_scale)),
    ("After scale:", r"After scale:\s*\[(?P<values>[^\]]*)\]", _taking(then=_after_scale)),
    ("Reward Normalization@step", r"Reward Normalization@step(?P<at>\d+)", _taking()),
    ("EMA stats:", rf"EMA stats: mean={_n('f_reward_ema_mean')}, std={_n('f_reward_ema_std')}", _taking()),
    ("Advantage计算@step", r"Advantage计算@step(?P<at>\d+)", _taking()),
    ("adv=0", r"组\d+ \((?P<of>\w+)\): std=[\d.]+ < 0\.01 → adv=0", _taking(then=_dead_group)),
    ("零梯度组监控", r"零梯度组监控 \(Step (?P<at0>\d+)\)", _taking(then=_monitor)),
    ("的reward std<0.01", r"\[Step (?P<at>\d+)\] (?P<field_zero_variance_groups>\d+)/(?P<field_groups>\d+) 组",
     _taking(then=_dead_groups)),
    ("[零梯度组诊断@step", r"@step(?P<at>\d+)\] 组\d+的(?P<set_group_size>\d+)个candidates", _taking()),
    ("[Reward Scale@step", rf"\[Reward Scale@step(?P<at>\d+)\] F: std={_n('f_reward_std')}, "
     rf"H: std={_n('h_reward_std')}(?P<rest>.*)", _taking(then=_reward_scale)),
    ("严重失衡", r"严重失衡: F/H=(?P<ratio>\d+\.?\d*)", _taking("signal of fairness to hallucination is {ratio}")),
    ("[GradientConflict@", r"\[GradientConflict@(?P<at>\d+)\]",
     _taking("the gradients of the two tasks point against each other")),
    # loss and KL
    ("Loss组件诊断", r"Loss组件诊断 @step(?P<at>\d+)", _taking()),
    (" Loss组件:", r"^(?P<of>Fairness|Hallucination) Loss组件:", _taking(then=_task)),
    ("Reward项", rf"Reward项\(负surrogate\): {_n('task_policy_loss')}", _taking()),
    ("KL项(", rf"KL项\(β={_n('task_kl_coef')}\): {_n('task_kl_loss')}\s+\(raw_kl={_n('task_kl')}\)", _taking()),
    ("Entropy项(coef=", rf"Entropy项\(coef={_n('task_entropy_coef')}\): {_n('task_entropy_loss')}\s+"
     rf"\(raw_entropy={_n('entropy')}\)", _taking(then=_entropy_loss)),
    ("Overall Loss:", f"Overall Loss: {_n('field_loss')}", _taking()),
    ("[BranchedKL@", r"\[BranchedKL@(?P<at>\d+)\] (?P<rest>.*)", _taking(then=_branched_kl)),
    ("QuickEval@", r"\[QuickEval@(?P<at>\d+)\].*?fairness=(?P<f_eval_score>\d+\.?\d*)\s+"
     r"hallucination=(?P<h_eval_score>\d+\.?\d*)", _taking()),
    (": F=", r"^(?P<pairs>\s*(?:截断率|KL散度): F=.*)", _taking(then=_eval_pairs)),
    ("GRPO训练:", r"GRPO训练:.*?(?P<done>\d+)/\d+ (?P<rest>.*)", _taking(then=_progress)),
    # texts
    ("样本 #", r"^样本 #\d+ \((?P<of>Fairness|Hallucination)\)", _taking(then=_task)),
    ("Response 完整内容:", r"Response 完整内容:", _taking(then=_response)),
)  # fmt: skip
HANDLERS: list[Handling] = [(mark, re.compile(pattern), handler) for mark, pattern, handler in _ROWS]
