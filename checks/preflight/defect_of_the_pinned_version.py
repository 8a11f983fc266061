from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, each, where


def within(first: str, fixed: str, version: object) -> float:
    """Whether a version is one from ``first`` up to, not including, ``fixed``."""
    if not isinstance(version, str):
        return 0.0
    low, high, held = ([int(part) for part in text.split(".")] + [0] for text in (first, fixed, version))
    return float(low[:3] <= held[:3] < high[:3])


def raw_probabilities(version: object) -> float:
    """TRL with an importance correction and vLLM's log-probabilities before the temperature."""
    return within("0.23.0", "0.24.0", version)


def adapter_left_out(version: object) -> float:
    """TRL that hands vLLM the weights after it has taken the adapter out of them again."""
    return within("0.15.0", "0.15.1", version)


@check("CFG039", severity="warning", confidence="high", explains=("RAT004", "GEN002"))
def defect_of_the_pinned_version(
    version: Column = any_of("settings.trl_version"),
    vllm: Column = any_of("settings.use_vllm"),
    temperature: Column = any_of("settings.temperature", optional=True),
    correction: Column = any_of("settings.importance_correction", optional=True),
    lora: Column = any_of("settings.use_peft", "settings.lora_r", optional=True),
) -> Fires:
    """The version that is pinned has a known defect with just these settings.

    ## What it sees
    A version of TRL that the file or the requirements beside it pin, with vLLM: 0.23 with a temperature other than 1
    and the importance correction not off; 0.15.0 with LoRA.

    ## Why it matters
    TRL 0.23 weighs each token by the trainer's probability at the temperature over vLLM's without it, so that every
    weight is wrong on-policy. TRL 0.15.0 hands vLLM the weights after it has unmerged the adapter: all rollouts are
    the base model's, and the reward stays flat.

    ## Known false alarms
    Another version is installed than the one pinned.

    ## Remedy
    A newer version.

    ## Sources
    huggingface/trl#4159; huggingface/trl#2856; huggingface/trl PR 2818.
    """
    weights = (each(raw_probabilities, version) > 0) & (temperature == temperature) & (temperature != 1)
    weights = weights & ~(correction == 0)
    adapter = (each(adapter_left_out, version) > 0) & (lora > 0)
    return fires(
        (vllm == 1) & (weights | adapter),
        "TRL {version} {what}.",
        hold=(1, 1),
        version=version,
        what=where(
            adapter,
            "gives vLLM the weights without the adapter",
            "corrects by vLLM's probabilities before the temperature",
        ),
    )
