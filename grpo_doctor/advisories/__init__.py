"""Known bugs of RL trainers as data, with affected versions, settings and remedies."""

from .database import advisories, find, names
from .entry import Advisory, AdvisoryError
from .matching import Match, matches

__all__ = ["Advisory", "AdvisoryError", "Match", "advisories", "find", "matches", "names"]
