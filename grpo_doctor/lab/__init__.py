"""Experiments on the engine. Every fault is trained without a remedy, fixed, and with common advice applied.

`arms` defines the runs, `train` executes them, `judge` compares the diagnoses with the known faults, and `evidence`
writes the results. The records of every run are kept, so the runs can be diagnosed again after a change in the checks,
without new training.
"""
