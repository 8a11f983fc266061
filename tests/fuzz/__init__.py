"""Inputs that no one writes, from logs and configurations that the tests make: nothing may break on them."""
