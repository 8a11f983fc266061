"""Formats of logs, one per file."""
