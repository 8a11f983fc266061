"""Computes the record fields of a step from its samples. Few texts are kept, so memory use grows by only a few numbers
per sample."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from ..record import StepRecord
from ..run import Call, Run, Sample
from .answers import MARKERS, agrees, final_answer
from .rows import rollouts_of
from .texts import echoes, foreign, refuses, repeats, scripts
from .tools import EMPTY, OF_ENVIRONMENT

_MEASURES = (
    "chars tokens repetition_rate prompt_echo_rate refusal_rate valid_rate truncated_rate aborted_rate "
    "turns_per_response tool_calls_per_response failed unparsed repeated environment success_rate agrees reward "
    "advantage taskless answered"
).split()
"""Numbers of one rollout; NaN if unknown."""
_UNKNOWN = dict.fromkeys(_MEASURES, math.nan)
_PLACE = {name: place for place, name in enumerate(_MEASURES)}
_MEANS = (
    "repetition_rate prompt_echo_rate refusal_rate valid_rate truncated_rate turns_per_response "
    "tool_calls_per_response success_rate"
).split()
"""Measures whose mean is a record field and can be estimated well from a part of the responses."""
PLAIN, SIGNED, CUT = 4, 3, 2000
"""`PLAIN`: number of stored responses per step. `SIGNED`: number of additional stored responses per sign. `CUT`:
maximum length of a stored text in characters."""
EXAMINED, EVERY = 128, 16
"""`EXAMINED`: number of responses at the start of a step whose texts are all examined. `EVERY`: interval at which later
texts are examined. With 128 and 16, the mean of a share over 5 steps has a standard error of at most 2 percentage
points."""
_COMPARED = 64
"""Number of responses at the start of a step that are compared with each other."""
_SAMPLED = frozenset(
    "repetition_rate prompt_echo_rate other_script_rate response_chars_mean right_chars_mean wrong_chars_mean "
    "length_reward_correlation".split()
)
"""Fields that can be estimated well from a part of a step's responses."""
_EQUAL = 1e-6
_FEWEST = 3
"""Minimum number of responses for a mean over a subset of a step's responses."""
_KNOWN = 0.05
"""Minimum share of a step's responses that must have a known value for the mean of the known values to be used. The
minimum is lower than the share of responses that are examined."""
_TEMPLATE = 3
"""Minimum number of prompts with the same response for the response to count as independent of the prompt."""
_RULE = 0.5
"""Minimum share of responses with a marked answer at which a marked answer counts as the required format."""
_LONGER = 1.25
"""Multiple of the mean length of correct responses above which a wrong response is long."""
_SHORT = 40
"""Length in characters up to which a response may correctly be the same for several prompts."""


class Steps:
    """Collects rollouts by step. Keeps the numbers of all rollouts, and the texts of a few rollouts."""

    def __init__(self) -> None:
        self._steps: dict[int, _Step] = {}
        self._tools = self._answers = False

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def responses(self) -> int:
        """The number of collected rollouts."""
        return sum(len(step.texts) for step in self._steps.values())

    def note(self) -> str | None:
        """Return a sentence with the number of examined texts; None if all texts were examined."""
        total = self.responses
        examined = sum(step.examined for step in self._steps.values())
        if examined == total:
            return None
        return (
            f"The texts of {examined:,} of {total:,} responses were examined: the first {EXAMINED} of each step and "
            f"every {EVERY}th after them; rewards, lengths and tool calls include all responses."
        )

    def add(self, sample: Sample) -> None:
        """Add one rollout."""
        step = self._steps.get(sample.step)
        if step is None:
            step = self._steps[sample.step] = _Step()
        step.add(sample)
        self._tools = self._tools or bool(sample.calls)

    def filled(
        self, record: StepRecord, rollouts: Iterable[Sample | Mapping[str, Any]]
    ) -> tuple[StepRecord, list[Sample]]:
        """Return the record of a step with the fields computed from all its rollouts, and the stored responses.

        The rollouts are then deleted, but the object remembers whether the responses of the run call tools and mark
        their answers.
        """
        for rollout in rollouts:
            for sample in (rollout,) if isinstance(rollout, Sample) else rollouts_of(rollout):
                self.add(msgspec.structs.replace(sample, step=record.step))
        fields, shown = next(self.fields(), ({}, []))
        self._steps.clear()
        return completed(record, fields), shown

    def fields(self) -> Iterator[tuple[dict[str, Any], list[Sample]]]:
        """Yield the record fields of each step in order, with the stored responses."""
        for number in sorted(self._steps):
            step = self._steps[number]
            self._answers = self._answers or step.answered >= _RULE
            found = step.text_fields(self._tools, self._answers) | step.batch_fields()
            yield {"step": number, **{k: v for k, v in found.items() if v == v}}, step.shown


