"""The consoles of the founding trainers, one a file."""
