"""Runs live checks inside other trainers, with one file per framework."""