def sampled(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the record fields that can be estimated from a part of a step's responses."""
    step = _Step()
    for sample in samples:
        step.add(sample)
    return {k: v for k, v in step.text_fields().items() if k in _SAMPLED and v == v}


def completed(record: StepRecord, fields: Mapping[str, Any]) -> StepRecord:
    """Fill in unknown fields of the record, and return the result."""
    held = {k: getattr(record, k) for k in fields if k != "step"}
    fresh = {k: fields[k] for k, value in held.items() if value is None or value != value}
    return msgspec.structs.replace(record, **fresh) if fresh else record


def fill(run: Run) -> None:
    """Fill in unknown values from the samples of a run."""
    for row, samples in run.samples.items():
        for name, value in sampled(samples).items():
            column = run.columns.setdefault(name, np.full(len(run), math.nan))
            if math.isnan(column[row]):
                column[row] = value


class _Step:
    """The rollouts of one step: one row of numbers per rollout."""

    def __init__(self) -> None:
        self.rows = array("d")
        self.texts, self.groups = array("q"), array("q")
        self.components: dict[str, list[float]] = {}
        self.examined = 0
        self.shown: list[Sample] = []
        self._signed: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self._first: dict[int, set[int]] = {}
        self._compared: list[tuple[int, frozenset[str]]] | None = []
        self._recovery = math.nan
        self._low, self._high = math.inf, -math.inf
        self._right = [0.0, 0]

    def add(self, sample: Sample) -> None:
        text, prompt = sample.response, sample.prompt or ""
        group, identity = hash(prompt or sample.group or None), hash(text)
        measured = _measured(sample)
        if len(self.texts) < EXAMINED or len(self.texts) % EVERY == 0:
            self.examined += 1
            measured |= _examined(sample)
            measured["taskless"] = self._taskless(text, group, identity, measured)
            self._show(sample, self._signs(measured, self._scripts(text, prompt) if prompt else math.nan))
        self.texts.append(identity)
        self.groups.append(group)
        self.rows.extend(measured.values())
        for name, value in (sample.components or {}).items():
            held = self.components.setdefault(name, [0.0, 0])
            held[0] += value
            held[1] += 1
        if self._compared is not None:
            self._compare(group, text)

    def _scripts(self, text: str, prompt: str) -> float:
        written, asked = scripts(text), scripts(prompt)
        for counts, total in ((written, self._written), (asked, self._asked)):
            for name, letters in counts.items():
                total[name] += letters
        return foreign(written, asked)

    def _taskless(self, text: str, group: int, identity: int, measured: dict[str, float]) -> float:
        """Return 1 if a response does not depend on its task: it is empty, copied from the prompt, or the same for
        several prompts. Otherwise, return 0."""
        if not _written(text) or measured["prompt_echo_rate"] == 1:
            return 1.0
        if len(text) <= _SHORT or len(self._first) > _COMPARED:
            return 0.0
        prompts = self._first.setdefault(identity, set())
        prompts.add(group)
        return float(len(prompts) >= _TEMPLATE)

    def _signs(self, measured: dict[str, float], other: float) -> list[str]:
        """Return the signs of a response, named as in ``words.toml``."""
        reward = measured["reward"]
        if reward == reward:
            self._low, self._high = min(self._low, reward), max(self._high, reward)
        paid = _paid(reward, measured["success_rate"], self._low, self._high)
        agreed = measured["agrees"]
        shown = {
            "loop": measured["repetition_rate"] == 1,
            "other script": other > 0.3,
            "echo": measured["prompt_echo_rate"] == 1,
            "same text for several prompts": measured["taskless"] == 1 and measured["aborted_rate"] == 0,
            "empty": measured["aborted_rate"] == 1,
            "no tool call": measured["tool_calls_per_response"] == 0,
            "failed tool call": measured["failed"] > 0,
            "environment failure": measured["environment"] == 1,
            "correct but not rewarded": agreed == 1 and paid == 0,
            "wrong but rewarded": agreed == 0 and paid == 1,
            "wrong and long": paid == 0 and measured["chars"] > _LONGER * self._right_chars(paid, measured["chars"]),
        }
        return [name for name, true in shown.items() if true]

    def _right_chars(self, paid: float, chars: float) -> float:
        """Return the mean length of the correct responses so far; NaN before the first correct response."""
        self._right[0] += chars * (paid == 1)
        self._right[1] += paid == 1
        return self._right[0] / self._right[1] if self._right[1] else math.nan

    def _show(self, sample: Sample, signs: list[str]) -> None:
        """Store the first responses of a step, and a few more for each sign."""
        fresh = [sign for sign in signs if self._signed[sign] < SIGNED]
        if len(self.shown) < PLAIN or fresh:
            self._signed.update(fresh)
            cut = {"response": _cut(sample.response), "prompt": None if sample.prompt is None else _cut(sample.prompt)}
            self.shown.append(msgspec.structs.replace(sample, signs=signs or None, **cut))

    def _compare(self, group: int, text: str) -> None:
        assert self._compared is not None
        self._compared.append((group, frozenset(text.lower().split())))
        if len(self._compared) == _COMPARED:
            self._recovery, self._compared = recovery(self._compared), None

    def _column(self, name: str) -> np.ndarray:
        return np.frombuffer(self.rows, float).reshape(-1, len(_MEASURES))[:, _PLACE[name]]

    @property
    def answered(self) -> float:
        """The share of complete examined responses that have a marked answer."""
        return _mean(self._column("answered"))

    def text_fields(self, tools: bool = False, answers: bool = False) -> dict[str, Any]:
        """Return means over responses. If ``tools`` is set, a response without a call has 0 calls. If ``answers`` is
        set, a response without a marked answer is invalid, unless the log or the prompt requires another format."""
        if not len(self.texts):
            return {}
        if tools:
            calls, turns = self._column("tool_calls_per_response"), self._column("turns_per_response")
            without = np.isnan(calls)
            calls[without] = 0
            turns[without & np.isnan(turns)] = 1
        found = {name: _mean(self._column(name)) for name in _MEANS}
        if answers and math.isnan(found["valid_rate"]):
            found["valid_rate"] = self.answered
        found["other_script_rate"] = foreign(self._written, self._asked)
        found["response_chars_mean"] = _mean(self._column("chars"))
        total = float(np.nansum(self._column("tool_calls_per_response")))
        if total:
            found["tool_failure_rate"] = float(np.nansum(self._column("failed"))) / total
            found["unparsed_call_rate"] = float(np.nansum(self._column("unparsed"))) / total
            found["repeated_call_rate"] = float(np.nansum(self._column("repeated"))) / total
        return found | self._outcomes()

    def _outcomes(self) -> dict[str, float]:
        """Return the fields that compare correct and wrong responses: lengths, answers, and rewards of responses that
        do not depend on their task."""
        reward, chars, agreed = self._column("reward"), self._column("chars"), self._column("agrees")
        known = reward[np.isfinite(reward)]
        low, high = (known.min(), known.max()) if len(known) else (math.nan, math.nan)
        success = self._column("success_rate")
        paid = np.array([_paid(r, s, low, high) for r, s in zip(reward.tolist(), success.tolist(), strict=True)])
        middle = known.mean() if len(known) else math.nan
        failed = self._column("environment") == 1
        taskless = (self._column("taskless") == 1) & ~failed
        found = {
            "right_chars_mean": _mean(chars[(success > 0.5) | (np.isnan(success) & (reward > middle))]),
            "wrong_chars_mean": _mean(chars[(success <= 0.5) | (np.isnan(success) & (reward < middle))]),
            "length_reward_correlation": _correlation(reward, chars),
        }
        judged = (paid == paid) & ~failed
        right, wrong = (agreed == 1) & judged, (agreed == 0) & judged
        found["right_unrewarded_rate"] = _mean(1 - paid[right]) if right.sum() >= _FEWEST else math.nan
        found["wrong_rewarded_rate"] = _mean(paid[wrong]) if wrong.sum() >= _FEWEST else math.nan
        found["taskless_reward"] = _mean(reward[taskless]) if taskless.sum() >= _FEWEST else math.nan
        if failed.any() and low < high:
            found["failures_at_floor"] = _mean((reward[failed] <= low + _EQUAL).astype(float))
        return found

    def batch_fields(self) -> dict[str, Any]:
        """Return the fields that need all responses of a step: rewards, groups, duplicates and rollouts without a
        response."""
        texts = np.frombuffer(self.texts, np.int64)
        counts = np.unique(texts, return_counts=True)[1]
        found: dict[str, Any] = {
            "unique_rate": len(counts) / len(texts),
            "top_pattern_share": int(counts.max()) / len(texts),
            "aborted_rate": _mean(self._column("aborted_rate")),
            "environment_failure_rate": _mean(self._failed()),
            "response_length_mean": _mean(self._column("tokens")),
        }
        found["prompt_recovery"] = self._recovery if self._compared is None else recovery(self._compared)
        return found | self._rewards() | self._advantages()

    def _failed(self) -> np.ndarray:
        """Return a mask of the rollouts in which the environment failed. If the environment failed in any rollout,
        rollouts that do not report a failure count as not failed."""
        failed = self._column("environment")
        return np.nan_to_num(failed) if (failed == 1).any() else failed

    def _rewards(self) -> dict[str, Any]:
        reward = self._column("reward")
        known = reward[np.isfinite(reward)]
        found: dict[str, Any] = {}
        if len(known):
            found = {"reward_mean": float(known.mean()), "reward_std": float(known.std())}
            found |= {"reward_min": float(known.min()), "reward_max": float(known.max())}
        if len(self.components) > 1:
            found["reward_components"] = {name: total / n for name, (total, n) in self.components.items()}
        if len(known) == len(reward) and (groups := _groups(np.frombuffer(self.groups, np.int64), reward)):
            dead = sum(max(group) - min(group) < _EQUAL for group in groups)
            found |= {"groups": len(groups), "zero_variance_groups": dead, "live_groups": len(groups) - dead}
            found |= {"group_size": len(groups[0]), "group_rewards": groups}
        return found

    def _advantages(self) -> dict[str, Any]:
        values = self._column("advantage")
        values = values[np.isfinite(values)]
        if len(values) < _FEWEST:
            return {}
        found: dict[str, Any] = {"advantage_mean": float(values.mean()), "advantage_std": float(values.std())}
        found |= {"advantage_min": float(values.min()), "advantage_max": float(values.max())}
        found["advantage_abs_values"] = sorted({round(abs(v), 6) for v in values.tolist() if abs(v) > _EQUAL})[:8]
        return found


def _measured(sample: Sample) -> dict[str, float]:
    """Return the numbers of one rollout, in the order of `_MEASURES`. `_examined` returns the numbers that need the
    text."""
    text, calls = sample.response, sample.calls
    measured = _UNKNOWN.copy()
    measured["chars"] = len(text)
    measured["tokens"] = _number(sample.tokens)
    measured["aborted_rate"] = lost = _lost(sample)
    measured["valid_rate"] = math.nan if lost else _valid(sample, text, sample.prompt or "")
    measured["truncated_rate"] = math.nan if sample.finish is None else sample.finish == "length"
    measured["turns_per_response"] = _number(sample.turns)
    measured["success_rate"] = _number(sample.success)
    measured["reward"] = _number(sample.reward)
    measured["advantage"] = _number(sample.advantage)
    if calls is not None:
        kinds = _failures(calls)
        measured["tool_calls_per_response"] = len(calls)
        measured["failed"] = sum(kind is not None for kind in kinds)
        measured["unparsed"] = kinds.count("invalid call")
        measured["repeated"] = _repeated(calls)
        failed = any(kind in OF_ENVIRONMENT for kind in kinds)
        if failed or kinds.count("invalid call") < len(kinds):
            measured["environment"] = failed
    if sample.finish is not None:
        measured["environment"] = measured["environment"] == 1 or sample.finish == "environment"
    return measured


def _failures(calls: Sequence[Call]) -> list[str | None]:
    """Return the kind of failure of each call. Commands may print nothing, so empty results count as failures only if
    all results are empty."""
    kinds = [call.failure for call in calls]
    return kinds if kinds.count(EMPTY) == len(kinds) else [None if kind == EMPTY else kind for kind in kinds]


def _lost(sample: Sample) -> bool:
    """Return whether a rollout has no response."""
    return sample.finish == "aborted" or not (sample.calls or _written(sample.response))


def _written(text: str) -> bool:
    return bool(text) and not text.isspace()


def _examined(sample: Sample) -> dict[str, float]:
    """Return the measures that need the text of a rollout. Examining texts takes most of the computing time."""
    text, prompt = sample.response, sample.prompt or ""
    # a reward of 0 may be due to truncation or to an invalid format
    whole = sample.finish != "length" and sample.valid is not False
    answer = final_answer(text) if whole and sample.reference else None
    return {
        "repetition_rate": sample.finish == "loop" or repeats(text),
        "prompt_echo_rate": echoes(text, prompt) if prompt else math.nan,
        "refusal_rate": refuses(text),
        "answered": any(marker in text for marker in MARKERS) if whole and _written(text) else math.nan,
        "agrees": _number(None if answer is None else agrees(answer, sample.reference or ())),
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _valid(sample: Sample, text: str, prompt: str) -> float:
    """Return 1 if a response has the format that its log or prompt requires, otherwise 0; NaN if unknown."""
    if sample.valid is not None:
        return float(sample.valid)
    wanted = _answer_markers(prompt)
    return float(any(marker in text for marker in wanted)) if wanted else math.nan


@lru_cache(256)
def _answer_markers(prompt: str) -> list[str]:
    """Return the markers of a final answer that a prompt mentions."""
    return [marker for marker in MARKERS if marker in prompt]


def _repeated(calls: Sequence[Call]) -> int:
    """Return the number of calls that repeat an earlier call of the same response."""
    made = [(call.name, call.arguments) for call in calls if call.arguments]
    return len(made) - len(set(made))


def _paid(reward: float, success: float, low: float, high: float) -> float:
    """Return 1 for a correct response and 0 for a wrong response. A response of unknown success counts as correct if
    its reward is in the upper half of the range of rewards. If all rewards are equal, a reward above 0 counts as
    correct."""
    if success == success:
        return float(success > 0.5)
    border = (low + high) / 2 if high > low else 0.0
    return float(reward > border) if reward == reward else math.nan


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) and len(known) >= _KNOWN * len(values) else math.nan


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return the Pearson correlation; NaN for fewer than 4 pairs, or if either series is constant."""
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    spread = one.std() * other.std() if len(one) >= 4 else 0.0
    return float(np.mean((one - one.mean()) * (other - other.mean())) / spread) if spread > 0 else math.nan


def _groups(keys: np.ndarray, rewards: np.ndarray) -> list[list[float]]:
    """Return the rewards of each group, in the order of the prompts. The list is empty unless all groups have the same
    size above 1 and all prompts are known."""
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    size = int(counts[0])
    if size < 2 or (counts != size).any() or (keys == hash(None)).any():
        return []
    order = np.argsort(first[np.unique(keys, return_inverse=True)[1]], kind="stable")
    grouped: list[list[float]] = rewards[order].reshape(-1, size).tolist()
    return grouped


def recovery(compared: list[tuple[int, frozenset[str]]]) -> float:
    """Return the chance-corrected rate at which the most similar other response (compared by words) belongs to the same
    prompt.

    The result is 0 for shuffled prompts, and 1 if the most similar response always belongs to the same prompt. If
    several responses are equally similar, the result uses the share of them that belongs to the same prompt. The result
    is NaN if no two responses, or all responses, belong to the same prompt.
    """
    groups = np.array([group for group, _ in compared])
    n = len(groups)
    same = (groups[:, None] == groups[None, :]) & ~np.eye(n, dtype=bool)
    chance = same.sum() / max(n * (n - 1), 1)
    if not 0 < chance < 1:
        return math.nan
    words = {word: place for place, word in enumerate(set().union(*(held for _, held in compared)))}
    has = np.zeros((n, max(len(words), 1)), np.float32)
    for row, (_, held) in enumerate(compared):
        has[row, [words[word] for word in held]] = 1
    both = has @ has.T
    sizes = has.sum(1)
    alike = np.where(np.eye(n, dtype=bool), -1, both / np.maximum(sizes[:, None] + sizes[None, :] - both, 1))
    nearest = alike >= alike.max(1, keepdims=True) - 1e-6
    own = same.any(1)
    hits = ((nearest & same).sum(1) / nearest.sum(1))[own]
    expected = (same.sum(1) / (n - 1))[own].mean()
    return float((hits.mean() - expected) / (1 - expected))


def _cut(text: str) -> str:
    """Return the beginning and the end of a long text; a short text is returned unchanged."""
    half = CUT // 2
    return text if len(text) <= CUT else f"{text[:half]} […] {text[-half:]}"
