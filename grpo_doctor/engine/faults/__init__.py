"""The bugs of real trainers, each a sick twin of one seam (or of a few settings), to be switched on by name.

A fault is a subclass of `Engine` that overrides one method; several can be mixed. Its docstring says what is wrong
and where it was seen; settings that the user gives are stronger than those it brings. Origins are public repositories
and issue threads.
"""

from . import advantages, boundaries, generation, objective, reward  # noqa: F401 - each registers its faults
from .fault import FAULTS, Fault, fault_name, sick_engine

__all__ = ["FAULTS", "Fault", "fault_name", "sick_engine"]
