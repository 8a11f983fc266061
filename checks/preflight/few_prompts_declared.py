from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, where, words


@check("CFG033", severity="info", explains=("ADV012",))
def few_prompts_declared(
    known: Column = any_of("settings.prompts_per_update", "settings.prompts_per_update_and_gpu"),
    whole: Column = any_of("settings.prompts_per_update", optional=True),
    *,
    prompts_below: float = 8,
    per_gpu_at_most: float = 2,
) -> Fires:
    """The configuration sets only a few prompts per update.

    ## What it sees
    The check computes the number of prompts per update from the declared batch size, processes and group size. The
    check fires below 8 prompts. If the number of GPUs is unknown, it fires at up to 2 prompts per GPU. Severity is
    always **info**. CFG008 judges the number of prompts that a log records.

    ## Thresholds
    - `prompts_below`: number of prompts per update below which the check fires.
    - `per_gpu_at_most`: number of prompts per update and per GPU up to which the check fires if the number of GPUs is
      unknown.

    ## Why it matters
    Adam takes a full-size step, whatever the batch size. If an update has one to three prompts, and most of them have
    zero-variance groups, a single prompt determines the direction of the step.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=4 \\
      actor_rollout_ref.actor.ppo_mini_batch_size=4 actor_rollout_ref.rollout.n=8
    ```
    Info: Each update uses only 4 prompts.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
      actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=8
    ```
    No finding.

    ## Known false alarms
    Small models on small tasks learn with 4 to 8 prompts. A run may use more processes than the configuration declares.

    ## Remedy
    Use at least 32 prompts with differing rewards per update. To do this, raise the batch size or the gradient
    accumulation.

    ## Sources
    TRL, verl and OpenRLHF recipes; beita6969/colab-grpo.
    """
    per_gpu = ~(whole == whole)
    return fires(
        (whole < prompts_below) | (per_gpu & (known <= per_gpu_at_most)),
        "Each update uses {what}{each}.",
        known=known,
        what=words(_what, known),
        each=where(per_gpu, " per GPU", ""),
    )


def _what(prompts: float) -> str:
    if prompts < 1:
        return "less than one group"
    return f"only {number(prompts)} prompt{'' if prompts == 1 else 's'}"
