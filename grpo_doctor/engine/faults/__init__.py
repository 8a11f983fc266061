"""Bugs of real trainers that can be enabled by name.

A fault is a subclass of `Engine` that overrides one method or a few settings. Several faults can be combined. The
docstring of a fault describes the bug and its origin, such as a public repository or an issue. The user's settings
override the settings of the fault.
"""

from . import advantages, boundaries, generation, objective, reward, tools  # noqa: F401 - each registers its faults
from .fault import FAULTS, Fault, fault_name, faulty_engine

__all__ = ["FAULTS", "Fault", "fault_name", "faulty_engine"]
