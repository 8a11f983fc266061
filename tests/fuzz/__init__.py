"""Fuzzing: mutated logs, configurations and adapters must never cause an internal error."""
