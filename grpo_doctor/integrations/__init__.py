"""Live checks inside other trainers: one framework a file."""
