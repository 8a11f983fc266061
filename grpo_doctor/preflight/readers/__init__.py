"""Readers of configurations, one for each syntax. The readers do not execute or import their input."""
