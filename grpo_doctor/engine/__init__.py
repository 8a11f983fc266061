"""The training engine: a small, exact GRPO loop built from seams, and the faults that replace them.

Read `trainer.py` top to bottom; `seams.py` holds the short functions it is made of, `faults/` their sick twins.
Importing this package loads torch; nothing that only reads logs imports it.
"""
