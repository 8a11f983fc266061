from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, moving_median


@check(
    "MIS014",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("GEN002", "RAT004", "RAT005", "RAT009", "RAT010", "KL001", "STL001"),
    invalidates=("updates since step {onset}: their samples come from the initial policy",),
)
def generator_frozen(
    rollout_surprise: Column,
    trainer_surprise: Column,
    *,
    rows: int = 5,
    moved: float = 0.05,
    share: float = 0.2,
) -> Fires:
    """The rollout engine stays at the initial policy while the trainer moves away from it.

    ## What it sees
    The check uses the mean negative log-probability of the sampled tokens on both sides. It compares medians of 5 rows
    with the values of the first rows. The trainer's value has changed by more than 0.05 nats, and the engine's value by
    less than a fifth of that. It fires if this is true on 3 of 5 rows.

    ## Thresholds
    - `rows`: rows over which each median is computed.
    - `moved`: nats per token by which the trainer must have changed.
    - `share`: change of the engine, as a share of the trainer's change, 0 to 1, below which the engine counts as
      unchanged.

    ## Why it matters
    An engine that gets every update becomes more certain or less certain together with the trainer. An engine that
    never gets new weights keeps sampling from the initial policy: rewards cannot improve, and the trainer learns from
    samples of an ever older policy.

    ## Example
    ```text
    rollout_surprise: 0.5x20
    trainer_surprise: 0.5x10 0.6x10
    ```
    Error at step 13: Since the start, the trainer's log-probability of sampled tokens has moved by 0.1 nats/token and
    the rollout engine's by 0. The engine does not get the updates.

    ```text
    rollout_surprise: 0.5x10 0.59x10
    trainer_surprise: 0.5x10 0.6x10
    ```
    No finding.

    ## Known false alarms
    None known. None known: a curriculum that changes the trainer's certainty changes the engine's as well, so the check
    stays silent.

    ## Remedy
    Check that the transfer reaches the engine: compare the norm of one layer on both sides after an update. With verl
    0.6, `free_cache_engine=False` skipped the transfer.

    ## Sources
    verl-project/verl#4248 (no transfer with `free_cache_engine=False`) and verl-project/verl#7495; verl
    `rollout_corr/rollout_log_ppl` and `rollout_corr/training_log_ppl`.
    """
    engine = abs(moving_median(rollout_surprise, rows) - baseline(rollout_surprise, rows))
    trainer = abs(moving_median(trainer_surprise, rows) - baseline(trainer_surprise, rows))
    return fires(
        (trainer > moved) & (engine < share * trainer),
        "Since the start, the trainer's log-probability of sampled tokens has moved by {trainer:.2g} nats/token and "
        "the rollout engine's by {engine:.2g}. The engine does not get the updates.",
        hold=(3, 5),
        trainer=trainer,
        engine=engine,
    )
