import math
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, latest, moving_mean, noise, previous, row, seen, where, words


@check(
    "REC005",
    severity="warning",
    confidence="medium",
    explains=("REW009", "GRD002"),
    invalidates=("curves that cross step {onset}: they join two different training states",),
)
def jump_at_restart(
    step: Column,
    events: Column,
    reward_mean: Column = None,
    entropy_mean: Column = None,
    kl: Column = None,
    response_length_mean: Column = None,
    grad_norm: Column = None,
    *,
    rows: int = 5,
    sigmas: float = 5.0,
    least: float = 0.25,
) -> Fires:
    """A metric jumps where the run resumes, so some state was not restored.

    ## What it sees
    The check covers restarts of the step counter that do not begin at the first step. The check compares the means of
    reward, entropy, KL, response length and gradient norm over 5 rows before and 5 rows after the restart. The check
    fires if one of the means changes by more than 5 standard errors and by more than a quarter of the larger value. The
    reward counts only if it falls, and the gradient norm only if it rises.

    ## Thresholds
    - `rows`: number of rows before and after the restart that are compared.
    - `sigmas`: number of standard errors that the jump must exceed. The limit is high because five metrics are
      compared.
    - `least`: minimum jump as a share of the larger value, 0 to 1.

    ## Why it matters
    If all state is restored, a resumed run continues where it stopped. The metric that jumps shows which state was
    lost. If gradient norm or reward jumps, the optimizer moments or the position in the data were lost. If the KL falls
    to 0, the reference model was lost. If entropy or length jumps, sampling settings were lost.

    ## Example
    ```log
    {"step": 3, "reward": 0.79, "kl": 0.02}
    {"step": 4, "reward": 0.81, "kl": 0.02}
    {"step": 5, "reward": 0.80, "kl": 0.02}
    {"step": 6, "reward": 0.79, "kl": 0.02}
    {"step": 7, "reward": 0.81, "kl": 0.02}
    {"step": 8, "reward": 0.80, "kl": 0.02}
    {"step": 6, "reward": 0.31, "kl": 0.02}
    {"step": 7, "reward": 0.30, "kl": 0.02}
    {"step": 8, "reward": 0.29, "kl": 0.02}
    {"step": 9, "reward": 0.31, "kl": 0.02}
    {"step": 10, "reward": 0.30, "kl": 0.02}
    ```
    Info: When the run resumed at step 6, the reward changed from 0.802 to 0.302.

    ```log
    {"step": 3, "reward": 0.79, "kl": 0.02}
    {"step": 4, "reward": 0.81, "kl": 0.02}
    {"step": 5, "reward": 0.80, "kl": 0.02}
    {"step": 6, "reward": 0.79, "kl": 0.02}
    {"step": 7, "reward": 0.81, "kl": 0.02}
    {"step": 8, "reward": 0.80, "kl": 0.02}
    {"step": 6, "reward": 0.80, "kl": 0.02}
    {"step": 7, "reward": 0.79, "kl": 0.02}
    {"step": 8, "reward": 0.81, "kl": 0.02}
    {"step": 9, "reward": 0.81, "kl": 0.02}
    {"step": 10, "reward": 0.80, "kl": 0.02}
    ```
    No finding.

    ## Known false alarms
    A run may deliberately be resumed with different settings.

    ## Remedy
    Compare the settings that the run printed at both starts. Restore optimizer, scheduler, reference model, random
    state and data position together with the weights.

    ## Sources
    NVIDIA-NeMo/RL#3171 (a resume that silently began with fresh optimizers); huggingface/open-r1#450 (reward and
    completion length that do not continue after a resume); areal-project/AReaL#1388.
    """
    restarted = (seen(events, "restart") > 0) & (step > baseline(step, 1) + 1)
    here = row(step) - latest(where(restarted, row(step), math.nan)) == rows - 1
    found = []
    for name, column, sign in (
        ("the reward", reward_mean, -1),
        ("the entropy", entropy_mean, 0),
        ("the KL", kl, 0),
        ("the response length", response_length_mean, 0),
        ("the gradient norm", grad_norm, 1),
    ):
        after = moving_mean(column, rows)
        before = latest(where(restarted, previous(after), math.nan))
        usual = latest(where(restarted, previous(noise(column)), math.nan))
        jump = after - before
        size = abs(jump) if sign == 0 else sign * jump
        larger = where(abs(after) > abs(before), abs(after), abs(before))
        jumps = here & (size > sigmas * math.sqrt(2 / rows) * usual) & (size > least * larger)
        found.append((name, jumps, before, after))
    any_jump = found[0][1] | found[1][1] | found[2][1] | found[3][1] | found[4][1]
    names = tuple(name for name, *_ in found)
    values = [value for _, *of in found for value in of]
    return fires(
        any_jump,
        "When the run resumed at step {at:.0f}, {what}.",
        hold=(1, 1),
        clear=10**9,
        onset=latest(where(restarted, step, math.nan)),
        at=latest(where(restarted, step, math.nan)),
        what=words(lambda *given: _what(names, given), *values),
    )


def _what(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    triples = [values[i : i + 3] for i in range(0, len(values), 3)]
    changes = [
        f"{n} changed from {number(a)} to {number(b)}" for n, (jumps, a, b) in zip(names, triples, strict=True) if jumps
    ]
    return ", and ".join(changes)
