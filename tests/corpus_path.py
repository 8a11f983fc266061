"""Where the real logs are. They are third-party data: read by path, never copied."""

import os
from pathlib import Path

import pytest

CORPUS = Path(os.environ.get("GRPO_DOCTOR_CORPUS", Path(__file__).parents[2] / "shared" / "logs"))
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the corpus of real logs is not at {CORPUS}")
P30 = CORPUS / "R133-colab-grpo" / "training_p30.log"
