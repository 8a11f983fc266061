import math
from typing import NamedTuple

import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import (
    Column,
    Trend,
    baseline,
    began,
    best,
    fmax,
    fold,
    isnan,
    kendall_tau,
    lowest,
    moving_max,
    moving_min,
    moving_sum,
    recent_mean,
    total,
    where,
    words,
)
from grpo_doctor.series import solved as is_solved

MET, SET_BY = 3, (32, 50)
"""Number of rows on which the longest mean length must recur to count as the limit, because two rows may be chance, and
the numbers of which usual limits are multiples. The length of an answer in a fixed format is a multiple by chance in
one case of twenty."""
ROUND = (8, 10)
"""Numbers of which the one length of all responses must be a multiple to count as the limit if none is declared."""
PILE, PILED = 10, 0.1
"""Number of rows, and share of all rows, on which the longest mean length must recur to count as the limit, whatever
its value, because only truncation makes a length recur so often."""


@check(
    "LEN003",
    vital=True,
    severity="warning",
    confidence="medium",
    explains=("ADV003", "STL001", "STL004", "REW001", "REW009", "REW011", "REW015", "DIV004"),
    explains_from="error",
    invalidates=("rewards of truncated responses: they were scored without their answer",),
)
def truncation_excess(
    step: Column,
    known: Column = any_of("cut_share", "response_length_mean"),
    cut_share: Column = None,
    reward_mean: Column = None,
    reward_std: Column = None,
    reward_max: Column = None,
    reward_trend: Trend = None,
    meant_trend: Trend = None,
    response_length_mean: Column = None,
    response_length_max: Column = None,
    max_new_tokens: Column = None,
    *,
    warn: float = 0.1,
    bad: float = 0.5,
    rows: int = 10,
    short_tokens: float = 16,
    limit_share: float = 0.95,
    outcome_share: float = 0.8,
    nearly: float = 0.8,
    early_steps: int = 60,
    gain_deviations: float = 0.5,
    equal: float = 1e-3,
) -> Fires:
    """Too many responses are truncated at the length limit.

    ## What it sees
    The check uses the share of truncated responses. Severity is **warning** if more than 10% of the responses in the
    last 10 rows are truncated. The share must also exceed 10% on at least three of the last five rows. A single
    truncated response in a batch of eight may be chance. Severity is also warning if more than half of the responses
    are truncated on every row so far.

    Severity is **error** in two cases:

    - After 10 steps, severity is error if the reward has fallen and more than half of the responses in the last 10 rows
      are truncated. Severity is also error if the reward is constant and more than 80% of the responses are truncated.
    - After 60 steps, severity is error if the reward has not improved and the truncated share is above 80%, both in the
      last 10 rows and over the whole run. The error after 60 steps also requires a logged share of truncated responses,
      or a declared limit with equal mean lengths on all rows.

    Severity is not error if the reward has improved. Nor is it error if the reward is at least 80% of its maximum and
    rewards differ within a batch. Severity is also not error if truncation is falling (Kendall's tau of the share over
    10 rows is below -0.4). If a logged share shows that more than 80% of the responses are truncated, a gain counts
    only if it exceeds what formatting explains. If the reward has components other than formatting, these components
    must have improved. If only the total reward is known, it must have gained at least half a standard deviation of
    single rewards. If no spread is recorded, the reward must have gained 0.25 on a scale of 0 to 1, or any detectable
    amount on another scale.

    Severity is **info** if truncation has no visible cost, because the reward has improved. Severity is also info if
    the reward has not fallen and the truncated share is at most one half, both in the last 10 rows and over the whole
    run. If a logged share shows that more than 80% of the responses are truncated throughout the run, severity is info
    only for a solved task. Many runs that learn start with half of their responses truncated. STL001 reports a reward
    that stays flat.

    If the share of truncated responses is not logged, the check estimates it from the mean length over 10 rows. If the
    mean length is a fraction r of the limit, and r is at least 0.95, the estimated share is 2r - 1. The limit is the
    declared limit, a constant maximum length, or the longest mean length. The longest mean length counts as the limit
    only if it is a multiple of 32 or 50 and has occurred at least three times. In addition, the mean lengths of other
    rows must be fractional. The longest mean length also counts as the limit if it has occurred on at least ten rows
    and on at least a tenth of all rows. In that case, each row with exactly this mean length counts as fully truncated.
    A mean length above 16 tokens also counts as the limit if it has stayed exactly at its maximum for 10 rows. Two rows
    are enough if the longest recorded response equals the mean length on both rows. If no limit is
    declared, one length on all rows counts as the limit only if it is a multiple of 8 or 10; otherwise, the length is
    fixed. A logged share counts as 0 if even the longest response is below 95% of the declared limit.

    The finding clears once the share over the last 10 rows is at most 10%, so the end of the run counts, not the start.

    ## Thresholds
    - `warn`: share of truncated responses, 0 to 1, above which the severity is warning.
    - `bad`: share of truncated responses, 0 to 1, above which the severity is error if the reward has fallen.
    - `rows`: number of rows over which the share is averaged, and after which a constant mean length
      counts as the limit.
    - `short_tokens`: number of tokens that a constant mean length must exceed to count as the limit.
    - `limit_share`: minimum mean length, as a share of the limit, at which nearly all responses are truncated.
    - `outcome_share`: share of truncated responses (0 to 1), in the last rows and over the whole run, above which a
      missing gain is an error.
    - `nearly`: minimum reward, as a share of 1 or of the largest single reward, at which the severity is not error.
    - `early_steps`: number of steps before which a missing gain is not judged.
    - `equal`: maximum standard deviation of single rewards, as a share of their mean, at which rewards count as equal.
    - `gain_deviations`: gain, in standard deviations of single rewards, that formatting alone does not explain (Cohen's
      medium effect).

    ## Why it matters
    A truncated response has no answer. If truncated responses are scored as wrong, groups get equal rewards. If the
    partial text is scored, the policy learns to write responses that are truncated.

    ## Example
    ```text
    truncated_rate: 0.6x16
    reward_mean: 0.3x16
    ```
    Warning at step 1: 60% of the responses are truncated at the length limit.

    ```text
    truncated_rate: 0.1x16
    reward_mean: 0.3x16
    ```
    No finding.

    ## Known false alarms
    Some runs start with 70% of the responses truncated and recover. Some runs keep a reward of 0.9 although every
    response is truncated, so severity is only warning at such a reward. Some frameworks check only one of several
    limits, and therefore log a share of 0 although responses are truncated. Other frameworks count responses as
    truncated if they end with EOS exactly at the limit. Masking truncated responses is disputed: Skywork-OR1 found
    training without masking to be better. Masking leaves a group without a gradient if all responses of the group are
    truncated.

    ## Remedy
    Raise the limit to the 95th percentile of the lengths of supervised answers. Give truncated responses no reward. Add
    a soft penalty shortly before the limit. If no response ever ends with EOS, fix the set of EOS tokens first.

    ## Sources
    arXiv 2503.14476 (AIME24 rises from 30 to 36 with the overlong filter, and from 38 to 41 with the soft penalty);
    public runs of kartikmunjal/rlhf-and-reward-modelling-alt (every response at 64 tokens); trl PR#5759, verl#7823,
    ms-swift#4950.
    """
    lengths = response_length_mean, response_length_max, max_new_tokens
    share = _share(cut_share, *lengths, rows, short_tokens, limit_share)
    n, lately = total(share == share), _level(share, rows)
    so_far = total(share) / n
    often = (lately > warn) & _repeated(share, warn, bad)
    suffered = (lately > outcome_share) & (so_far > outcome_share)
    paid = reward_trend.gained & ~reward_trend.fallen
    scored = reward_mean == reward_mean
    costs = where(scored, (fmax(lately, so_far) > bad) | reward_trend.fallen, True)
    spread = _spread(reward_std, reward_trend.unit)
    unlogged = isnan(cut_share)
    guessed = unlogged & (lowest(share) < 1)  # identical lengths leave no room for a guess
    unsure = unlogged & isnan(max_new_tokens)  # identical lengths may be fixed by a setting
    softened = _beyond_form(reward_trend, meant_trend, gain_deviations * spread) | ~suffered | guessed
    near = is_solved(reward_mean, reward_max, reward_trend.unit, rows, nearly) & ~(spread <= equal * abs(reward_mean))
    lasted = step - baseline(step, 1)
    stays = ~(kendall_tau(share, rows) < -0.4) & (lasted >= rows - 1)
    one_value = best(reward_mean) <= lowest(reward_mean)
    tried = (lasted >= early_steps - 1) & suffered & ~_rises_early(reward_mean, reward_trend) & ~(guessed | unsure)
    hurt = (reward_trend.fallen & (lately > bad)) | ((one_value | tried) & (lately > outcome_share))
    return fires(
        often & costs & ~(paid & ~suffered) & ~(reward_trend.gained & reward_trend.solved) & ~(paid & guessed),
        "{cut:.0%} of the responses are truncated at the length limit{detail}.",
        info=often,
        error=hurt & often & scored & ~((paid & softened) | reward_trend.solved | near) & stays,
        hold=(1, 1),
        suffered=suffered,
        onset=where(total(share > warn) == n, baseline(step, 1), began(often, share > warn, step)),
        detail=words(_detail, where(unlogged, _level(response_length_mean, rows), np.nan), so_far, lately, n),
        cut=lately,
    )


