from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

FLOOR = "-0.1x16"
RISE = " ".join(str(round(0.02 + 0.045 * i, 3)) for i in range(16))


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("LEN003", truncated_rate="0.1x8") is None
    assert run_check("LEN003", truncated_rate="0x3 1x2 0x6") is None
    assert run_check("LEN003", truncated_rate="0.125 0 0.125 0 0.125 0 0.125 0") is None  # one response of eight
    assert run_check("LEN003", truncated_rate="0x3 0.2x2 0x3") is None
    assert run_check("LEN003", truncated_rate="0x7 0.33x3") is None
    found = run_check("LEN003", truncated_rate="0x7 0.34x3 0x3")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 8, 10)
    assert found.message == "10% of the responses are truncated at the length limit."


def test_more_than_half_on_each_row_so_far_is_not_chance() -> None:
    found = run_check("LEN003", truncated_rate="0.51")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 1, 1)
    assert run_check("LEN003", truncated_rate="0.5") is None
    assert run_check("LEN003", truncated_rate="0.4 0.9") is None


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"eos_rate": "0x16", "reward_mean": FLOOR}, "error"),
        ({"truncated_rate": "0.51x16", "reward_mean": FLOOR}, "warning"),  # an error takes 60 steps
        ({"truncated_rate": "0.5x16", "reward_mean": FLOOR}, "info"),
        ({"truncated_rate": "0.5x16"}, "warning"),  # what it costs is not known
        ({"truncated_rate": "1x16"}, "warning"),
        ({"truncated_rate": "1x16", "reward_mean": "0.9x16"}, "warning"),
        ({"truncated_rate": "1x16", "reward_mean": RISE}, "warning"),
        ({"truncated_rate": "0.05x16", "reward_mean": FLOOR}, None),
    ],
)
def test_levels(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("LEN003", **columns)
    assert (found.severity if found else None) == expected


NOISY = "0.3 0.32 0.29 0.31 0.3 0.33 0.28 0.3 0.31 0.29 0.3 0.32 0.29 0.31 0.3 0.33 0.28 0.3 0.31"
"""Nineteen rewards that do not move."""


@pytest.mark.parametrize(
    ("cut", "reward", "expected"),
    [
        ("1x19", NOISY, "warning"),  # a run may begin so and learn
        ("1x20", f"{NOISY} 0.29", "error"),
        ("0.5x20", f"{NOISY} 0.29", "info"),
        ("1x10 0.5x5 1x5", f"{NOISY} 0.29", "warning"),
        ("1x20", "0.78 0.82 " * 10, "warning"),  # near its top
        ("0x20 0.6x14", "0.6 0.62 " * 10 + "0x14", "error"),
        ("0x20 0.4x14", "0.6 0.62 " * 10 + "0x14", "warning"),
    ],
)
def test_an_error_takes_a_run_that_was_tried_or_has_fallen(cut: str, reward: str, expected: str) -> None:
    tried = {"outcome_share": 0.75, "early_steps": 20}
    found = run_check("LEN003", thresholds=tried, truncated_rate=cut, reward_mean=reward)
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize(
    ("reward", "expected"), [("0.5 0.75 0.25", "error"), ("0.5 0.75 0.5", "warning"), ("0.5 0.25 0.5", "error")]
)
def test_few_rewards_above_the_first_may_be_a_gain(reward: str, expected: str) -> None:
    found = run_check("LEN003", thresholds={"early_steps": 3, "rows": 3}, truncated_rate="1x3", reward_mean=reward)
    assert (found.severity if found else None) == expected


def test_truncation_at_the_start_that_recovers_clears() -> None:
    falling = " ".join(str(round(0.7 - 0.05 * i, 2)) for i in range(14))
    found = run_check("LEN003", truncated_rate=f"{falling} 0.05x8", reward_mean="0.3x22")
    assert found is not None
    assert (found.severity, found.cleared) == ("warning", True)


@pytest.mark.parametrize(
    ("thresholds", "columns", "severity"),
    [
        ({"warn": 0.125}, {"truncated_rate": "0.125x16"}, None),
        ({"warn": 0.25}, {"truncated_rate": "0.25x3 1x2 0x3"}, None),
        ({"warn": 0.25}, {"truncated_rate": "0x2 0.375x2 0.5 0x5"}, None),
        ({}, {"truncated_rate": "0.5 0.8 0.8 0.6 0.3 0.4 0.8 0.4 0.4 0.3", "reward_mean": "0.3x10"}, "warning"),
    ],
)
def test_exactly_at_a_threshold(thresholds: dict[str, float], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("LEN003", thresholds=thresholds, **columns)
    assert (found.severity if found else None) == severity


def test_the_onset_is_above_the_limit() -> None:
    found = run_check("LEN003", thresholds={"warn": 0.25}, truncated_rate="0x3 0.25x2 1x8")
    assert found is not None
    assert found.onset_step == 6


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"response_length_mean": "256x9 255"}, None),
        ({"response_length_mean": "256x14"}, "warning"),  # the mean equals its own maximum, so that is the limit
        ({"response_length_mean": "16x20"}, None),  # answers of one form
        ({"response_length_mean": "196 193 198 197x13", "response_length_max": "200x16"}, "warning"),
        ({"response_length_mean": "196 193 198 197x13", "response_length_max": "200 201 " * 8}, None),
        ({"response_length_mean": "256x14", "response_length_max": "512x14"}, None),
        ({"response_length_mean": "256x14", "truncated_rate": "0x14"}, None),
        ({"response_length_mean": "256x30", "reward_mean": "0x30"}, "error"),
        ({"response_length_mean": "125x14"}, None),  # a fixed length: not a usual limit, and on all rows
        ({"response_length_mean": "124 125x14"}, "warning"),
        ({"response_length_mean": "120x14"}, "warning"),
        ({"response_length_mean": "130x14"}, "warning"),
    ],
)
def test_a_mean_that_stays_at_its_maximum_is_the_limit(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("LEN003", **columns)
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize(
    ("lengths", "severity"),
    [
        ("250.5 256 250.5 256 250.5 256 250.5x8", "warning"),
        ("250.5 256 250.5 256 250.5x10", None),  # twice may be chance
        ("250.5 255 250.5 255 250.5 256 250.5x8", None),  # a longer one says that the others were not at the limit
        ("250.5 256.5 250.5 256.5 250.5 256.5 250.5x8", None),  # no limit is half a token
        ("244.5 250 244.5 250 244.5 250 244.5x8", "warning"),
        ("250.5 255 250.5 255 250.5 255 250.5x8", None),  # an unusual limit: answers have converged to one form
        ("250 256 250 256 250 256 250x8", None),  # rounded to whole tokens: the longest comes again by chance
        ("250.5 256 250.5 256 250.5 256 nan 250.5x8", "warning"),
        ("250.5 256 250.5 256 250.5 256 240.5x20", None),  # 94% of it: any number of them may be cut
    ],
)
def test_the_longest_mean_that_comes_again_and_again_is_the_limit(lengths: str, severity: str | None) -> None:
    found = run_check("LEN003", response_length_mean=lengths)
    assert (found.severity if found and not found.cleared else None) == severity


def test_cut_responses_of_a_task_that_was_solved_are_a_remark() -> None:
    solved = run_check("LEN003", truncated_rate="0x20 1x20", reward_mean="0.1x5 0.4x5 0.8x5 1x25", reward_max="1x40")
    assert solved is not None
    assert solved.severity == "info"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"response_length_mean": "196 193 198 197x13"}, "warning"),  # 98% of the limit: nearly all are cut
        ({"response_length_mean": "196 193 198 197x28", "reward_mean": "0.1x31"}, "error"),
        ({"response_length_mean": "200x3"}, "warning"),
        ({"response_length_mean": "201x3"}, None),
        ({"response_length_mean": "80 200x11"}, None),  # the tenth row shows that few were truncated before
        ({"response_length_mean": "80 200x12"}, "warning"),
        ({"response_length_mean": "180x9 185 188 176x13"}, None),  # 92% of it: any number of them may be
        ({"response_length_mean": "230 231 229 235 230 231 233 230 231 229 230 232"}, None),  # it is not the limit
        ({"response_length_mean": "197 196x15", "truncated_rate": "0.05x16"}, None),
        ({"response_length_mean": "100 104 101 99x2 102 101 105 198x5"}, None),
    ],
)
def test_a_mean_length_near_the_declared_limit(columns: dict[str, Any], expected: str | None) -> None:
    found = run_check("LEN003", {"max_new_tokens": 200}, **columns)
    assert (found.severity if found else None) == expected


