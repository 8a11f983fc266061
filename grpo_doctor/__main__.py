"""``python -m grpo_doctor`` is ``grpo-doctor``."""

from .cli import main

main()
