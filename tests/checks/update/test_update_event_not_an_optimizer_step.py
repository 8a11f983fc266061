from grpo_doctor.testing import find, run_check


def test_three_of_five_updates_change_nothing() -> None:
    assert run_check("UPD002", update_applied="1x5", weight_delta="0.1 0 0.1 0 0.1") is None
    found = find("UPD002", update_applied="1x5", weight_delta="0.1 0 0.1 0 0")
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 2, 5)
    assert found.message == "Steps logged as updates do not change the weights (change at step 5: 0)."


def test_the_optimizer_counter_shows_an_empty_update() -> None:
    assert find("UPD002", update_applied="1x5", optimizer_step="1 1 1 1 1").onset_step == 2


def test_zeros_with_a_valid_reason_are_silent() -> None:
    assert run_check("UPD002", update_applied="1x8", weight_delta="0x8", learning_rate="0x8") is None
    assert run_check("UPD002", update_applied="1x8", weight_delta="0x8", grad_norm="0x8") is None
    assert run_check("UPD002", update_applied="0x8", weight_delta="0x8") is None
    assert run_check("UPD002", update_applied="1x8") is None
