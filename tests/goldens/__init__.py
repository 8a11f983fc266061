"""Snapshots of what the product answers: one text block per input, compared by `test_goldens` and by eye in a diff."""