def test_the_message_states_that_the_share_is_estimated_from_the_length() -> None:
    found = run_check("LEN003", {"max_new_tokens": 200}, response_length_mean="196x16")
    assert found is not None
    assert found.message == (
        "96% of the responses are truncated at the length limit (estimated from the mean length of 196 tokens)."
    )


@pytest.mark.parametrize(
    ("answer", "severity"),
    [("0x60", "error"), ("0.1x20 0.3x10 0.5x30", "warning")],
)
def test_form_alone_is_not_a_gain_where_all_are_cut(answer: str, severity: str) -> None:
    right = [float(w) for word in answer.split() for w in [word.split("x")[0]] * int(word.split("x")[1])]
    form = [0.1] * 20 + [0.3] * 40
    parts = [{"format_reward": f, "correctness": a} for f, a in zip(form, right, strict=True)]
    total = [f + a for f, a in zip(form, right, strict=True)]
    found = run_check("LEN003", truncated_rate="1x60", reward_mean=total, reward_components=parts)
    assert found is not None
    assert found.severity == severity


@pytest.mark.parametrize(("spread", "severity"), [(0.51, "error"), (0.5, "warning")])
def test_a_small_gain_of_the_sum_is_not_proof_if_all_are_truncated(spread: float, severity: str) -> None:
    found = run_check("LEN003", truncated_rate="1x60", reward_mean="0.25x20 0.5x40", reward_std=[spread] * 60)
    assert found is not None
    assert found.severity == severity


