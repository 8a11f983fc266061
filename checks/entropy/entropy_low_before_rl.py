from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.series import Column, baseline, is_any, recent_mean, total, words


@check(
    "ENT012",
    severity="info",
    confidence="medium",
    explains=("ENT001", "SHP001", "DIV001"),
    withholds={
        "clip-higher": "entropy was low before the first update: no setting of the update spent it",
        "covariance-clipping": "entropy was low before the first update: no setting of the update spent it",
        "entropy-bonus": "entropy was low before the first update: find out where it went first",
        "roll-back": "entropy was low before the first update: no checkpoint of this run is better",
    },
    rivals=(
        Rival(
            "an overtrained or uniform supervised stage",
            "targets that repeat one sentence, or too many epochs, leave one answer per prompt",
            "entropy of the base model and of the supervised checkpoint on the same RL prompts at T=1",
        ),
        Rival(
            "another template than the supervised stage had",
            "a policy that never saw the header tokens falls into one rut",
            "entropy of the supervised checkpoint with its own template and with the one of RL",
        ),
        Rival(
            "a low sampling temperature, top-k or penalties",
            "contexts that are sampled sharply are visited where the policy is sure of itself",
            "entropy at T=1 on rollouts that were sampled at T=1 without filters",
        ),
        Rival(
            "a task with short, formal answers",
            "a workflow of five words has little entropy when everything is well",
            "the reward: it must rise, and responses to one prompt must differ",
        ),
    ),
    remedies=(
        remedy(
            "find-entropy-before-rl",
            "Find out where the entropy went before RL: measure base model, supervised checkpoint and template",
            by_hand="for model in (base, supervised):\n    for render in (supervised_template, rl_template):\n"
            "        H = entropy(model, sample(model, render(prompts), temperature=1.0))\n"
            "# the first of the four that is below 0.1 nats names the culprit",
            trl="SFTTrainer: one epoch, varied targets, the chat template that GRPOTrainer will use",
            verl="the same chat template and tokenizer in sft and rollout; data.truncation=error shows cut headers",
            openrlhf="--data.apply_chat_template in both stages; one supervised epoch",
            evidence="fairness log: 0.032 at step 1 after a supervised stage that copied the context into one fixed "
            "sentence; coefficients from 0.2 to 6.0 left it there",
            source="BoBaCai/grpo-dual, commits 1b69ed0 and 6075bf1",
        ),
        "temperature-one",
    ),
    invalidates=("the supervised stage: train it again before RL if it is the one that lost the entropy",),
)
def entropy_low_before_rl(
    entropy_mean: Column,
    step: Column,
    reward_mean: Column = None,
    reward_gained: Column = None,
    reward_fallen: Column = None,
    reward_solved: Column = None,
    dead_share: Column = None,
    temperature: Column = None,
    rows_are: Column = any_of("settings.rows", optional=True),
    *,
    low_start_nats: float = 0.15,
    stayed_low_nats: float = 0.1,
    rows: int = 10,
    live_below_share: float = 0.5,
) -> Fires:
    """The policy had hardly any entropy before the first update, so nothing in RL spent it.

    ## What it sees
    A log that begins at step 0 or 1 with an entropy below 0.15 nats and has stayed below 0.1 on 3 of 5 rows. An info; a
    warning while the reward has not gained and is not near its top, unless, from ten rewards on, more than half of the
    groups are known to be live: then responses do differ. Rows that are means over an epoch are not judged: they hold
    updates.

    ## Thresholds
    - `low_start_nats`: entropy of the first row, nats per token, below which the run began low.
    - `stayed_low_nats`: entropy, nats per token, below which it has stayed low.
    - `rows`: recorded rewards from which the lack of a gain counts.
    - `live_below_share`: share of groups with equal rewards, 0 to 1, below which responses do differ.

    ## Why it matters
    The first rollout is the policy as RL was given it. Whatever is wrong with it is the doing of the supervised stage,
    the template or the sampling; the entropy coefficient, K, the learning rate and the clip bounds have not acted yet,
    and turning them treats the wrong patient.

    ## Known false alarms
    Distilled models and formal tasks begin low and learn well: a TRL run begins at 0.05 nats and solves its task, which
    is why a gain in reward leaves only an info. An entropy of exactly 0 on the first row was not measured.

    ## Remedy
    Measure entropy of the base model and of the supervised checkpoint on the RL prompts, with both templates, at
    temperature 1: the first of these that is low names the stage to mend.

    ## Sources
    The logs of BoBaCai/grpo-dual (three of three begin at 0.03 nats); BoBaCai/grpo-dual; public runs of
    kartikmunjal/rlhf-and-reward-modelling-alt.
    """
    first, began = baseline(entropy_mean, 1), baseline(step, 1)
    given = (
        ~is_any(rows_are, "epochs", "unnumbered")
        & (began <= 1)
        & (first > 0)
        & (first < low_start_nats)
        & (entropy_mean < stayed_low_nats)
    )
    better = reward_gained & ~reward_fallen
    alive = (total(reward_mean == reward_mean) >= rows) & (recent_mean(dead_share) < live_below_share)
    return fires(
        given,
        "Entropy was {first:.3g} nats on the first row, before any update{sampled}: what came before RL or samples for "
        "it left it so, neither the entropy coefficient nor K.",
        warning=given & ~better & ~reward_solved & ~alive,
        onset=began,
        sampled=words(lambda t: f" (sampled at temperature {t:.3g})" if t == t else "", temperature),
        first=first,
        entropy=entropy_mean,
    )
