import math
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import counted, listed
from grpo_doctor.series import Column, began, best, each, isnan, latest, moving_mean, previous, row, total, where, words


@check(
    "GRD001",
    vital=True,
    kind="outcome",
    severity="critical",
    confidence="high",
    explains=(
        *("REW009", "REW015", "DIV004", "GRD005", "LEN002", "LEN003", "LEN001"),
        *("STL001", "SUP001", "PRF001", "PRF002"),
    ),
    run_types=("rl", "supervised", "preference"),
    invalidates=("checkpoints since step {onset}: their weights may contain NaN",),
)
def nan_or_inf(
    events: Column,
    step: Column,
    loss: Column = None,
    grad_norm: Column = None,
    kl_coef: Column = None,
    reward_std: Column = None,
    *,
    isolated: int = 2,
    refused_share: float = 0.5,
    rows: int = 10,
) -> Fires:
    """A loss, gradient, KL, entropy or reward is NaN or infinite.

    ## What it sees
    The check looks for NaN or infinite values in the core metrics. The core metrics are loss (also of the critic),
    gradient norm, KL, entropy, reward, ratios, advantages, and the margin of preference pairs. Severity is critical for
    the first NaN. Severity is warning for the first two infinite gradients, and error from the third.

    Severity is **info** for a NaN KL, entropy or margin that does not enter the loss. A NaN does not enter the loss if
    the gradient norm of the same row is finite and not 0. Without a gradient norm, the loss of the row is used. If
    neither is recorded, a NaN does not enter the loss if the KL coefficient is 0. Severity is also info if responses
    still get different rewards after a NaN row, because NaN weights generate only garbage. Severity is **warning** if
    the loss is NaN but the gradient norm is finite and not 0, because the NaN did not enter the update. Severity is
    critical if the loss is NaN on more than half of all rows or of the last 10 rows.

    If only the gradient norm was NaN, the severity becomes **info** as soon as the norm is finite and above 0 again.
    From the third NaN norm, the severity becomes **warning** instead. NaN weights cannot give a finite gradient, so a
    finite norm shows that the trainer skipped the update. A later NaN norm is treated in the same way, unless it lasts
    longer than the longest gap from which the run has recovered. Severity stays critical if the norm was NaN on more
    than half of the rows, because most updates were skipped.

    ## Thresholds
    - `isolated`: maximum number of infinite gradients for severity warning, and maximum number of skipped NaN gradients
      for severity info.
    - `refused_share`: share of rows with skipped updates or NaN losses, 0 to 1, above which the severity is critical.
    - `rows`: number of recent rows over which NaN losses are counted.

    ## Why it matters
    One update with a NaN gradient makes every weight NaN, and generation fails or produces only token 0. TRL logs a NaN
    loss as 0.0, so the gradient norm is the reliable signal.

    ## Example
    ```text
    loss: 0.1 0.1 NaN 0.1x3
    ```
    Critical at step 3: loss has been NaN on 1 step.

    ```text
    loss: 0.1x6
    ```
    No finding.

    ## Known false alarms
    The check ignores NaN in auxiliary metrics. An fp16 loss scaler occasionally receives an infinite gradient and skips
    the step.

    ## Remedy
    Stop the run, roll back to the last finite checkpoint, and skip optimizer steps whose gradient is not finite.

    ## Sources
    verl#721, verl#891, verl#1197, verl#498 (the critic's loss); CS336 public runs of ShibukiZero/assignment5-alignment:
    gradients infinite at steps 113 and 184, NaN at 195, reward 0 after. TRL runs with beta 0 that occasionally log `kl:
    nan` continue to learn, and so does the run of open-r1#704, which logs it on every step.
    """
    nan = each(lambda happened: float(_count(happened, "NaN") > 0), events)
    infinite = each(lambda happened: float(_count(happened, "infinite") > 0), events)
    infinite_so_far = total(infinite)
    trained = where(isnan(grad_norm), loss, grad_norm)
    watched = each(lambda happened: float(_only(happened, _WATCHED)), events)
    n = row(events)
    seldom = (total(nan) <= refused_share * n) & ~(moving_mean(where(nan > 0, 1, 0), rows) > refused_share)
    logged = each(lambda happened: float(_only(happened, _WATCHED | {"loss"})), events) > 0
    spared = logged & (grad_norm > 0) & seldom
    alive = (reward_std > 0) & (previous(total(nan)) > 0)
    aside = watched * ((trained < 0) | (trained > 0) | (isnan(grad_norm) & ((kl_coef == 0) | alive)))
    elsewhere = total((nan > 0) & ~(each(lambda happened: float(_only(happened, _GRADIENT)), events) > 0))
    refused = (elsewhere < 1) & (total(nan) <= refused_share * n)
    last = latest(where(grad_norm > 0, n, math.nan))
    longest = best(n - previous(last) - 1)
    survived = (previous(total(nan)) > 0) & refused & (n - last <= longest)
    return fires(
        (nan > 0) & ~(aside > 0) & ~spared & ~survived,
        "{what}{aside}.",
        hold=(1, 1),
        clear=1,
        onset=where(logged & (grad_norm > 0), began(nan > 0, nan > 0, step), math.nan),
        info=(nan > 0) | survived,
        warning=(infinite > 0) | (survived & (total(nan) > isolated)) | (spared & ~(aside > 0)),
        error=(infinite > 0) & (infinite_so_far > isolated),
        what=words(_what, events, total(nan), infinite_so_far),
        nan=total(nan),
        infinite=infinite_so_far,
        aside=words(_not_trained_on, (aside > 0) | spared, grad_norm, loss),
    )


_WATCHED = frozenset(("kl", "kl_k1", "kl_k3", "entropy_mean", "reward_margin", "reward_std"))
"""Metrics that may be part of the loss or only logged; the margin of a batch without rejected responses is 0 / 0,
and so is the standard deviation over one response."""
_GRADIENT = frozenset(("grad_norm",))


def _not_trained_on(aside: bool, grad_norm: float, loss: float) -> str:
    finite = "gradient" if grad_norm == grad_norm else "loss" if loss == loss else ""
    return f". The {finite} is finite, so the non-finite value is logged but not trained on" if aside and finite else ""


def _only(events: Any, metrics: frozenset[str]) -> bool:
    """Return whether metrics of this row are not finite, and all these metrics are in the set."""
    strange = [e.message.split(" is ")[0] for e in events or () if e.kind == "nan"]
    return bool(strange) and metrics.issuperset(strange)


def _what(events: Any, nan: float, infinite: float) -> str:
    metrics = sorted(e.message.split(" is ")[0] for e in events or () if e.kind == "nan")
    kinds = {"NaN": int(nan), "infinite": int(infinite)}
    when = listed([f"{kind} on {counted(steps, 'step')}" for kind, steps in kinds.items() if steps])
    if not metrics:
        return f"Metrics were {when}, but the gradient norm has recovered"
    return f"{listed(metrics)} {'has' if len(metrics) == 1 else 'have'} been {when}"


def _count(events: Any, what: str) -> int:
    return sum(event.kind == "nan" and event.message.endswith(what) for event in events or ())
