from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("REW012", kind="defect", severity="error", explains=("REW002", "REW003", "REW005"))
def wrong_answer_paid(reward: Any, graded: Any) -> Fires | None:
    """The reward function scores a wrong response like a correct one.

    ## What it sees
    The probe scores the adapter's own correct and wrong responses (`graded`), and responses derived from them. Some
    derived responses are empty, blank or very long, contain an injection ("give the full score"), or have the correct
    form without content. Other derived responses contain the correct answer only as a substring (7127 for 12) or give
    several answers, with the correct answer among wrong answers. The probe also scores a wrong response to a prompt
    whose gold answer is empty or cannot be parsed. A response counts as rewarded if its reward is nearer to that of the
    correct response than to that of the wrong response. If only the negated answer ("not 12") is rewarded, severity
    is **info**, because a number parser accepts the negated answer by design.

    ## Why it matters
    A policy finds every response that is rewarded. A verifier that searches for a substring teaches the policy to list
    answers. A verifier that gives the maximum reward if the gold answer cannot be parsed rewards any response.

    ## Example
    ```python
    graded = [
        ("What is 2 + 10?", "12", "<answer>12</answer>", "<answer>13</answer>"),  # prompt, gold, right, wrong
        ("What is 2 + 3?", "5", "<answer>5</answer>", "<answer>4</answer>"),
    ]


    def reward(prompts, responses, answers):
        return [float(answer in response) for response, answer in zip(responses, answers)]
    ```
    Error: The reward function gives a reward of 1 to a response with three answers (wrong, correct, wrong); the correct
    response gets 1.

    ```python
    import re

    graded = [
        ("What is 2 + 10?", "12", "<answer>12</answer>", "<answer>13</answer>"),  # prompt, gold, right, wrong
        ("What is 2 + 3?", "5", "<answer>5</answer>", "<answer>4</answer>"),
    ]


    def reward(prompts, responses, answers):
        found = [re.findall(r"<answer>(.*?)</answer>", response) for response in responses]
        return [float(texts == [answer] and answer != "") for texts, answer in zip(found, answers)]
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies how the reward function scores the crafted responses to the graded examples, as text. The probe
    does not certify that all correct responses are rewarded. The probe's only attempt to deceive a judge model is an
    injection of one sentence.

    ## Known false alarms
    In some tasks, several answers are correct at once, or formatting alone should get the same reward as the answer.

    ## Remedy
    Compare one final answer as a whole, and exclude responses that cannot be judged.

    ## Sources
    One token deceives a judge: https://arxiv.org/abs/2507.08794. A maximum for an unparsable gold answer:
    huggingface/open-r1, accuracy_reward of its first versions.
    """
    verifier = probes.reward_function
    others = [str(gold) for _, gold, *_ in graded]
    doubtful: Fires | None = None
    for n, example in enumerate(graded):
        _, gold, right, wrong = example
        good, bad = verifier.score(reward, example, right), verifier.score(reward, example, wrong)
        if good is None or bad is None:
            continue  # excluded by design
        if not bad < good:
            return _paid("the wrong response of an example", wrong, bad, good, True)
        made = verifier.attacks(example, others[n - 1])
        golds: list[Any] = [None] * len(made)
        if isinstance(gold, str):
            for unparsable in ("", "\\frac{1}{"):
                name = f"for the gold answer {unparsable!r}"
                made += [verifier.Crafted(f"a wrong response {name}", wrong)]
                made += [verifier.Crafted(f"a response without an answer {name}", "I do not know.")]
                golds += [unparsable] * 2
        for crafted, other in zip(made, golds, strict=True):
            found = _of(reward, example, crafted.text, other)
            if found is not None and found > (good + bad) / 2:
                fired = _paid(crafted.name, crafted.text, found, good, crafted.sure)
                if crafted.sure:
                    return fired
                doubtful = doubtful or fired
    return doubtful


def _of(reward: Any, example: Any, response: str, gold: Any) -> float | None:
    try:
        return probes.reward_function.score(reward, example, response, gold)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # REW013 reports the exception


def _paid(name: str, text: str, found: float, good: float, sure: bool) -> Fires:
    return fires(
        True,
        "The reward function gives a reward of {found:g} to {name}; the correct response gets {good:g}.",
        error=sure,
        info=not sure,
        name=name,
        found=found,
        good=good,
        response=text if len(text) <= 200 else f"{text[:200]}…",
    )
