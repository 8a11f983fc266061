"""Known bugs of RL trainers as data: which versions have them, under which settings, and what to do."""

from .database import advisories, find, names
from .entry import Advisory, AdvisoryError
from .matching import Match, matches

__all__ = ["Advisory", "AdvisoryError", "Match", "advisories", "find", "matches", "names"]
