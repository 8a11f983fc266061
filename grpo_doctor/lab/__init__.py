"""Experiments on the engine. A model is trained with every fault: without a remedy, with a fix, and with common advice.

`arms` defines the runs, `train` executes them, `judge` compares the diagnoses with the known faults, and `evidence`
writes the results. The records of every run are kept, so that a change in the checks needs no new training.
"""
