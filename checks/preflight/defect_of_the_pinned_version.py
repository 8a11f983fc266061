from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, each, where


def within(first: str, fixed: str, version: object) -> float:
    """Return 1 for versions in the half-open range from ``first`` to ``fixed``."""
    if not isinstance(version, str):
        return 0.0
    low, high, held = ([int(part) for part in text.split(".")] + [0] for text in (first, fixed, version))
    return float(low[:3] <= held[:3] < high[:3])


def raw_probabilities(version: object) -> float:
    """Return 1 for TRL versions that correct with vLLM's log-probabilities before temperature scaling."""
    return within("0.23.0", "0.24.0", version)


def adapter_left_out(version: object) -> float:
    """Return 1 for TRL versions that send vLLM the weights after unmerging the adapter."""
    return within("0.15.0", "0.15.1", version)


@check("CFG039", severity="warning", confidence="high", explains=("RAT004", "GEN002"))
def defect_of_the_pinned_version(
    version: Column = any_of("settings.trl_version"),
    vllm: Column = any_of("settings.use_vllm"),
    temperature: Column = any_of("settings.temperature", optional=True),
    correction: Column = any_of("settings.importance_correction", optional=True),
    lora: Column = any_of("settings.use_peft", "settings.lora_r", optional=True),
) -> Fires:
    """The pinned version has a known bug with these settings.

    ## What it sees
    A TRL version pinned in the file or in nearby requirements, with vLLM: 0.23 with a temperature other than 1 and
    importance correction not off; 0.15.0 with LoRA.

    ## Why it matters
    TRL 0.23 divides the trainer's probability at the temperature by vLLM's probability without it, so every on-policy
    weight is wrong. TRL 0.15.0 sends vLLM the weights after it has unmerged the adapter. All rollouts then come from
    the base model, and the reward stays flat.

    ## Known false alarms
    The installed version differs from the pinned one.

    ## Remedy
    Upgrade TRL.

    ## Sources
    huggingface/trl#4159; huggingface/trl#2856; huggingface/trl PR 2818.
    """
    weights = (each(raw_probabilities, version) > 0) & (temperature == temperature) & (temperature != 1)
    weights = weights & ~(correction == 0)
    adapter = (each(adapter_left_out, version) > 0) & (lora > 0)
    return fires(
        (vllm == 1) & (weights | adapter),
        "TRL {version} has a known bug: it {what}.",
        hold=(1, 1),
        version=version,
        what=where(
            adapter,
            "sends vLLM the weights without the adapter",
            "computes importance weights from vLLM's probabilities before temperature scaling",
        ),
    )
