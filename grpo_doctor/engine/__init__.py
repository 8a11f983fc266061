"""The training engine: a small, exact GRPO loop of short, replaceable methods, and faults that override them.

Read `trainer.py` from top to bottom; `engine.py` contains its methods, and `faults/` contains faulty versions.
Importing this package loads torch, so code that only reads logs must not import it.
"""
