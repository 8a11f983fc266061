from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("REW013", kind="defect", severity="error", explains=("REW004", "ADV013"))
def reward_function_breaks(reward: Any, graded: Any, tokenizer: Any = None, render: Any = None) -> Fires | None:
    """The reward function raises an exception, returns NaN, mixes up responses or rejects a correct answer.

    ## What it sees
    The probe scores the adapter's graded responses, and texts on which parsers fail. The texts include an empty text, a
    response cut in half, unbalanced tags and braces, `1/0`, `nan`, 5,000 digits, a superscript, and a NUL character.
    Each text must get a finite number or None. Several responses in one call must get the same rewards, in the same
    order, as if each were scored alone. A function with TRL's signature must accept `**kwargs`, because it receives
    every column of the dataset. If the rendered prompt ends with an open `<think>` tag, a correct response must get the
    same reward with and without that tag.

    ## Why it matters
    An exploring policy writes empty, truncated and malformed texts within the first hundred steps. An exception ends
    the run, and a NaN reaches the advantages of its whole group. A format reward is always 0 if it requires a tag that
    the template has already written.

    ## Example
    ```python
    import re

    graded = [
        ("What is 2 + 10?", "12", "<answer>12</answer>", "<answer>13</answer>"),  # prompt, gold, right, wrong
        ("What is 2 + 3?", "5", "<answer>5</answer>", "<answer>4</answer>"),
    ]


    def reward(prompts, responses, answers):
        found = [re.search(r"<answer>(.*?)</answer>", response).group(1) for response in responses]
        return [float(text == answer) for text, answer in zip(found, answers)]
    ```
    Error: The reward function raises AttributeError on the response ''.

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
    The probe certifies the scoring of the texts listed above on the graded examples. The probe does not certify the
    accuracy of the verifier (see REW012), timeouts, or the behaviour of a remote judge under load.

    ## Known false alarms
    The probe also fires for a function that takes token ids instead of texts.

    ## Remedy
    Catch parsing exceptions, and return 0 or None.

    ## Sources
    huggingface/trl documentation of custom reward functions; the template of DeepSeek-R1's distilled models, which
    opens `<think>` in the prompt.
    """
    verifier = probes.reward_function
    if verifier.in_trl_form(reward) and not verifier.takes_columns(reward):
        return fires(
            True,
            "The reward function has TRL's signature but no **kwargs, so it fails on any other dataset column.",
        )
    for example in graded[:2]:
        for text in verifier.odd(example):
            try:
                found = verifier.score(reward, example, text)
            except probes.Unjudged:
                raise
            except Exception as error:  # noqa: BLE001  (user code may raise anything, and that is the finding)
                return _broken(f"raises {type(error).__name__}", text)
            if not verifier.finite(found):
                return _broken(f"returns {found}", text)
    return _order(reward, graded) or (_prefilled(reward, graded, tokenizer, render) if render is not None else None)


def _broken(what: str, text: str) -> Fires:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return fires(True, "The reward function {what} on the response {shown!r}.", what=what, shown=shown, response=shown)


def _order(reward: Any, graded: Any) -> Fires | None:
    """Fire if a response gets a different reward in a batch than alone."""
    verifier = probes.reward_function
    batch = [(example, text) for example in graded for text in (example[3], example[2])]
    alone = [verifier.score(reward, *one) for one in batch]
    if alone != [verifier.score(reward, *one) for one in batch]:
        return None  # the rewards differ between calls because the judge samples
    for order in (batch, batch[::-1]):
        wanted = alone if order is batch else alone[::-1]
        found = verifier.numbers(verifier.scores(reward, [e for e, _ in order], [t for _, t in order]), len(order))
        wrong = sum(a != b for a, b in zip(found, wanted, strict=True))
        if wrong:
            return fires(
                True,
                "{wrong} of {count} responses get a different reward in a batch than when scored alone.",
                wrong=wrong,
                count=len(order),
                response=next(t for (_, t), a, b in zip(order, found, wanted, strict=True) if a != b),
            )
    return None


def _prefilled(reward: Any, graded: Any, tokenizer: Any, render: Any) -> Fires | None:
    """Fire if the function requires a tag that the prompt has already opened."""
    verifier = probes.reward_function
    for example in graded:
        prompt, _, right, _ = example
        ids = probes.crafted_inputs.flat_ids(render(prompt))
        opened = tokenizer is not None and str(tokenizer.decode(ids)).rstrip().endswith("<think>")
        if not opened or not right.lstrip().startswith("<think>"):
            continue
        rest = right.lstrip().removeprefix("<think>")
        whole, without = verifier.score(reward, example, right), verifier.score(reward, example, rest)
        if whole is not None and without is not None and without < whole:
            return fires(
                True,
                "The prompt already ends with <think>, and a correct response that continues from there gets a "
                "reward of {without:g} instead of {whole:g}.",
                without=without,
                whole=whole,
                response=rest[:200],
            )
    return None
