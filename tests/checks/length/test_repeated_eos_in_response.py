from grpo_doctor.testing import run_check


def test_boundary_and_message() -> None:
    assert run_check("LEN006", eot_per_response="1.05x6") is None
    assert run_check("LEN006", eot_per_response="1x3 2x2 1x3") is None
    found = run_check("LEN006", eot_per_response="1x3 2.5x3")
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 4, 6)
    assert found.message == "Responses contain 2.5 end-of-turn tokens on average instead of one."


def test_one_end_or_none_is_healthy() -> None:
    assert run_check("LEN006", eot_per_response="1x3 0.9x3 0x3") is None
