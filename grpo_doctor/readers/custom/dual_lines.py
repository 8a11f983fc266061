"""Maps each line of the fairness/hallucination trainer's console to fields and steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from .. import Sample
from .dual_log import FAIRNESS, HALLUCINATION, Handling, Log, mean

_Handler: TypeAlias = Callable[..., None]
HANDLERS: list[Handling] = []

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?:-\d+\.?\d*)?)"
_PAIR = re.compile(rf"(截断率|生成长度|KL散度|β值): F={_NUMBER}(%?)\s+H={_NUMBER}")
_POSTFIX = re.compile(rf"(loss|kl|β_f|β_h)={_NUMBER}")

_PAIRED = {
    "截断率": "truncated_rate",
    "生成长度": "response_length_mean",
    "KL散度": "kl",
    "β值": "kl_coef",
}


def _number(text: str) -> float:
    """Return a printed number; for a range such as ``7-10``, its middle."""
    try:
        return float(text)
    except ValueError:
        low, _, high = text.rpartition("-")
        return (float(low) + float(high)) / 2


def _numbers(text: str) -> list[float]:
    return [_number(value) for value in re.findall(_NUMBER, text)]


def _on(mark: str, pattern: str) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        HANDLERS.append((mark, re.compile(pattern), handler))
        return handler

    return register


# sharpness


@_on("Logits Distribution Debug", r"\[Step (\d+)\] Logits Distribution Debug(?: \((.*?)\))?")
def _logits(log: Log, step: str, label: str | None) -> None:
    log.zero_based(step)
    log.passed = bool(label and label.startswith("post"))  # centred after clipping: another quantity


@_on("Temperature:", r"^\s+Temperature: " + _NUMBER)
def _temperature(log: Log, value: str) -> None:
    log.fields["temperature"] = _number(value)


@_on("Max logit:", r"Max logit: " + _NUMBER)
def _logit_max(log: Log, value: str) -> None:
    if not log.passed:
        log.gather("logit_max", _number(value))


@_on("Gap (1st-2nd):", r"Gap \(1st-2nd\): " + _NUMBER)
def _logit_gap(log: Log, value: str) -> None:
    if not log.passed:
        log.gather("logit_gap", _number(value))


@_on("Top-5 probs:", r"Top-5 probs:\s*\[([^\]]*)\]")
def _top5(log: Log, values: str) -> None:
    if not log.passed:
        log.fields["topk_probs"] = _numbers(values)


@_on("Max prob:", r"Max prob: " + _NUMBER)
def _top1(log: Log, value: str) -> None:
    if not log.passed:
        log.gather("top1_prob", _number(value))


@_on(" Logits]", r"\[Step (\d+) Logits\](.*)")
def _one_line(log: Log, step: str, rest: str) -> None:
    log.zero_based(step)
    for name, pattern in (("logit_max", r"Max logit=" + _NUMBER), ("logit_gap", r"Gap=" + _NUMBER)):
        if found := re.search(pattern, rest):
            log.fields[name] = _number(found[1])
    if (top := re.search(r"Top5=\[([^\]]*)", rest)) and (values := _numbers(top[1])):
        log.fields["topk_probs"], log.fields["top1_prob"] = values, values[0]


# entropy


@_on("Fairness整体熵统计", rf"Fairness整体熵统计: mean={_NUMBER}, min={_NUMBER}, max={_NUMBER}")
def _entropy_a(log: Log, mean: str, low: str, high: str) -> None:
    log.put("entropy_mean", _number(mean))
    log.fields["entropy_min"], log.fields["entropy_max"] = _number(low), _number(high)
    log.tasks[FAIRNESS]["entropy_mean"] = _number(mean)


@_on("[Fairness诊断", rf"\[Fairness诊断(?:@step(\d+))?\].*?Entropy(?:\(mean\))?[:=]\s*(?:mean=)?{_NUMBER}(.*)")
def _entropy_b(log: Log, step: str | None, mean: str, rest: str) -> None:
    if step:
        log.at(int(step))
    log.put("entropy_mean", _number(mean))
    log.tasks[FAIRNESS]["entropy_mean"] = _number(mean)
    if found := re.search(rf"min={_NUMBER}, max={_NUMBER}", rest):
        log.fields["entropy_min"], log.fields["entropy_max"] = _number(found[1]), _number(found[2])


@_on("[Fairness诊断@step", r"\[Fairness诊断@step(\d+)\] 发现 (\d+) 个Fairness样本")
def _fairness_a(log: Log, step: str, _: str) -> None:
    log.at(int(step))
    log.task = FAIRNESS


@_on("Fairness样本", rf"Fairness样本 \d+: entropy={_NUMBER}")
def _entropy_of_sample(log: Log, value: str) -> None:
    log.gather("entropy_mean", _number(value))


@_on("Entropy", rf"^\s*Entropy(?:\(mean\))?[:=]\s*{_NUMBER}")
def _entropy_line(log: Log, value: str) -> None:
    if log.task == FAIRNESS:  # one sample of generation A
        log.gather("entropy_mean", _number(value))
        log.gather(f"{FAIRNESS}.entropy_mean", _number(value))
    else:
        log.put("entropy_mean", _number(value))


@_on("Length:", r"\bLength: (\d+) tokens(?:.*?Truncated: (True|False))?")
def _length_a(log: Log, value: str, truncated: str | None) -> None:
    log.gather(f"{FAIRNESS}.response_length_mean", _number(value))
    if truncated:
        _truncated_a(log, truncated)


@_on("Truncated:", r"Truncated: (True|False)")
def _truncated_a(log: Log, value: str) -> None:
    log.gather(f"{FAIRNESS}.truncated_rate", float(value == "True"))


@_on("Generated:", r"^\s+Generated: (.+)")
def _generated_a(log: Log, text: str) -> None:
    log.step.samples.append(Sample(step=log.number, response=text, task=FAIRNESS))


@_on("Reward (原始)", rf"Reward \(原始\): {_NUMBER}")
def _reward_a(log: Log, value: str) -> None:
    log.gather(f"{FAIRNESS}.reward_mean", _number(value))


# the end of a response


@_on("初始化: min_new_tokens=", r"min_new_tokens=(\d+)")
def _eos_init(log: Log, value: str) -> None:
    log.run.settings["min_new_tokens"] = _number(value)


@_on("已阻止", r"已阻止 (\d+)/(\d+)")
def _eos_blocked(log: Log, blocked: str, batch: str) -> None:
    log.blocked.append(_number(blocked) / max(_number(batch), 1.0))


@_on("EOS", r"(?i)EOS suppressor\D*(?:[\d.]+%\D*)?(\d+)/(\d+)")
def _eos_one_line(log: Log, blocked: str, batch: str) -> None:
    log.blocked.append(_number(blocked) / max(_number(batch), 1.0))
    log.put("eos_suppressed_rate", log.blocked[-1])


@_on("生成长度: Fairness avg", rf"生成长度: Fairness avg={_NUMBER}, Hallucination avg={_NUMBER}")
def _lengths(log: Log, fairness: str, hallucination: str) -> None:
    log.both("response_length_mean", _number(fairness), _number(hallucination))


@_on("截断率过高", r"\[步骤(\d+)\] 截断率过高\(F:(\d+\.?\d*)%, H:(\d+\.?\d*)%\)")
def _truncation(log: Log, step: str, fairness: str, hallucination: str) -> None:
    log.at(int(step))
    log.both("truncated_rate", _number(fairness) / 100, _number(hallucination) / 100)
    log.warn(f"truncation too high: fairness {fairness} %, hallucination {hallucination} %")


@_on("当前max_new_tokens=", r"当前max_new_tokens=(\d+)")
def _limit(log: Log, value: str) -> None:
    log.fields["max_new_tokens"] = _number(value)


@_on("降低temperature=", rf"降低temperature={_NUMBER}.*?rep_penalty={_NUMBER}")
def _sampling(log: Log, temperature: str, penalty: str) -> None:
    log.run.settings.setdefault("temperature", _number(temperature))
    log.run.settings.setdefault("repetition_penalty", _number(penalty))


@_on("presence_penalty=", rf"增大presence_penalty={_NUMBER}")
def _presence(log: Log, value: str) -> None:
    log.run.settings.setdefault("presence_penalty", _number(value))


@_on("gen_len超过硬约束", r"\[步骤(\d+)\] 检测到gen_len超过硬约束: max=(\d+) > (\d+)")
def _mask_too_long(log: Log, step: str, longest: str, limit: str) -> None:
    log.at(int(step))
    log.warn(f"completion mask of {longest} tokens is longer than the limit of {limit}: it covers prompt or padding")


# the boundary between prompt and response


@_on("[模板/边界核查]", r"\[模板/边界核查\] Step (\d+)")
def _boundary(log: Log, step: str) -> None:
    log.zero_based(step)


@_on("<|eot_id|> tokens", r"^\s*Response: (\d+)个<\|eot_id\|> tokens")
def _response_eot(log: Log, count: str) -> None:
    log.gather("eot_per_response", _number(count))
    log.gather("chat_header_rate", 0.0)


@_on("chat header", r"异常: Response开头似乎包含chat header")
def _chat_header(log: Log) -> None:
    headers = log.step.lists.setdefault("chat_header_rate", [0.0])
    headers[-1] = 1.0
    log.warn("a response seems to begin with a chat header")


@_on("pad_token_id == eot_token_id", r"警告: pad_token_id == eot_token_id")
def _pad_is_eot(log: Log) -> None:
    log.run.settings["pad_equals_eot"] = True
    log.warn("pad_token_id equals eot_token_id")


@_on("异常:", r"异常: (Prompt|Response|Full)包含(\d+)个<\|eot_id\|>")
def _eot_alarm(log: Log, where: str, count: str) -> None:
    log.warn(f"{where.lower()} holds {count} <|eot_id|> tokens")


# rewards and groups


@_on("Batch Composition@step", r"Batch Composition@step(\d+)\] (\d+) Fairness样本")
def _composition(log: Log, step: str, fairness: str) -> None:
    log.at(int(step))
    log.tasks[FAIRNESS]["groups"] = _number(fairness)


@_on("[Judge@step", r"\[Judge@step(\d+)\] time=[\d.]+s providers=\{([^}]*)\}")
def _judge(log: Log, step: str, providers: str) -> None:
    log.at(int(step))
    counts = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", providers)}
    if total := sum(counts.values()):
        log.fields["judge_failure_rate"] = counts.get("heuristic", 0) / total


@_on("[诊断: 0分候选详情@step", r"@step(\d+)\] 发现")
def _zero_scores(log: Log, step: str) -> None:
    log.at(int(step))
    log.run.unread["0分候选 (candidates scored 0)"] = log.run.unread.get("0分候选 (candidates scored 0)", 0) + 1


@_on("Reward Scale@step", r"\[诊断2: Reward Scale@step(\d+)\] FAIRNESS_REWARD_SCALE=(\d+\.?\d*)")
def _scale(log: Log, step: str, scale: str) -> None:
    log.at(int(step))
    log.run.settings["fairness_reward_scale"] = _number(scale)


@_on("Before scale:", r"Before scale:\s*\[([^\]]*)\]")
def _before_scale(log: Log, values: str) -> None:
    if rewards := _numbers(values):
        log.tasks[FAIRNESS]["success_rate"] = mean([float(r > 0.5) for r in rewards])  # the trainer's own rule


@_on("After scale:", r"After scale:\s*\[([^\]]*)\]")
def _after_scale(log: Log, values: str) -> None:
    rewards, groups = _numbers(values), int(log.tasks[FAIRNESS].get("groups", 0))
    if not rewards:
        return
    task = log.tasks[FAIRNESS]
    task["reward_mean"], task["reward_min"], task["reward_max"] = mean(rewards), min(rewards), max(rewards)
    if groups and len(rewards) % groups == 0:
        size = len(rewards) // groups
        task["group_rewards"] = [rewards[i : i + size] for i in range(0, len(rewards), size)]


@_on("Reward Normalization@step", r"Reward Normalization@step(\d+)")
def _normalization(log: Log, step: str) -> None:
    log.at(int(step))


@_on("EMA stats:", rf"EMA stats: mean={_NUMBER}, std={_NUMBER}")
def _ema(log: Log, mean: str, std: str) -> None:
    log.tasks[FAIRNESS]["reward_ema_mean"] = _number(mean)
    log.tasks[FAIRNESS]["reward_ema_std"] = _number(std)


@_on("Advantage计算@step", r"Advantage计算@step(\d+)")
def _advantage(log: Log, step: str) -> None:
    log.at(int(step))


@_on("adv=0", r"组\d+ \((\w+)\): std=[\d.]+ < 0\.01 → adv=0")
def _dead_group(log: Log, task: str) -> None:
    values = log.tasks.setdefault(task, {})
    values["zero_variance_groups"] = values.get("zero_variance_groups", 0.0) + 1


@_on("零梯度组监控", r"零梯度组监控 \(Step (\d+)\)")
def _monitor(log: Log, step: str) -> None:
    log.zero_based(step)
    log.monitor = True


@_on("的reward std<0.01", r"\[Step (\d+)\] (\d+)/(\d+) 组")
def _dead_groups(log: Log, step: str, dead: str, groups: str) -> None:
    log.at(int(step))
    log.groups = _number(groups)
    log.fields["zero_variance_groups"], log.fields["groups"] = _number(dead), _number(groups)


@_on("[零梯度组诊断@step", r"@step(\d+)\] 组\d+的(\d+)个candidates")
def _candidates(log: Log, step: str, size: str) -> None:
    log.at(int(step))
    log.run.settings["group_size"] = _number(size)


@_on("[Reward Scale@step", rf"\[Reward Scale@step(\d+)\] F: std={_NUMBER}, H: std={_NUMBER}(.*)")
def _reward_scale(log: Log, step: str, fairness: str, hallucination: str, rest: str) -> None:
    log.at(int(step))
    log.step.ended = True
    log.both("reward_std", _number(fairness), _number(hallucination))
    if found := re.search(rf"Signal: F={_NUMBER}, H={_NUMBER}", rest):
        log.both("signal", _number(found[1]), _number(found[2]))


@_on("严重失衡", r"严重失衡: F/H=(\d+\.?\d*)")
def _imbalance(log: Log, ratio: str) -> None:
    log.warn(f"signal of fairness to hallucination is {ratio}")


@_on("[GradientConflict@", r"\[GradientConflict@(\d+)\]")
def _conflict(log: Log, step: str) -> None:
    log.at(int(step))
    log.warn("the gradients of the two tasks point against each other")


# loss and KL


@_on("Loss组件诊断", r"Loss组件诊断 @step(\d+)")
def _loss(log: Log, step: str) -> None:
    log.at(int(step))


@_on(" Loss组件:", r"^(Fairness|Hallucination) Loss组件:")
def _loss_of(log: Log, task: str) -> None:
    log.task = task.lower()


@_on("Reward项", rf"Reward项\(负surrogate\): {_NUMBER}")
def _policy_loss(log: Log, value: str) -> None:
    log.tasks[log.task or FAIRNESS]["policy_loss"] = _number(value)


@_on("KL项(", rf"KL项\(β={_NUMBER}\): {_NUMBER}\s+\(raw_kl={_NUMBER}\)")
def _kl_loss(log: Log, beta: str, term: str, kl: str) -> None:
    log.tasks[log.task or FAIRNESS] |= {"kl_coef": _number(beta), "kl_loss": _number(term), "kl": _number(kl)}


@_on("Entropy项(coef=", rf"Entropy项\(coef={_NUMBER}\): {_NUMBER}\s+\(raw_entropy={_NUMBER}\)")
def _entropy_loss(log: Log, coef: str, term: str, entropy: str) -> None:
    task = log.task or FAIRNESS
    log.tasks[task] |= {"entropy_coef": _number(coef), "entropy_loss": _number(term)}
    log.tasks[task].setdefault("entropy_mean", _number(entropy))
    log.fields["entropy_coef"] = _number(coef)
    if task == FAIRNESS:  # the entropy of the run is also that of fairness
        log.fields["entropy_loss"] = _number(term)


@_on("Overall Loss:", rf"Overall Loss: {_NUMBER}")
def _overall_loss(log: Log, value: str) -> None:
    log.fields["loss"] = _number(value)


@_on("[BranchedKL@", r"\[BranchedKL@(\d+)\] (.*)")
def _branched_kl(log: Log, step: str, rest: str) -> None:
    log.at(int(step))
    for task, symbol in ((FAIRNESS, "f"), (HALLUCINATION, "h")):
        if found := re.search(rf"β_{symbol}[^:]*: [\d.]+→(\d+\.?\d*)", rest):
            log.tasks[task]["kl_coef"] = _number(found[1])
        if found := re.search(rf"{task.capitalize()}(?:拉格朗日: KL=| KL过[高低]\()(\d+\.?\d*)", rest):
            log.tasks[task].setdefault("kl", _number(found[1]))


@_on("QuickEval@", r"\[QuickEval@(\d+)\].*?fairness=(\d+\.?\d*)\s+hallucination=(\d+\.?\d*)")
def _quick_eval(log: Log, step: str, fairness: str, hallucination: str) -> None:
    log.at(int(step))
    log.both("eval_score", _number(fairness), _number(hallucination))


@_on(": F=", r"^(\s*(?:截断率|KL散度): F=.*)")
def _eval_pairs(log: Log, text: str) -> None:
    for name, fairness, percent, hallucination in _PAIR.findall(text):
        scale = 0.01 if percent else 1.0
        log.both(_PAIRED[name], _number(fairness) * scale, _number(hallucination) * scale)


@_on("GRPO训练:", r"GRPO训练:.*?(\d+)/\d+ (.*)")
def _progress(log: Log, done: str, rest: str) -> None:
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
def _sample(log: Log, task: str) -> None:
    log.task = task.lower()


@_on("Response 完整内容:", r"Response 完整内容:")
def _response(log: Log) -> None:
    log.text = []
