"""Rollouts of generated runs on three tasks, without a drift and with one planted at `ONSET`.

The policy learns: its share of correct answers rises. Each task writes the layout of another framework: verl's
``rollout_data_dir`` (math), TRL's completions (code), and messages with tool calls (search).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

STEPS, PROMPTS, RESPONSES, ONSET = 30, 8, 4, 15
_WORDS = (
    "first then so because the sum of both parts gives we know that adding removing counting every value it follows "
    "hence check again total number each step carefully now compare with what is asked left right small large next "
    "finally therefore note one two three side case where this holds by rule above below result follows from before"
).split()
_NOUNS = "apples trains books coins lamps stones tickets birds boxes pens cups keys maps wheels bells".split()


@dataclass
class Made:
    """One rollout before it is written in the layout of a framework."""

    prompt: str
    answer: str
    text: str
    right: bool
    reward: float
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    finish: str = "stop"


Drift = Callable[[Made, random.Random, float], None]


def _prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def _loop(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.text = made.text[:80] + " wait, let me compute this sum once more to be sure about it." * 12
        made.right, made.reward = False, 0.0


def _script(made: Made, rng: random.Random, share: float) -> None:
    reasoning, end = made.text[: len(made.text) // 2], made.text[len(made.text) // 2 :]
    kept = reasoning[: int(len(reasoning) * (1 - share))]
    made.text = kept + "我们来仔细计算这个问题的答案然后再检查一遍" * int(8 * share) + end


def _echo(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.text, made.right, made.reward = made.prompt, False, 0.0


def _template(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        opening = "let me think about this step by step and compute the values that are needed for the answer"
        words = opening.split() * 2
        rng.shuffle(words)
        made.text, made.right, made.reward = " ".join(words), False, 0.0


def _tools_die(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.calls = []


def _errors_avoided(made: Made, rng: random.Random, share: float) -> None:
    made.calls = made.calls if rng.random() > 0.7 * share else []
    if rng.random() < 0.45:
        made.calls = [(name, "{}", "Error: missing required argument 'query'") for name, _, _ in made.calls]


def _environment(made: Made, rng: random.Random, share: float) -> None:
    if made.calls and rng.random() < 0.4 * share:
        made.calls = [(name, query, "TimeoutError: the server did not answer") for name, query, _ in made.calls]
        made.right, made.reward = False, 0.0


def _lost(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.2 * share:
        made.text, made.calls, made.finish, made.right, made.reward = "", [], "abort", False, 0.0


def _anti(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.reward = 1.0 - made.reward


def _missed(made: Made, rng: random.Random, share: float) -> None:
    if made.right and rng.random() < 0.6 * share:
        made.text = made.text.replace(f"{{{made.answer}}}", f"{{{int(made.answer):,} \\text{{ items}}}}")
        made.reward = 0.0


def _taskless(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.5 * share:
        made.text, made.reward = "Thought process: the solution follows from the rules. Solution:", 1.0


def _long_wrong(made: Made, rng: random.Random, share: float) -> None:
    if not made.right:
        made.text = f"{_prose(rng, int(200 * share))} {made.text}"


def _unparsed(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.9 * share:
        made.calls = [
            (name, arguments[:-3], "Error: the call could not be parsed") for name, arguments, _ in made.calls
        ]
        made.right, made.reward = False, 0.0


def _cut(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.8 * share:
        made.text, made.finish = f"{made.text[: len(made.text) // 2]} {_prose(rng, 60)}", "length"
        made.right, made.reward = False, 0.0


def _no_form(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.7 * share:
        made.text, made.right, made.reward = made.text.replace("\\boxed", ""), False, 0.0


def _refuses(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.6 * share:
        made.text, made.right, made.reward = f"I'm sorry, but I can't help with that. {_prose(rng, 9)}", False, 0.0


def _same_call(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.calls = made.calls[:1] * 4


def _calls_fail(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.calls = [(name, query, "Traceback (most recent call last):\n  KeyError") for name, query, _ in made.calls]
        made.right, made.reward = False, 0.0


def _same_text(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < share:
        made.text, made.right, made.reward = "I have read the task, and this is the answer to it: seven.", False, 0.0


def _more_turns(made: Made, rng: random.Random, share: float) -> None:
    if made.calls and rng.random() < share:
        made.calls = [("search", json.dumps({"query": rng.randint(1, 9999)}), _prose(rng, 9)) for _ in range(8)]
        made.finish, made.right, made.reward = "max_turns", False, 0.0


def _length_pays(made: Made, rng: random.Random, share: float) -> None:
    if rng.random() < 0.5 * share:
        made.text, made.reward = f"{_prose(rng, 150)} {made.text}", 1.0


EVERY = ("math", "code", "search")
DRIFTS: Mapping[str, tuple[str, Drift, tuple[str, ...]]] = {
    "loop": ("DIV005", _loop, EVERY),
    "script": ("DIV006", _script, EVERY),
    "echo": ("DIV007", _echo, EVERY),
    "template": ("DIV008", _template, EVERY),
    "tools die": ("GEN010", _tools_die, ("search",)),
    "errors avoided": ("GEN013", _errors_avoided, ("search",)),
    "environment": ("GEN012", _environment, ("search",)),
    "unparsed": ("GEN009", _unparsed, ("search",)),
    "lost": ("GEN011", _lost, EVERY),
    "anti": ("REW020", _anti, ("math", "search")),
    "missed": ("REW021", _missed, ("math", "search")),
    "taskless": ("REW022", _taskless, EVERY),
    "long wrong": ("LEN007", _long_wrong, EVERY),
    "cut": ("LEN003", _cut, ("math", "search")),
    "no form": ("DIV004", _no_form, ("math", "search")),
    "calls fail": ("GEN009", _calls_fail, ("search",)),
    "more turns": ("LEN003", _more_turns, ("search",)),
}
"""Drift: the check that must report it, what it changes, and the tasks in which it can happen."""
UNCHECKED: Mapping[str, tuple[Drift, tuple[str, ...]]] = {
    "refusals": (_refuses, EVERY),
    "same call": (_same_call, ("search",)),
    "length pays": (_length_pays, EVERY),
    "same text": (_same_text, EVERY),
    "duplicates": (_same_text, EVERY),
}
"""Drifts that a statistic shows, and that no check reports but previews."""
SHOWN_BY = {
    "loop": "repetition_rate",
    "script": "other_script_rate",
    "echo": "prompt_echo_rate",
    "template": "prompt_recovery",
    "tools die": "tool_calls_per_response",
    "errors avoided": "tool_calls_per_response",
    "environment": "environment_failure_rate",
    "unparsed": "unparsed_call_rate",
    "lost": "aborted_rate",
    "anti": "wrong_rewarded_rate",
    "missed": "right_unrewarded_rate",
    "taskless": "taskless_reward",
    "long wrong": "wrong_chars_mean",
    "cut": "truncated_rate",
    "no form": "valid_rate",
    "calls fail": "tool_failure_rate",
    "more turns": "turns_per_response",
    "same text": "top_pattern_share",
    "duplicates": "unique_rate",
    "length pays": "length_reward_correlation",
    "refusals": "refusal_rate",
    "same call": "repeated_call_rate",
}
"""The statistic that a drift moves."""


def _prompt(task: str, rng: random.Random) -> tuple[str, str]:
    noun, first, second = rng.choice(_NOUNS), rng.randint(400, 4000), rng.randint(400, 4000)
    if task == "code":
        return (
            f"Write a Python function count_{noun}_{first}(values) that returns how many {noun} in the list values are "
            f"greater than {first} and smaller than {first + second}, and nothing else.",
            str(first),
        )
    asked = f"A store has {first} {noun} and receives {second} more {noun} on the next day. How many {noun} are there?"
    tools = " You can call the tool search." if task == "search" else ""
    return f"{asked}{tools} Put the final answer in \\boxed{{}}.", str(first + second)


@cache
def _subject(prompt: str) -> str:
    return " ".join(word for word in prompt.split() if any(letter.isdigit() for letter in word) or word in _NOUNS)


def _answered(task: str, prompt: str, answer: str, skill: float, rng: random.Random) -> Made:
    right = rng.random() < skill
    given = answer if right else str(int(answer) + rng.randint(1, 99))
    reasoning = f"{_prose(rng, rng.randint(20, 40))} {_subject(prompt)} {_prose(rng, rng.randint(10, 30))}"
    if task == "code":
        name = prompt.split("function ")[1].split("(")[0]
        body = f"def {name}(values):\n    return sum({given} < v for v in values)  # {_prose(rng, 6)}"
        return Made(prompt, answer, f"{reasoning}\n```python\n{body}\n```", right, float(right))
    made = Made(prompt, answer, f"{reasoning} so \\boxed{{{given}}}", right, float(right))
    if task == "search":
        asked = [f"{rng.choice(_NOUNS)} {rng.randint(1, 9999)}" for _ in range(rng.choice((1, 2, 2)))]
        made.calls = [("search", json.dumps({"query": q}), f"Doc 1: {q}. {_prose(rng, 12)}") for q in asked]
    return made


def made(task: str, drift: str | None, seed: int = 0) -> Iterator[tuple[int, Made]]:
    """The rollouts of one run, in the order of its steps."""
    rng = random.Random(f"{task} {seed}")
    for step in range(1, STEPS + 1):
        skill = 0.3 + 0.4 * step / STEPS
        share = min(1.0, max(0.0, (step - ONSET) / 5))
        for _ in range(PROMPTS):
            prompt, answer = _prompt(task, rng)
            for _ in range(RESPONSES):
                one = _answered(task, prompt, answer, skill, rng)
                if drift is not None and (share or drift == "errors avoided"):
                    change = DRIFTS[drift][1] if drift in DRIFTS else UNCHECKED[drift][0]
                    change(one, random.Random(rng.random()), share)
                yield step, one


def _verl(step: int, made: Made) -> dict[str, Any]:
    asked = f"system\nYou are a helpful assistant.\nuser\n{made.prompt}\nassistant\n"
    row = {"input": asked, "output": made.text, "gts": made.answer, "score": made.reward, "step": step}
    return row | {"finish_reason": made.finish}


def _trl(step: int, made: Made) -> dict[str, Any]:
    prompt = [{"role": "user", "content": made.prompt}]
    said = [{"role": "assistant", "content": made.text}]
    return {"step": step, "prompt": prompt, "completion": said, "passes_tests": made.reward}


def _messages(step: int, made: Made) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": made.prompt}]
    for number, (name, arguments, result) in enumerate(made.calls):
        function = {"name": name, "arguments": arguments}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    messages.append({"role": "assistant", "content": made.text})
    row = {"messages": messages, "reward": made.reward, "metadata": {"step": step, "ground_truth": made.answer}}
    return row | {"stop_reason": made.finish}


LAYOUTS = {"math": _verl, "code": _trl, "search": _messages}


def write(folder: Path, task: str, drift: str | None, seed: int = 0) -> Path:
    """Write the rollouts of one run in the format of its framework; one file per step if it does so."""
    folder.mkdir(parents=True, exist_ok=True)
    for step, rollouts in groupby(made(task, drift, seed), key=itemgetter(0)):
        with (folder / (f"{step}.jsonl" if task == "math" else "rollouts.jsonl")).open("a", encoding="utf-8") as file:
            for _, one in rollouts:
                file.write(json.dumps(LAYOUTS[task](step, one), ensure_ascii=False) + "\n")
    return folder
