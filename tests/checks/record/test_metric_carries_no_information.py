from grpo_doctor.testing import find, run_check


def test_ten_equal_values_from_the_start() -> None:
    assert run_check("REC001", advantage_mean="0x9") is None
    found = find("REC001", advantage_mean="0x10", eos_suppressed_rate="1x10", top1_prob="0 0.1 0.0x8")
    assert found.severity == "info"
    assert (
        found.message
        == "These metrics are constant in all 10 rows and provide no information: eos_suppressed_rate, advantage_mean."
    )


def test_a_metric_that_moved_is_not_flagged() -> None:
    assert run_check("REC001", advantage_mean="0 0.001 0x30", top1_prob="0.6 0.7x31") is None
