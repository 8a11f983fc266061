from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("CFG015", {"unknown_settings": "beta_ (did you mean beta?)"}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "GRPOConfig has never accepted beta_ (did you mean beta?).",
    )


def test_a_script_that_drops_unknown_arguments_is_reported() -> None:
    found = find("CFG015", {"unknown_settings": "beta_", "drops_unknown": 1}, loss="0")
    assert (found.severity, found.message) == (
        "info",
        "GRPOConfig has never accepted beta_; the script drops unknown arguments.",
    )


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({}, None),
        ({"unknown_settings": "beta_"}, "warning"),
        ({"unknown_settings": "beta_ (did you mean beta?)", "misspelt_settings": 1}, "error"),
        ({"unknown_settings": "beta_", "misspelt_settings": 1, "drops_unknown": 1}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG015", settings, loss="0")
    assert (found.severity if found else None) == severity


def test_probable_misspelling_outside_the_class_is_a_warning() -> None:
    found = find("CFG015", {"unknown_settings": "a_ (did you mean a?)", "perhaps_misspelt": 1}, loss="0")
    assert (found.severity, found.message) == ("warning", "Probably misspelled: a_ (did you mean a?).")
