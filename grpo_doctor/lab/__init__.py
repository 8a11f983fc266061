"""Experiments on the engine, with every fault untreated, fixed, and treated with common advice.

`arms` defines the runs, `train` executes them, `judge` compares the diagnoses with the known faults, and `evidence`
writes the results. The records of every run are kept, so a change in the checks needs no new training.
"""
