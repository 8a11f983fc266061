"""Compares runs with different settings: where they diverge, how much they differ, which findings disappeared, and
which remedies worked."""

from .align import Aligned, By
from .arms import Arm, arms_of
from .comparison import Comparison, compare
from .weights import WeightsError, compare_weights

__all__ = ["Aligned", "Arm", "By", "Comparison", "WeightsError", "arms_of", "compare", "compare_weights"]
