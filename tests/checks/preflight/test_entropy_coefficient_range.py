import pytest

from grpo_doctor.testing import run_check


@pytest.mark.parametrize(
    ("coef", "expected"),
    [(0.0, None), (0.02, None), (0.021, "warning"), (0.1, "warning"), (0.11, "error"), (6.0, "error")],
)
def test_limits(coef: float, expected: str | None) -> None:
    found = run_check("ENT008", {"entropy_coef": coef}, loss="0x3")
    assert (found.severity if found else None) == expected


def test_message_names_the_probe() -> None:
    found = run_check("ENT008", entropy_coef="6x1")
    assert found is not None
    assert found.message == (
        "The entropy coefficient is 6, 600 times the usual 0.01. Check the sign of the entropy term with a probe: "
        "a flipped sign lowers entropy."
    )
