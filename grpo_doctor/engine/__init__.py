"""The training engine: a small, exact GRPO loop of short, replaceable methods, and faults that override them.

Read `trainer.py` top to bottom; `engine.py` has its methods, `faults/` their faulty versions. Importing this package
loads torch, so code that only reads logs must not import it.
"""
