from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("TOK006", kind="defect", severity="error", explains=("LEN001", "GEN004"))
def penalty_over_prompt(
    tokenizer: Any, render: Any, penalize: Any = None, sample: Any = None, model: Any = None, prompts: Any = None
) -> Fires | None:
    """Generation penalties count prompt tokens.

    ## What it sees
    The probe appends the same response, with equal logits, to two prompts of the same length with different words. The
    penalised logits must also be equal, for both signs of the logits and regardless of earlier completions. Without
    `penalize`, the probe runs the sampler itself on a scripted model from the same random state. The first tokens must
    be the same for both prompts.

    ## Why it matters
    A presence or frequency penalty over the prompt penalises the words that the task requires. Relative to the
    penalised words, the penalty raises the probability of EOS, which is rare in the prompt. A penalty of 8 nats makes
    EOS 2,981 times as likely. Answers shrink to one token.

    ## Example
    ```python
    from my_trainer import render, tokenizer
    from transformers import RepetitionPenaltyLogitsProcessor


    def penalize(tokens, logits, prompt_length):
        return RepetitionPenaltyLogitsProcessor(1.3)(tokens, logits)
    ```
    Error: The penalised logits depend on the words of the prompt (difference of up to 0.586). The penalty raises
    EOS by up to 0.586 nats relative to the prompt tokens.

    ```python
    from my_trainer import render, tokenizer
    from transformers import RepetitionPenaltyLogitsProcessor


    def penalize(tokens, logits, prompt_length):
        return RepetitionPenaltyLogitsProcessor(1.3)(tokens[:, prompt_length:], logits)
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that penalties ignore the prompt. GEN004 checks whether the log-probabilities of the loss
    include the penalties.

    ## Known false alarms
    A processor may forbid or require words of the prompt by design, for example as a copy constraint.

    ## Remedy
    Use `prompt_ignore_length` in HF's RepetitionPenaltyLogitsProcessor, or a processor that remembers the prompt's
    length.

    ## Sources
    BoBaCai/grpo-dual (bug 2), grpo-dual be52b55; transformers#36642 and PR #37625.
    """
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    words = craft.plain_ids(tokenizer, model, rows)
    eos = craft.special_ids(tokenizer).eos
    if penalize is not None:
        earlier = _of_earlier(penalize, tokenizer, model, words)
        if earlier > 1e-4:
            return fires(
                True,
                "The penalised logits depend on earlier completions (difference of up to {earlier:.3g}).",
                earlier=earlier,
            )
        difference, gain = _of_processor(penalize, tokenizer, model, words, eos)
        return fires(
            difference > 1e-4,
            "The penalised logits depend on the words of the prompt (difference of up to {difference:.3g}). The "
            "penalty raises EOS by up to {gain:.3g} nats relative to the prompt tokens.",
            difference=difference,
            gain=gain,
        )
    if sample is None or model is None:
        raise probes.NotApplicable("needs penalize, or sample and model")
    changed = _of_sampler(sample, model, tokenizer, words, rows)
    return fires(
        changed > 0,
        "With equal logits, {changed:.0%} of the first tokens depend on the words of the prompt.",
        changed=changed,
    )


def _of_processor(penalize: Any, tokenizer: Any, model: Any, words: list[int], eos: int | None) -> tuple[float, float]:
    import torch

    half = max(2, min(8, len(words) // 2))
    one, two = words[:half], words[-half:]
    size = getattr(getattr(model, "config", None), "vocab_size", None) or len(tokenizer)
    worst, gain = 0.0, 0.0
    for response in ([], [words[0]], [words[0], words[-1], words[0]]):
        for sign in (1.0, -1.0):
            logits = sign * torch.linspace(0.5, 2.0, size)[None].to(probes.crafted_inputs.device_of(model))
            outs = []
            for prompt in (one * 3, two * 3, [*one, *one, *two]):
                tokens = torch.tensor([[*prompt, *response]], device=logits.device)
                outs.append(torch.as_tensor(penalize(tokens, logits.clone(), len(prompt)))[0].float())
            for out in outs[1:]:
                shift = torch.nan_to_num(out - outs[0], nan=0.0)
                worst = max(worst, float(shift.abs().max()))
                if eos is not None:
                    gain = max(gain, float((shift[eos] - shift).abs().max()))
    return worst, gain


def _of_earlier(penalize: Any, tokenizer: Any, model: Any, words: list[int]) -> float:
    """Return how much the result of a call changes after another completion has been penalised."""
    import torch

    size = getattr(getattr(model, "config", None), "vocab_size", None) or len(tokenizer)
    device = probes.crafted_inputs.device_of(model)
    logits = torch.linspace(0.5, 2.0, size, device=device)[None]
    prompt = words[:4]
    outs = []
    for response in ([], list(range(min(size, 512))), []):
        tokens = torch.tensor([[*prompt, *response]], device=device)
        outs.append(torch.as_tensor(penalize(tokens, logits.clone(), len(prompt)))[0].float())
    return float(torch.nan_to_num(outs[2] - outs[0], nan=0.0).abs().max())


def _of_sampler(sample: Any, model: Any, tokenizer: Any, words: list[int], own: list[list[int]]) -> float:
    import torch

    device = probes.crafted_inputs.device_of(model)
    if isinstance(
        getattr(sample, "__self__", None), probes.from_rollout.RolloutEntryPoints
    ):  # accepts only the adapter's prompts
        prompts = [own[0], own[-1]]
        special = probes.crafted_inputs.special_ids(tokenizer).all
        of_both = set(own[0]) & set(own[-1])  # last, because a penalty treats them alike for both prompts
        known = [i for i in dict.fromkeys(own[0] + own[-1]) if i not in special]
        words = [*words[:4], *sorted(known, key=of_both.__contains__)][:48]
    else:
        half = max(2, min(8, len(words) // 2))
        prompts = [words[:half], words[-half:], [*words[: half - 1], words[-1]]]
    rows = [torch.tensor([p] * 16, device=device) for p in prompts]
    with torch.no_grad():
        size = probes.intercept.logits_of(model, rows[0][:1], torch.ones_like(rows[0][:1])).shape[-1]
    flat = torch.full((size,), -20.0)
    flat[words] = torch.linspace(50.0, 50.2, len(words))  # large, so that a factor on logits changes them much
    end = probes.crafted_inputs.special_ids(tokenizer).eos
    over = flat if end is None else torch.full((size,), -1e4).index_fill(0, torch.tensor([end]), 0.0)
    drawn = []
    for ids in rows:
        width = ids.shape[1]

        def logits(_: int, forward: Any, width: int = width) -> Any:
            return flat if forward.input_ids.shape[1] <= width else over  # only a row's first token counts

        # dropout also draws random numbers, and more for a longer prompt
        with probes.model_modes.without_dropout(model), probes.intercept.scripted_logits(model, logits):
            drawn.append(probes.sampling.sampled(sample, ids, torch.ones_like(ids), model, most=1)[:, ids.shape[1]])
        if not set(drawn[-1].tolist()) <= set(words):
            raise probes.Unjudged("the sampler does not draw from the adapter's model; see GEN002")
    return max(float((other != drawn[0]).float().mean()) for other in drawn[1:])
