"""The entry point `reward`: correct verifiers are not flagged, and each wrong one is flagged with the text that shows
it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import Adapter, run_probes
from grpo_doctor.probes.reward_function import attacks
from tests.probes.open_notes import open_notes
from tests.probes.reference import make_tokenizer

ASKED = "<think>2 and 10</think><answer>{}</answer>"
GRADED = [
    ("what is 2 + 10?", "12", ASKED.format("12"), ASKED.format("13")),
    ("what is 2 + 3?", "5", ASKED.format("5"), ASKED.format("4")),
]
WORDS = [
    ("capital of France?", "Paris", "It is Paris", "It is Rome"),
    ("capital of Italy?", "Rome", "It is Rome", "It is Bern"),
]
CHATS = [([{"role": "user", "content": prompt}], gold, right, wrong) for prompt, gold, right, wrong in GRADED]
Each = Callable[[str, str], Any]


def one(text: str) -> str | None:
    """Return the only answer in a response, or None."""
    found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return found[0].strip() if len(found) == 1 else None


def number(text: str | None) -> float | None:
    try:
        return float(text.replace(",", "")) if text is not None else None
    except (ValueError, OverflowError):
        return None


def exact(text: str, gold: str) -> float:
    return float(one(text) == gold and bool(gold))


def numeric(text: str, gold: str) -> float:
    found = number(one(text))
    return float(found is not None and found == number(gold))


def last_number(text: str, gold: str) -> float:
    found = re.findall(r"-?\d+(?:\.\d+)?", text[-2000:])
    return float(bool(found) and found[-1] == gold)


def with_format(text: str, gold: str) -> float:
    return 0.2 * bool(re.fullmatch(r"<think>.*?</think><answer>.*?</answer>", text, re.DOTALL)) + exact(text, gold)


def left_out(text: str, gold: str) -> float | None:
    return exact(text, gold) if number(gold) is not None else None


def last_word(text: str, gold: str) -> float:
    said = text.strip().split()
    return float(bool(said) and bool(gold) and said[-1] == gold)


def seam(each: Each) -> Callable[..., Any]:
    return lambda prompts, responses, answers: [each(r, a) for r, a in zip(responses, answers, strict=True)]


def trl(prompts: Any, completions: Any, answer: Any, **kwargs: Any) -> list[float]:
    said = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [numeric(text, gold) for text, gold in zip(said, answer, strict=True)]


def trl_bare(completions: Any, ground_truth: Any, **kwargs: Any) -> list[float]:
    return trl(None, completions, ground_truth)


RIGHT = {
    "exact": (seam(exact), GRADED),
    "numeric": (seam(numeric), GRADED),
    "last number": (seam(last_number), GRADED),
    "with a format": (seam(with_format), GRADED),
    "leaves out what it cannot judge": (seam(left_out), GRADED),
    "last word": (seam(last_word), WORDS),
    "TRL": (trl, GRADED),
    "TRL, chats": (trl, CHATS),
    "TRL, other names": (trl_bare, GRADED),
}


def found(reward: Any, graded: Any = GRADED, **more: Any) -> list[Any]:
    diagnosis = run_probes(Adapter(graded=graded, seams={"reward": reward}, **more), catalogue=load().select(["REW"]))
    assert open_notes(diagnosis) == []
    return [f for f in diagnosis.findings if f.severity != "info"]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_verifier_is_not_flagged(name: str) -> None:
    assert found(*RIGHT[name]) == []


# -- wrong ---------------------------------------------------------------------------------------------------------


def substring(text: str, gold: str) -> float:
    return float(gold in text)


def any_number(text: str, gold: str) -> float:
    return float(bool(gold) and gold in re.findall(r"\d+", text))


def contained_in_answer(text: str, gold: str) -> float:
    return float(bool(gold) and gold in (one(text) or ""))


def any_answer(text: str, gold: str) -> float:
    return float(gold in re.findall(r"<answer>(.*?)</answer>", text))


def unparsable_is_right(text: str, gold: str) -> float:
    return 1.0 if number(gold) is None else numeric(text, gold)


def nothing_equals_nothing(text: str, gold: str) -> float:
    return float(number(one(text)) == number(gold))


def empty_is_fine(text: str, gold: str) -> float:
    return 1.0 if not text else exact(text, gold)


def long_is_good(text: str, gold: str) -> float:
    return exact(text, gold) + len(text) / 10000


def obeys(text: str, gold: str) -> float:
    return 1.0 if "full score" in text else exact(text, gold)


def form_is_all(text: str, gold: str) -> float:
    return 1.0 if re.search(r"<answer></answer>", text) else exact(text, gold)


def upside_down(text: str, gold: str) -> float:
    return -exact(text, gold)


def constant(text: str, gold: str) -> float:
    return 1.0


PAID: list[tuple[Each, str]] = [
    (substring, "as a substring"),
    (any_number, "three answers"),
    (contained_in_answer, "as a substring"),
    (any_answer, "three answers"),
    (unparsable_is_right, "gold answer ''"),
    (nothing_equals_nothing, "gold answer"),
    (empty_is_fine, "an empty response"),
    (long_is_good, "40,000 characters"),
    (obeys, "a prompt injection"),
    (form_is_all, "correct form without an answer"),
    (upside_down, "the wrong response of an example"),
    (constant, "the wrong response of an example"),
]


@pytest.mark.parametrize(("each", "said"), PAID, ids=[e.__name__ for e, _ in PAID])
def test_a_verifier_that_rewards_wrong_answers_is_flagged(each: Each, said: str) -> None:
    reward = seam(lambda text, gold: _guarded(each, text, gold))
    (finding,) = found(reward)
    assert (finding.code, finding.severity) == ("REW012", "error")
    assert said in finding.message or (said == "as a substring" and "three answers" in finding.message)
    assert finding.evidence["found"] > finding.evidence["good"] / 2 or each is upside_down


def _guarded(each: Each, text: str, gold: str) -> Any:
    try:
        return each(text, gold)
    except (ValueError, OverflowError):
        return 0.0


def raises_on_none(text: str, gold: str) -> float:
    return float(one(text).strip() == gold)  # type: ignore[union-attr]


def converts(text: str, gold: str) -> float:
    digits = "".join(c for c in one(text) or "" if c.isdigit())
    return float(bool(digits) and int(digits) == int(gold))


def evaluates(text: str, gold: str) -> float:
    return float(ast.literal_eval(one(text) or "0") == int(gold))


def nan(text: str, gold: str) -> float:
    return exact(text, gold) if one(text) is not None else float("nan")


def shuffled(prompts: Any, responses: Any, answers: Any) -> list[float]:
    pairs = sorted(zip(responses, answers, strict=True))
    return [exact(r, a) for r, a in pairs]


def first_answer_for_all(prompts: Any, responses: Any, answers: Any) -> list[float]:
    return [exact(r, answers[0]) for r in responses]


def closed(prompts: Any, completions: Any, answer: Any) -> list[float]:
    return trl(prompts, completions, answer)


BROKEN: dict[str, tuple[Callable[..., Any], str]] = {
    "no answer": (seam(raises_on_none), "raises AttributeError"),
    "literal": (seam(evaluates), "raises"),
    "NaN": (seam(nan), "returns nan"),
    "other order": (shuffled, "a different reward"),
    "one gold answer": (first_answer_for_all, "a different reward"),
    "no kwargs": (closed, "**kwargs"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_reward_function_that_breaks_is_named(name: str) -> None:
    reward, said = BROKEN[name]
    assert [(f.code, said in f.message) for f in found(reward)] == [("REW013", True)]


def test_digits_that_int_does_not_take_are_shown() -> None:
    wide = [(p, g, r.replace("</think>", "</think> "), w) for p, g, r, w in GRADED]
    reward = seam(lambda text, gold: converts(f"<answer>{text}</answer>" if one(text) is None else text, gold))
    (finding,) = [f for f in found(reward, wide) if f.code == "REW013"]
    assert "raises ValueError" in finding.message
    assert finding.evidence["response"] in ("²", "9" * 80 + "…")


@pytest.mark.parametrize(("waits", "codes"), [(True, ["REW013"]), (False, [])])
def test_a_tag_that_the_prompt_has_opened_is_not_asked_of_the_response(waits: bool, codes: list[str]) -> None:
    tokenizer = make_tokenizer()

    def each(text: str, gold: str) -> float:
        whole = text if waits or text.startswith("<think>") else f"<think>{text}"
        return with_format(whole, gold)

    render = [tokenizer.encode("hi<think>\n", add_special_tokens=False)]
    adapter = {"tokenizer": tokenizer}
    seams = {"reward": seam(each), "render": lambda prompt: render[0]}
    diagnosis = run_probes(Adapter(graded=GRADED, seams=seams, **adapter), catalogue=load().select(["REW"]))
    assert [f.code for f in diagnosis.findings if f.severity != "info"] == codes


def test_the_right_answer_negated_is_a_remark_only() -> None:
    graded = GRADED[:1]
    diagnosis = run_probes(
        Adapter(graded=graded, seams={"reward": seam(last_number)}), catalogue=load().select(["REW012"])
    )
    assert [(f.code, f.severity) for f in diagnosis.findings] == [("REW012", "info")]
    assert "negated" in diagnosis.findings[0].message


def test_attacks_on_a_gold_answer_that_is_not_a_text_are_general() -> None:
    names = [c.name for c in attacks(("p", {"target": 3}, "3", "4"), "5")]
    assert "an empty response" in names
    assert not any("answer that" in name for name in names)