def test_a_share_estimated_from_the_length_is_milder_with_any_gain() -> None:
    columns: dict[str, Any] = {"reward_mean": "0.25x20 0.5x40", "reward_std": "0.51x60"}
    assert find("LEN003", **columns, truncated_rate="1x60").severity == "error"
    found = run_check("LEN003", {"max_new_tokens": 200}, **columns, response_length_mean="197 196x59")
    assert found is not None
    assert found.severity == "info"


def test_a_few_rows_with_many_cut_responses_are_a_remark_in_a_run_that_learns() -> None:
    """Each row may be one prompt."""
    rising = [0.2 + 0.01 * n for n in range(40)]
    found = find("LEN003", truncated_rate="0.1x35 0.8x5", reward_mean=rising)
    message = "45% of the responses are truncated at the length limit (19% over the whole run)."
    assert (found.severity, found.message) == ("info", message)


def test_truncation_weighs_by_what_it_costs() -> None:
    rising = [0.2 + 0.01 * n for n in range(40)]
    assert find("LEN003", truncated_rate=[0.0] * 12 + [0.7] * 28, reward_mean=rising).severity == "info"
    assert find("LEN003", truncated_rate=[0.82] * 40, reward_mean=rising).severity == "warning"  # all along
    assert find("LEN003", truncated_rate=[0.0] * 12 + [0.51] * 28, reward_mean="0.3 0.31 " * 20).severity == "warning"
    assert find("LEN003", truncated_rate=[0.0] * 12 + [0.5] * 28, reward_mean="0.3 0.31 " * 20).severity == "info"


