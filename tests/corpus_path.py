"""Where the real logs are. They are third-party data: read by path, never copied.

`tests.data` has logs of the project's own, on which what can be asked anywhere is asked anywhere. Without the corpus
these are skipped: the verdicts on named public runs, the logs of the founding trainers, the tests over all of it.
"""

import os
from pathlib import Path

import pytest

CORPUS = Path(os.environ.get("GRPO_DOCTOR_CORPUS", Path(__file__).parents[2] / "shared" / "logs"))
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the corpus of real logs is not at {CORPUS}")
P30 = CORPUS / "R133-colab-grpo" / "training_p30.log"
