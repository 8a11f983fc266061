from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG046", severity="warning", confidence="high")
def adapter_targets_with_commas(
    targets: Column = any_of("settings.torn_targets"),
) -> Fires:
    """Names of the modules that the adapter is for end in a comma, so no module has them.

    ## What it sees
    A flag that takes several words, such as `--lora_target_modules "q_proj", "k_proj", "v_proj"`, of which some end in
    a comma: the shell takes away the quotes, not the commas.

    ## Why it matters
    The program is given `q_proj,`. peft needs one of the names to be there, and is silent about the others: the
    adapter is put on the last of them alone, and far fewer weights are trained than meant.

    ## Known false alarms
    A program of the author's own that takes the commas away.

    ## Remedy
    `--lora_target_modules q_proj k_proj v_proj`.

    ## Sources
    huggingface/trl#3903 (the command of the documentation at that time); peft `inject_adapter`, which raises where
    none of the names is there.
    """
    return fires(
        targets == targets,
        "The shell passes {targets} with the comma, so the adapter is not put on these modules.",
        hold=(1, 1),
        targets=targets,
    )
