"""Runs the checks on a run, finds causes, and derives the verdict, the headline and the remedies."""