@pytest.mark.parametrize(("piled", "severity"), [(10, None), (14, "warning")])
def test_a_mean_length_that_piles_up_at_its_maximum_is_the_limit(piled: int, severity: str | None) -> None:
    lengths = [1700.5, 1499.5] * 10 + [1846.0, 1701.5] * (piled - 4) + [1846.0] * 4
    found = run_check("LEN003", response_length_mean=lengths, reward_mean="0.3 0.31 " * (len(lengths) // 2))
    assert (found.severity if found else None) == severity


def test_nothing_is_cut_where_the_longest_response_is_below_the_limit() -> None:
    columns: dict[str, Any] = {"truncated_rate": "0.5x16", "response_length_mean": "400x16"}
    assert find("LEN003", {"max_new_tokens": 640}, **columns, response_length_max="648x16")
    assert run_check("LEN003", {"max_new_tokens": 1024}, **columns, response_length_max="648x16") is None


@pytest.mark.parametrize(
    ("limit", "lengths", "severity"),
    [(16, "16x20", None), (17, "17x20", "warning"), (200, "100 200 " * 8, "warning"), (200, "99 200 " * 8, None)],
)
def test_exactly_at_a_threshold_of_the_length(limit: int, lengths: str, severity: str | None) -> None:
    share = {"limit_share": 0.75}
    found = run_check("LEN003", {"max_new_tokens": limit}, response_length_mean=lengths, thresholds=share)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("cut", "kind"),
    [
        ("1x10 0.75x10", "risk"),  # lately
        ("1x10 0.76x10", "outcome"),
        ("0.5x5 1x5", "risk"),  # over the run
        ("0.5x5 1x6", "outcome"),
    ],
)
def test_is_an_outcome_over_recent_rows_or_the_whole_run(cut: str, kind: str) -> None:
    assert find("LEN003", truncated_rate=cut, thresholds={"outcome_share": 0.75}).kind == kind


def test_the_last_five_known_shares_count() -> None:
    found = find("LEN003", truncated_rate="0.4x3 ?x3 0x2", response_length_mean="100x8")
    assert found.last_step == 7  # the fifth share is known on the eighth row


@pytest.mark.parametrize(
    ("mean", "longest", "fires"),
    [
        ("4096", "4096", False),  # a row alone
        ("4096x2", "4096x2", True),
        ("4095.9x2", "4096x2", False),  # one response is shorter
        ("4095 4096", "4095 4096", False),  # no limit moves
        ("16x2", "16x2", False),  # answers of one form
        ("32x2", "32x2", True),
        ("33x2", "33x2", False),  # a fixed length
        ("4096x2", None, False),
    ],
)
def test_two_rows_whose_mean_is_the_longest_are_cut(mean: str, longest: str | None, fires: bool) -> None:
    columns: dict[str, Any] = {"response_length_mean": mean} | ({"response_length_max": longest} if longest else {})
    found = run_check("LEN003", **columns)
    assert (found is not None) is fires
    if found is not None and longest == "4096x2":
        assert found.message == (
            "100% of the responses are truncated at the length limit (estimated from the mean length of 4096 tokens)."
        )


def test_rows_without_a_reward_are_none_of_0() -> None:
    rising = " ".join(f"{0.1 + 0.01 * row:.2f}" if row % 5 == 0 else "?" for row in range(30))
    found = run_check("LEN003", truncated_rate="0.95x30", reward_mean=rising)
    assert found is not None
    assert found.severity == "warning"


@pytest.mark.parametrize(("early", "severity"), [(0.65, "warning"), (0.55, "info")])
def test_more_than_half_over_the_whole_run_is_a_warning(early: float, severity: str) -> None:
    """The recent share is 0.4: batches of two responses vary from row to row."""
    found = find("LEN003", truncated_rate=[early] * 30 + [0.4] * 30, reward_mean=[0.3, 0.4] * 30)
    assert (found.severity, found.cleared) == (severity, False)


@pytest.mark.parametrize(("first", "fires"), [(32.0, True), (31.0, False)])
def test_identical_lengths_are_not_an_estimate(first: float, fires: bool) -> None:
    """A gain suppresses the finding for an estimated share, but not for a logged one."""
    length, reward = [first] * 3 + [32.0] * 77, [0.3 + 0.004 * n for n in range(80)]
    found = find("LEN003", response_length_mean=length, max_new_tokens=[32.0] * 80, reward_mean=reward)
    assert (found.severity == "warning" and not found.cleared) is fires


@pytest.mark.parametrize(("spread", "severity"), [(1e-3, "warning"), (8e-4, "error")])
def test_a_high_reward_is_no_excuse_if_all_responses_get_it(spread: float, severity: str) -> None:
    found = find("LEN003", truncated_rate="1x80", reward_mean="0.89 0.87 0.88 0.89x77", reward_std=[spread] * 80)
    assert found.severity == severity


@pytest.mark.parametrize(("settings", "severity"), [({}, "warning"), ({"max_new_tokens": 32}, "error")])
def test_equal_lengths_without_a_declared_limit_do_not_fail_a_run(settings: dict[str, Any], severity: str) -> None:
    found = find("LEN003", settings, response_length_mean="32x70", reward_mean="0.47 0.5 0.48 0.52 0.46 " * 14)
    assert found.severity == severity
