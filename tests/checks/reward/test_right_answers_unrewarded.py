import pytest

from grpo_doctor.testing import find, run_check


def test_the_share_is_reported() -> None:
    found = find("REW021", right_unrewarded_rate="0x10 0.6x10")
    assert (found.severity, found.kind) == ("error", "defect")
    assert found.message == "60% of the responses with the reference answer are not rewarded."


@pytest.mark.parametrize(
    ("missed", "severity"),
    [
        ("0.09x10", None),
        ("0.1x10", "warning"),
        ("0.49x10", "warning"),
        ("0.5x10", "error"),
        ("0.01x40", None),
    ],
)
def test_boundary(missed: str, severity: str | None) -> None:
    found = run_check("REW021", right_unrewarded_rate=missed)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("rows", "fires"), [(4, False), (5, True)])
def test_boundary_of_the_number_of_rows(rows: int, fires: bool) -> None:
    assert (run_check("REW021", right_unrewarded_rate=[0.6] * rows) is not None) is fires
