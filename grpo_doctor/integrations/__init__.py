"""Live checks inside other trainers: one file per framework."""
