"""Location of the real logs. They are third-party data: read by path, never copied.

`tests.data` has the project's own logs, and every test that does not need real ones uses these. Without the corpus, the
tests of named public runs and of the whole corpus are skipped, and pytest's summary gives their number
(`tests/conftest.py`). ``make corpus-fetch`` downloads the corpus.
"""

import os
from pathlib import Path

import pytest

CORPUS = Path(os.environ.get("GRPO_DOCTOR_CORPUS", Path(__file__).parents[2] / "shared" / "logs"))
SHARED = CORPUS.parent


def needs(path: Path) -> pytest.MarkDecorator:
    """Mark a test that reads third-party data at ``path``: if the data is absent, the test is skipped and counted."""
    return pytest.mark.needs(path)


needs_corpus = needs(CORPUS)
P30 = CORPUS / "R133-colab-grpo" / "training_p30.log"
