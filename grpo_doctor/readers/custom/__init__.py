"""Readers for the output of public custom trainers."""
