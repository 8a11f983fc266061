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
    The check uses the mean negative log-probability of the sampled tokens on both sides. The check compares medians
    over 5 rows with the medians of the first rows. The check fires on 3 of 5 rows if the trainer's negative
    log-probability has changed by more than 0.05 nats. The engine's negative log-probability must have changed by less
    than a fifth of the trainer's change.

    ## Thresholds
    - `rows`: number of rows over which each median is computed.
    - `moved`: change in the trainer's negative log-probability, nats per token, above which the check compares the
      engine.
    - `share`: change in the engine's negative log-probability, as a share of the trainer's change, 0 to 1, below which
      the engine counts as unchanged.

    ## Why it matters
    An engine that receives every update becomes more or less certain together with the trainer. An engine that never
    receives new weights keeps sampling from the initial policy. With a frozen engine, rewards cannot improve, and the
    trainer learns from samples of an increasingly old policy.

    ## Example
    ```text
    rollout_surprise: 0.5x20
    trainer_surprise: 0.5x10 0.6x10
    ```
    Error at step 13: Since the start, the trainer's log-probability of sampled tokens has changed by 0.1 nats/token,
    but the rollout engine's by only 0. The engine does not receive the updates.

    ```text
    rollout_surprise: 0.5x10 0.59x10
    trainer_surprise: 0.5x10 0.6x10
    ```
    No finding.

    ## Known false alarms
    No false alarm is known. A curriculum that changes the trainer's certainty also changes the engine's, so the check
    does not fire.

    ## Remedy
    Check that the transfer reaches the engine: compare the norm of one layer on both sides after an update. In verl
    0.6, `free_cache_engine=False` skipped the transfer.

    ## Sources
    verl-project/verl#4248 (no transfer with `free_cache_engine=False`) and verl-project/verl#7495; verl
    `rollout_corr/rollout_log_ppl` and `rollout_corr/training_log_ppl`.
    """
    engine = abs(moving_median(rollout_surprise, rows) - baseline(rollout_surprise, rows))
    trainer = abs(moving_median(trainer_surprise, rows) - baseline(trainer_surprise, rows))
    return fires(
        (trainer > moved) & (engine < share * trainer),
        "Since the start, the trainer's log-probability of sampled tokens has changed by {trainer:.2g} nats/token, "
        "but the rollout engine's by only {engine:.2g}. The engine does not receive the updates.",
        hold=(3, 5),
        trainer=trainer,
        engine=engine,
    )
