"""``python -m grpo_doctor`` runs the command ``grpo-doctor``."""

from .cli import main

main()
