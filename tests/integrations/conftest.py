"""TRL collects garbage after each training: what other modules have made is left out of that."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    gc.freeze()
