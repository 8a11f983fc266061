from typing import Any

from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.columns import Column, fold, row
from grpo_doctor.meant import of_form
from grpo_doctor.remedies import remedy


def paid(reached: dict[str, tuple[float, float]], components: Any) -> tuple[dict[str, tuple[float, float]], float]:
    """How far the component that rose least has been above its floor so far; NaN while none is known.

    The floor is the lowest value, or 0 where none is below: a wrong answer may cost something, but does not pay.
    """
    for name, value in (components or {}).items():
        if isinstance(value, int | float) and value == value and not of_form(name):
            low, high = reached.get(name, (0.0, value))
            reached[name] = min(low, value), max(high, value)
    return reached, min((high - low for low, high in reached.values()), default=float("nan"))


@check(
    "REW011",
    kind="outcome",
    severity="warning",
    confidence="medium",
    rivals=(
        Rival(
            "the component is a penalty or a bonus that is rightly never given",
            "its name does not say so",
            "the function's own code: whether 0 is its best value",
        ),
        Rival(
            "the answers are never found",
            "the extraction of this reward function reads the wrong part of the text",
            "score one right answer by hand: the component must pay",
        ),
    ),
    remedies=(
        remedy(
            "pay-what-is-meant",
            "Let the component that is meant pay before the others are learnt",
            trl="reward_weights with most of the weight on it; partial credit in its function",
            verl="partial credit in compute_score; drop the other terms from the sum until it pays",
            openrlhf="partial credit in reward_func; drop the other terms until it pays",
            by_hand="score 20 responses with it: if none pays, start from easier prompts or a supervised stage",
            evidence="none of its own",
            source="rohunagrawal/reward-hacking-entropy",
        ),
    ),
)
def component_never_pays(
    reward_gained: Column,
    reward_now: Column,
    reward_components: Column,
    *,
    early_rows: int = 20,
    never_paid_share: float = 0.1,
) -> Fires:
    """The reward rises, and one of its components has never paid: the gain comes from the others alone.

    ## What it sees
    From the 20th row on: the reward has gained (`grpo_doctor.trajectory`), and a component has never been further
    above its floor (its lowest value, at most 0) than a tenth of the reward now. Components whose names say that they
    reward form, or punish, are passed over.

    ## Thresholds
    - `early_rows`: rows before which nothing is said.
    - `never_paid_share`: height above its floor, as a share of the reward now, up to which a component has never paid.

    ## Why it matters
    Where the component that stays at nothing is the one that was meant (correctness beside compilability or format),
    the policy is learning to please the others.

    ## Known false alarms
    A component on a far smaller scale than the rest, and a penalty whose name does not say so.

    ## Remedy
    Read ten responses and score them by hand with this function. If it can pay, raise its weight, or give partial
    credit so that its first successes are seen.

    ## Sources
    rohunagrawal/reward-hacking-entropy: reward f + g; g (it compiles) goes from 0.2 to 0.7, f (it is correct) stays
    below 0.02.
    """
    most = fold(paid, dict, reward_components)
    return fires(
        reward_gained & (row(reward_now) >= early_rows) & (most <= never_paid_share * abs(reward_now)),
        "The reward rose to {now:.3g}, but a component of it has never been more than {most:.2g} above its floor.",
        hold=(1, 1),
        now=reward_now,
        most=most,
    )