def _level(x: Column, rows: int) -> Column:
    """Return the mean of the last known values, or of all values if there are fewer."""
    known = total(x == x)
    return fmax(recent_mean(x, rows), where(known < rows, total(x) / known, np.nan))


def _share(
    logged: Column, mean: Column, longest: Column, limit: Column, rows: int, short: float, full: float
) -> Column:
    """Return the share of truncated responses: as logged, but 0 if no response is near the limit, or else estimated."""
    fixed = isnan(limit) & (best(mean) == lowest(mean)) & (mean % ROUND[0] != 0) & (mean % ROUND[1] != 0)
    estimated = where(fixed, np.nan, _by_length(mean, longest, limit, rows, short, full))
    return where(isnan(logged), estimated, where(longest < full * limit, 0.0, logged))


def _spread(reward_std: Column, unit: Column) -> Column:
    """Return the mean standard deviation of single rewards, or the largest possible one on a scale of 0 to 1."""
    spread = total(reward_std) / total(reward_std == reward_std)
    return where(isnan(spread), where(unit, 0.5, np.nan), spread)


def _beyond_form(trend: Trend, meant: Trend, least: Column) -> Column:
    """Return whether correctness has improved or, without components, the reward by more than formatting explains."""
    return where(isnan(meant.shown), isnan(least) | (trend.gain >= least), meant.gained)


