"""Runs the checks over a run, finds causes, and concludes a verdict with its first sentence and its remedies."""
