from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.series import Column


@check(
    "CFG023",
    severity="info",
    confidence="high",
    remedies=(
        remedy(
            "updates-that-clip",
            "Take several updates a rollout, or do not expect the clip to act",
            trl="num_iterations=2, or steps_per_generation above gradient_accumulation_steps",
            verl="actor_rollout_ref.actor.ppo_mini_batch_size below data.train_batch_size",
            openrlhf="--train.batch_size below rollout.batch_size x n_samples_per_prompt",
            by_hand="the ratio is exactly 1 in the first update after a rollout",
            evidence="with one update a rollout the ratio is 1 and no bound acts",
            source="huggingface/trl#3120, huggingface/trl#3757, verl-project/verl PR 1265",
        ),
    ),
)
def clip_higher_idle(
    updates: Column = any_of("settings.updates_per_rollout"),
    high: Column = any_of("settings.epsilon_high"),
    low: Column = any_of("settings.epsilon", optional=True),
    level: Column = any_of("settings.async_level", optional=True),
) -> Fires:
    """The clip bounds do nothing: there is one update a rollout.

    ## What it sees
    An upper clip bound that differs from the lower one, with one update a rollout and no asynchrony declared.

    ## Why it matters
    In the first update after a rollout the policy is the one that wrote the responses: the ratio is 1, nothing is
    clipped, and clip-higher protects no exploration.

    ## Known false alarms
    Engines whose log-probabilities differ from the trainer's and stand in the ratio.

    ## Remedy
    Several updates a rollout, or leave the bounds alone.

    ## Sources
    huggingface/trl#3120; jingyaogong/minimind#775; arXiv 2503.14476.
    """
    return fires(
        (updates <= 1) & (high != low) & ~(level > 0),
        "An upper clip bound of {high:.3g} never acts: with one update a rollout every ratio is 1.",
        hold=(1, 1),
        high=high,
    )