def _repeated(share: Column, warn: float, bad: float) -> Column:
    """Return whether the share was above ``warn`` on three of the last five rows, or above ``bad`` on all rows."""
    n = total(share == share)
    thrice = where(n < 5, total(share > warn), moving_sum(share > warn, 5)) >= 3
    return thrice | (total(share > bad) >= n)


def _rises_early(reward: Column, trend: Trend) -> Column:
    """Return whether the reward is above its first value, while its noise cannot be estimated."""
    return isnan(trend.shown) & (total(reward) / total(reward == reward) > baseline(reward, 1))


def _by_length(mean: Column, longest: Column, limit: Column, rows: int, short: float, full: float) -> Column:
    """Return the share of truncated responses, estimated from the mean length: NaN if unknown, 0 if the length is
    short.

    If the lengths of other responses are spread evenly below the limit, a mean of ``r`` times the limit implies a share
    of 2r - 1.
    """
    stands = moving_min(mean, rows) == moving_max(mean, rows)
    limit = fmax(limit, where(moving_min(longest, rows) == moving_max(longest, rows), longest, np.nan))
    met = fold(_met, _Met, mean)
    limit, piled = fmax(limit, abs(met)), -met
    filled = where(limit > short, _level(mean, rows) / limit, np.nan)
    n = total(mean == mean)
    alike = (n > 1) & (total(mean >= longest) == n) & (best(mean) == lowest(mean)) & (mean > short)
    longest = where(isnan(longest), best(mean), longest)
    at_own_top = stands & (mean >= longest) & (longest > short)
    none = where((n < rows) & isnan(filled), np.nan, where(mean == piled, 1.0, 0.0))
    return where((filled >= full) & (filled <= 1), 2 * filled - 1, where(at_own_top | alike, 1.0, none))


class _Met(NamedTuple):
    """The longest mean length so far, the number of rows with exactly that mean, and the number of rows whose mean has
    decimals."""

    longest: float = 0.0
    times: int = 0
    broken: int = 0
    rows: int = 0


def _met(state: _Met, mean: float) -> tuple[_Met, float]:
    """Return the limit, or NaN if it is unknown. The limit is the longest mean length if it is a usual limit and has
    recurred. The limit is negative if it has been reached so often that each row at exactly this length counts as
    truncated.

    If other means have decimals, only responses of equal length have a whole mean so often. A policy that has settled
    on one format of answer is unlikely to have exactly a usual limit as its length.
    """
    mean = float(mean)
    if mean == mean:
        longest = max(state.longest, mean)
        times = state.times if longest == state.longest else 0
        state = _Met(longest, times + (mean == longest), state.broken + (mean % 1 != 0), state.rows + 1)
    round_number = state.times >= MET and any(state.longest % each == 0 for each in SET_BY)
    piled = state.times >= max(PILE, PILED * state.rows)
    limit = -state.longest if piled else state.longest
    return state, limit if (round_number or piled) and state.broken else math.nan


def _detail(length: float, whole_run: float, lately: float, rows: float) -> str:
    """Return how the share is estimated, or the share of the whole run if the last rows differ from it."""
    if length == length:
        return f" (estimated from the mean length of {number(length, 4)} tokens)"
    return f" ({whole_run:.0%} over the whole run)" if rows > 10 and abs(whole_run - lately) > 0.05 else ""
