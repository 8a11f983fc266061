import random
from typing import Any

from grpo_doctor import Fires, fires, probe, probes

MOST = 64
"""Maximum number of scripted responses; each response has tokens that no other response has."""


@probe("ADV017", kind="defect", severity="critical", explains=("ADV006", "STL001"))
def advantage_of_another_sample(
    update: Any, model: Any, render: Any, tokenizer: Any, optimizer: Any = None, prompts: Any = None
) -> Fires | None:
    """Rewards or advantages are assigned to the wrong responses.

    ## What it sees
    The probe runs one whole `update` on up to four prompts. The probe scripts the sampling, so that every response is
    different. A scripted `verify` replaces the reward function, records the prompt and the response of each call, and
    returns a different reward for each response. The gradient with respect to the logits shows the advantage applied to
    each response. Every response must be scored for the prompt that it was sampled for. Of two responses to one prompt,
    the response with the lower reward must not become more likely while the other becomes less likely. If all
    advantages of a group have the same sign, and the batch's rewards do not explain the signs, groups mix responses to
    different prompts.

    ## Why it matters
    A wrong `repeat_interleave`, a `view` with swapped axes, or a shuffle of one of two lists trains the policy on the
    advantages of other responses. Reward and loss curves look normal, but the reward does not rise.

    ## What this certifies, and what it does not
    The probe certifies that each response gets its own advantage, for a few prompts in one batch. The probe certifies
    neither the reward function (REW012) nor the size of the advantages (ADV007, ADV014).

    ## Known false alarms
    Some trainers replace a response's reward by design, for example with the reward of the best response in its group.

    ## Remedy
    Keep prompt, response and reward in one row, and repeat each prompt with `repeat_interleave`.

    ## Sources
    PrimeIntellect-ai/prime-rl#600 (prompts tiled, groups taken as neighbours); radixark/miles#1325 (all prompts in one
    group).
    """
    asked = [prompt for prompt, _ in probes.crafted_inputs.rendered(render, prompts)]
    trial = _Trial(update, model, tokenizer, asked)
    if len(trial.given) == len(asked) ** 2 > 4:  # a transposed square table looks the same
        trial = _Trial(update, model, tokenizer, asked[1:])
    strange = sum(render(prompt) != given for prompt, given in trial.scored)
    if strange:
        return fires(
            True,
            "{strange} of {rows} responses are scored for a prompt other than the one they were sampled for.",
            strange=strange,
            rows=len(trial.scored),
        )
    return _contradiction(trial.applied(optimizer), trial.given)


def _contradiction(applied: list[tuple[float, float]], given: list[tuple[int, ...]]) -> Fires:
    """Return a finding if rewards and weights contradict each other among responses that were sampled after the same
    ids."""
    groups = [[applied[n] for n, own in enumerate(given) if own == ids] for ids in dict.fromkeys(given)]
    wrong, pairs = _against(groups)
    one_sided = any(min(weights) > 0 or max(weights) < 0 for weights in ([w for _, w in group] for group in groups))
    mixed = one_sided and all(weight for _, weight in applied) and _against([applied])[0] > 0
    return fires(
        wrong > 0 or mixed,
        "In {wrong} of {pairs} pairs of responses to one prompt, the response with the lower reward becomes more "
        "likely, and the other becomes less likely."
        if wrong
        else "The advantages are centred over groups that mix responses to different prompts.",
        wrong=wrong,
        pairs=pairs,
    )


class _Trial:
    """Runs an `update` with a scripted sampler and verifier, and records the prompts for which each response is sampled
    and scored."""

    def __init__(self, update: Any, model: Any, tokenizer: Any, prompts: list[Any]) -> None:
        craft = probes.crafted_inputs
        self.update, self.model, self.tokenizer, self.prompts = update, model, tokenizer, prompts
        self.special = craft.special_ids(tokenizer)
        words = craft.plain_ids(tokenizer, model, count=2 * MOST)
        self.responses = craft.complete(words, [3] * min(MOST, len(words) // 2), self.special.eos)
        self.scored: list[tuple[Any, list[int]]] = []
        """The prompt of each call to the verifier, and the ids after which the scored response was sampled."""
        self.given = self._run(prompts, self.responses, range(len(self.responses)))
        """The ids after which each response was sampled."""
        if not len(prompts) < len(self.given) <= len(self.responses):
            raise probes.Unjudged(f"update samples {len(self.given)} responses to {len(prompts)} prompts")
        self.responses = self.responses[: len(self.given)]

    def _run(self, prompts: list[Any], responses: Any, rewards: Any) -> list[tuple[int, ...]]:
        self.scored.clear()

        def verify(prompt: Any, response: Any) -> float:
            known = (
                n for n, own in enumerate(responses) if probes.crafted_inputs.agrees(response, own, self.tokenizer)
            )
            n = next(known, None)
            if n is None or prompt not in self.prompts:
                raise probes.Unjudged("update calls verify with something other than a prompt and a sampled response")
            if len(asked) > 4 * len(responses):
                raise probes.Unjudged("update keeps resampling while all rewards are equal")
            asked.append((prompt, n))
            return float(rewards[n])

        asked: list[tuple[Any, int]] = []
        with probes.generations.scripted_generate(self.model, responses, self.special.pad, self.special.eos) as calls:
            self.update(prompts, verify)
        given = [
            tuple(i for i, r in zip(ids.tolist(), real.tolist(), strict=True) if r)
            for call in calls
            for ids, real in zip(call.input_ids, call.attention_mask, strict=True)
        ]
        self.scored += [(prompt, list(given[n])) for prompt, n in asked]
        return given

    def applied(self, optimizer: Any) -> list[tuple[float, float]]:
        """Return the reward of each response, and the weight that the gradient gives to its log-probability. The weight
        is 0 if the response is left out or clipped."""
        import torch

        places = list(range(len(self.responses)))
        random.Random(0).shuffle(places)
        means = {ids: 3.0 * n for n, ids in enumerate(dict.fromkeys(self.given))}
        rewards = [means[ids] + place / len(places) for ids, place in zip(self.given, places, strict=True)]

        def loss(prompts: Any, responses: Any, scores: Any) -> Any:
            self._run(prompts, responses, scores)
            return torch.zeros(())

        caught = loss if optimizer is None else probes.updates.CaughtBackward(loss, self.model, optimizer)
        found = probes.gradient_effect.pushes(caught, self.model, self.prompts, self.responses, signs=rewards)
        weights = [float(push.weight.mean()) for push in found]
        least = 0.002 * max(map(abs, weights))
        return [(r, w if abs(w) > least else 0.0) for r, w in zip(rewards, weights, strict=True)]


def _against(groups: list[list[tuple[float, float]]]) -> tuple[int, int]:
    """Return the number of pairs within groups in which the lower reward has a positive weight and the higher reward a
    negative weight, and the number of all pairs."""
    pairs = [(one, other) for group in groups for one in group for other in group if one < other]
    return sum(low > 0 > high for (_, low), (_, high) in pairs), len(pairs)
