"""Snapshots of all results: one text block per input, compared by `test_goldens` and by eye in a diff."""
