"""Formats of logs, one a file."""
