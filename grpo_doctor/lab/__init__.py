"""Experiments on the engine: every fault left alone, mended, and treated with what people try first.

`arms` says what is run, `train` runs it, `judge` holds the doctor's words against what was done, and `evidence` writes
what came out. Runs are kept as they are, so that a change of judgement needs no new run.
"""
