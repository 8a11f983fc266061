import math

from grpo_doctor.testing import find, run_check


def rewards(
    correct: float, form: float, until: int = 60, form_until: int = 60
) -> tuple[list[float], list[dict[str, float]]]:
    parts = [
        {
            "correctness": 0.1 + correct * min(n / until, 1.0) + 0.003 * math.sin(n * 2.4),
            "format": 0.1 + form * min(n / form_until, 1.0) + 0.003 * math.sin(n * 1.7),
        }
        for n in range(200)
    ]
    return [sum(row.values()) for row in parts], parts


def test_a_gain_that_is_mostly_form_is_a_remark() -> None:
    reward, parts = rewards(0.1, 0.5)
    found = find("REW018", reward_mean=reward, reward_components=parts)
    assert (found.severity, found.kind) == ("info", "remark")
    assert found.message == (
        "The reward rose from 0.255 to 0.8, mostly through formatting: the other components rose from 0.109 to 0.2."
    )


def test_a_gain_of_which_half_is_correctness_is_silent() -> None:
    reward, parts = rewards(0.35, 0.25)
    assert run_check("REW018", reward_mean=reward, reward_components=parts) is None


def test_form_that_raises_the_reward_after_correctness_has_stopped_is_a_remark() -> None:
    reward, parts = rewards(0.5, 0.3, until=40, form_until=180)
    found = find("REW018", reward_mean=reward, reward_components=parts)
    assert found.message.startswith("Only formatting raised the reward from step ")
    assert 40 <= found.onset_step <= 70
