"""Readers for the consoles of two public trainers, one trainer per file."""
