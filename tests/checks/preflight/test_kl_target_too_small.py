import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG065", {"group_size": 8, "kl_target": 1e-4}, loss="0")
    assert found.severity == "warning"
    assert found.message == "The KL target (0.0001) is below the KL of a single update."


@pytest.mark.parametrize(("target", "told"), [(9e-4, True), (1e-3, False), (0.0, False), (6.0, False)])
def test_boundary(target: float, told: bool) -> None:
    assert (run_check("CFG065", {"group_size": 8, "kl_target": target}, loss="0") is not None) is told
