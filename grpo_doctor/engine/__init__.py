"""The training engine: a small, exact GRPO loop of short, replaceable methods, and faults that override them.

Read `trainer.py` top to bottom; `engine.py` has its methods, `faults/` their faulty versions. Importing this package
loads torch; nothing that only reads logs imports it.
"""
