"""Readers of configurations by syntax; none executes or imports its input."""
