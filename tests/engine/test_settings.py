"""Defaults that depend on the model, which the user's settings override."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_doctor.engine.settings import Settings, settings_of


@pytest.mark.parametrize(
    ("values", "size"),
    [({}, 64), ({"model": "smollm2"}, 16), ({"model": "smollm2", "generation_batch_size": 32}, 32)],
)
def test_a_large_model_has_a_smaller_batch(values: dict[str, Any], size: int) -> None:
    assert settings_of(values, "settings").generation_batch_size == size


def test_settings_of_a_run_take_precedence_over_defaults() -> None:
    assert settings_of({"model": "smollm2"}, "settings", Settings()).generation_batch_size == 64
