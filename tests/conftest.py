"""What holds for every test: one thread, for matrices are small; examples of hypothesis that depend neither on time nor
on chance, and are few, for they are the same ones each time: ``python -m tests.fuzz`` looks for new ones."""

import gc
import os

from hypothesis import settings

from tests.browser import browser as browser

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("steady", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("steady")
gc.disable()  # hundreds of thousands of objects come with what is imported, and none of them ever goes


def pytest_collection_finish() -> None:
    """From here on the collector looks at what tests make, and never again at what was imported for them."""
    gc.freeze()
    gc.enable()
