import pytest

from grpo_doctor.testing import run_check


def test_message() -> None:
    found = run_check("ADV008", {"group_size": 2, "advantage_clip": 3.0}, loss="0")
    assert found is not None
    assert found.message == "Advantages are clipped at 3, but groups of 2 never exceed 1."


@pytest.mark.parametrize(
    ("settings", "fires"),
    [
        ({"group_size": 10, "adv_clip": 3.0}, True),  # sqrt(9)
        ({"group_size": 11, "adv_clip": 3.0}, False),
        ({"group_size": 11, "adv_clip": 3.02, "advantage_ddof": 1}, True),
        ({"group_size": 11, "adv_clip": 3.01, "advantage_ddof": 1}, False),
        ({"group_size": 2}, False),
    ],
)
def test_boundary(settings: dict[str, float], fires: bool) -> None:
    assert (run_check("ADV008", settings, loss="0") is not None) is fires
