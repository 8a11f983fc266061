"""Transforms with memory, and the few statistics that checks share.

A check is a plain function over columns. It is called with whole blocks of rows (numpy arrays) when a log is
analysed and with one row at a time (numpy scalars) while a run trains, and must find the same. Whatever has to
remember earlier rows is therefore a transform of this module: it keeps its state between calls, and gives the
same values pushed row by row or block by block. Unknown values are NaN, and no comparison with NaN holds.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import numpy as np

Column: TypeAlias = Any
"""The values of one field: an array over rows, or the scalar of one row."""

_NAN, _ONE = np.float64("nan"), np.float64(1.0)


class _State(Protocol):
    def push(self, *row: Any) -> Any: ...
    def block(self, *rows: Any) -> Any: ...


class Memory:
    """The states of the transforms that one check calls, in the order in which it calls them."""

    def __init__(self) -> None:
        self.pushes: list[Callable[..., Any]] = []
        self.blocks: list[Callable[..., Any]] = []
        self.one = False
        self.seen = 0
        """Rows of the calls before."""

    def push(self, function: Callable[..., Any], arguments: Iterable[Any]) -> Any:
        """Calls the check with this memory for the row that follows those of the calls before."""
        _turn.memory, self.one = self, True
        _turn.following = iter(self.pushes)
        out = function(*arguments)
        self.seen += 1
        return out

    def block(self, function: Callable[..., Any], arguments: Iterable[Any], rows: int) -> Any:
        """The same for so many rows at once."""
        _turn.memory, self.one = self, False
        _turn.following = iter(self.blocks)
        out = function(*arguments)
        self.seen += rows
        return out

    def begin(self, state: _State) -> Callable[..., Any]:
        """Remembers the state of a transform that is called for the first time; what takes its next rows."""
        self.pushes.append(state.push)
        self.blocks.append(state.block)
        return state.push if self.one else state.block


class _Turn:
    """The memory of the check that is called just now, and those of its states that are still to be called."""

    __slots__ = ("following", "memory")

    def __init__(self) -> None:
        self.memory = Memory()
        self.following: Iterator[Callable[..., Any]] = iter(())


_turn = _Turn()


def _state(make: Callable[..., _State], *arguments: Any) -> Callable[..., Any]:
    for takes in _turn.following:  # hundreds a live step: the next of them is a step of an iterator
        return takes
    return _turn.memory.begin(make(*arguments))


# -- numpy's functions, ten times as fast on the scalars of a live step ----------------------------------------


# a product with a numpy number is the fastest way to one
_NUMPY: dict[type, Callable[[Any], Any]] = {float: _ONE.__mul__, int: np.int64, bool: np.bool_}
"""Python's numbers must not leave: they raise where numpy's give NaN, and ``~True`` is -2."""


def where(condition: Column, yes: Any, no: Any) -> Column:
    """``yes`` where the condition holds, else ``no``."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    out = yes if condition else no
    kind = _NUMPY.get(type(out))
    return out if kind is None else kind(out)


def isnan(x: Column) -> Column:
    """Whether the value is unknown."""
    return x != x


def maximum(x: Column, y: Column) -> Column:
    """The larger of two values, unknown if either is."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.maximum(x, y)
    return _ONE * (x if x >= y or x != x else y)


def fmax(x: Column, y: Column) -> Column:
    """The larger of the known ones of two values."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.fmax(x, y)
    return _ONE * (x if x >= y or y != y else y)


def fmin(x: Column, y: Column) -> Column:
    """The smaller of the known ones of two values."""
    return -fmax(-x, -y)


def sqrt(x: Column) -> Column:
    """The square root, unknown below 0."""
    if isinstance(x, np.ndarray):
        return np.sqrt(x)
    return _ONE * math.sqrt(x) if x >= 0 else _NAN


# -- one value remembered ------------------------------------------------------------------------------------


class _Best:
    """Largest value so far; NaN is passed over."""

    ufunc: np.ufunc = np.fmax
    start = _NAN

    def __init__(self) -> None:
        self.value = self.start

    def push(self, x: Any) -> Any:
        if x == x and not self.value >= x:
            self.value = np.float64(x)
        return self.value

    def block(self, xs: Any) -> Any:
        out = self.ufunc.accumulate(np.concatenate(([self.value], np.asarray(xs, float))))[1:]
        if len(out):
            self.value = out[-1]
        return out


class _Lowest(_Best):
    ufunc = np.fmin

    def push(self, x: Any) -> Any:
        if x == x and not self.value <= x:
            self.value = np.float64(x)
        return self.value


class _Total(_Best):
    """Sum so far; NaN is passed over."""

    ufunc = np.add
    start = np.float64(0.0)

    def push(self, x: Any) -> Any:
        if x and (x := float(x)) == x:  # as a Python number: numpy's slow path for conditions costs two microseconds
            self.value = self.value + x
        return self.value

    def block(self, xs: Any) -> Any:
        return super().block(np.where(np.isnan(np.asarray(xs, float)), 0.0, xs))


def best(x: Column) -> Column:
    """Largest value so far."""
    return _state(_Best)(x)


def lowest(x: Column) -> Column:
    """Smallest value so far."""
    return _state(_Lowest)(x)


def total(x: Column) -> Column:
    """Sum so far; of a condition, how often it held."""
    return _state(_Total)(x)


class _Latest:
    def __init__(self) -> None:
        self.value = _NAN

    def push(self, x: Any) -> Any:
        if x == x:
            self.value = x
        return self.value

    def block(self, xs: Any) -> Any:
        padded = np.concatenate(([self.value], xs))
        known = np.where(np.isnan(padded), 0, np.arange(len(padded)))
        out = padded[np.maximum.accumulate(known)][1:]
        if len(out):
            self.value = out[-1]
        return out


def latest(x: Column) -> Column:
    """The last known value: for a field that is recorded on some rows only."""
    return _state(_Latest)(x)


class _Baseline:
    def __init__(self, rows: int) -> None:
        self.rows, self.first, self.value = rows, list[float](), _NAN

    def push(self, x: Any) -> Any:
        if len(self.first) < self.rows and x == x:
            self.first.append(float(x))
            if len(self.first) == self.rows:
                self.value = np.float64(_middle(sorted(self.first)))
        return self.value

    def block(self, xs: Any) -> Any:
        out = np.full(len(xs), self.value)
        for i, x in enumerate(xs):
            if len(self.first) == self.rows:
                out[i:] = self.value
                break
            out[i] = self.push(x)
        return out


def baseline(x: Column, rows: int = 5) -> Column:
    """Median of the first ``rows`` known values; NaN until there are so many."""
    return _state(_Baseline, rows)(x)


# -- windows ---------------------------------------------------------------------------------------------------


class _Window:
    """A reduction of the last ``rows`` values, NaN until there are so many.

    Args:
        rows: length of the window.
        reduce: reduction of the window's values, oldest first, each a number or a shifted column; it adds in that
            order, so that a window has the same last digit whichever way it was fed.
    """

    def __init__(self, rows: int, reduce: Callable[[Sequence[Any]], Any]) -> None:
        self.rows, self.reduce = rows, reduce
        self.tail: deque[float] = deque(maxlen=rows)

    def push(self, x: Any) -> Any:
        tail = self.tail
        tail.append(float(x))  # Python's own numbers: a sum of them takes a third of the time
        return _ONE * self.reduce(tail) if len(tail) == self.rows else _NAN

    def block(self, xs: Any) -> Any:
        padded = np.concatenate(
            (
                np.full(self.rows - 1 - min(len(self.tail), self.rows - 1), math.nan),
                list(self.tail)[-(self.rows - 1) :] if self.rows > 1 else [],
                xs,
            )
        ).astype(float)
        early = max(0, self.rows - 1 - len(self.tail))
        self.tail.extend(np.asarray(xs, float)[-self.rows :].tolist())
        shifted = [padded[k : k + len(xs)] for k in range(self.rows)]
        out = np.asarray(self.reduce(shifted), float)
        out[:early] = math.nan
        return out


class _Ranked(_Window):
    """A window whose known values are kept by size too: a row costs a search, and no sort.

    Args:
        rows: length of the window.
        reduce: reduction of shifted columns, oldest first.
        one: the same of numbers that are given by size.
    """

    def __init__(
        self, rows: int, reduce: Callable[[Sequence[Any]], Any], one: Callable[[Sequence[float]], float]
    ) -> None:
        super().__init__(rows, reduce)
        self.one = one
        self.ordered: list[float] = []

    def push(self, x: Any) -> Any:
        self.take(float(x))
        return _ONE * self.one(self.ordered) if len(self.ordered) == self.rows else _NAN

    def take(self, x: float) -> None:
        """Lets the oldest value go and keeps this one."""
        tail, ordered = self.tail, self.ordered
        if len(tail) == self.rows and (old := tail[0]) == old:
            del ordered[bisect_left(ordered, old)]
        tail.append(x)
        if x == x:
            insort(ordered, x)

    def block(self, xs: Any) -> Any:
        out = super().block(xs)
        self.ordered = sorted(x for x in self.tail if x == x)
        return out


def _sum(values: Iterable[Any]) -> Any:
    out: Any = 0.0
    for value in values:
        out = out + value
    return out


def _mean(values: Sequence[Any]) -> Any:
    out: Any = 0.0
    for value in values:
        out = out + value
    return out / len(values)


def _largest(values: Sequence[Any]) -> Any:
    return np.maximum.reduce(list(values))


def _smallest(values: Sequence[Any]) -> Any:
    return np.minimum.reduce(list(values))


def _median(values: Sequence[Any]) -> Any:
    ordered = np.sort(np.array(list(values), float), axis=0)
    return np.where(np.isnan(ordered[-1]), math.nan, _middle(ordered))


def _middle(ordered: Any) -> Any:
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _mad(values: Sequence[Any]) -> Any:
    middle = _median(values)
    return _median([np.abs(v - middle) for v in values])


def _mad_one(ordered: Sequence[float]) -> Any:
    middle = _middle(ordered)
    return _middle(sorted([abs(v - middle) for v in ordered]))


class _Slope(_Window):
    """Least-squares change a row of the last ``rows`` values."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows, self._reduce)
        self.places = [k - (rows - 1) / 2 for k in range(rows)]
        self.scale = sum(place**2 for place in self.places)

    def _reduce(self, values: Sequence[Any]) -> Any:
        out: Any = 0.0
        for place, value in zip(self.places, values, strict=True):
            out = out + place * value
        return out / self.scale


class _Tau(_Ranked):
    """Kendall's tau-a against time of the last ``rows`` values; NaN until there are so many.

    Fed row by row it counts only the pairs that come and go. All are whole numbers, so nothing drifts.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(rows, self._tau, lambda _: self.score / self.pairs)
        self.pairs = rows * (rows - 1) / 2
        self.score = 0

    def take(self, x: float) -> None:
        if len(self.tail) == self.rows:
            self.score -= self._above(self.tail[0])
        super().take(x)
        self.score -= self._above(x)

    def _above(self, x: float) -> int:
        """How many values of the window are larger than this one, less how many are smaller; 0 for NaN."""
        return len(self.ordered) - bisect_right(self.ordered, x) - bisect_left(self.ordered, x)

    def _tau(self, values: Sequence[Any]) -> Any:
        pairs = combinations(values, 2)
        return _sum(np.where(late == early, 0.0, np.sign(late - early)) for early, late in pairs) / self.pairs

    def block(self, xs: Any) -> Any:
        out = super().block(xs)
        self.score = sum((late > early) - (late < early) for early, late in combinations(self.tail, 2))
        return out


class _Previous:
    def __init__(self, rows: int) -> None:
        self.tail: deque[Any] = deque([_NAN] * (rows + 1), maxlen=rows + 1)

    def push(self, x: Any) -> Any:
        self.tail.append(x)
        return self.tail[0]

    def block(self, xs: Any) -> Any:
        padded = np.concatenate((list(self.tail)[1:], xs)).astype(float)
        self.tail.extend(padded[-len(self.tail) :])
        return padded[: len(xs)]


def moving_sum(x: Column, rows: int) -> Column:
    """Sum of the last ``rows`` rows; of a condition, how often it held there."""
    return _state(_Window, rows, _sum)(x)


def moving_mean(x: Column, rows: int) -> Column:
    """Mean of the last ``rows`` rows."""
    return _state(_Window, rows, _mean)(x)


def moving_max(x: Column, rows: int) -> Column:
    """Largest of the last ``rows`` rows."""
    return _state(_Ranked, rows, _largest, itemgetter(-1))(x)


def moving_min(x: Column, rows: int) -> Column:
    """Smallest of the last ``rows`` rows."""
    return _state(_Ranked, rows, _smallest, itemgetter(0))(x)


def moving_median(x: Column, rows: int) -> Column:
    """Median of the last ``rows`` rows."""
    return _state(_Ranked, rows, _median, _middle)(x)


def moving_mad(x: Column, rows: int) -> Column:
    """Median absolute deviation from the median of the last ``rows`` rows."""
    return _state(_Ranked, rows, _mad, _mad_one)(x)


def kendall_tau(x: Column, rows: int) -> Column:
    """Kendall's tau-a of the last ``rows`` rows against time: -1 falls throughout, 1 rises throughout."""
    return _state(_Tau, rows)(x)


def slope(x: Column, rows: int) -> Column:
    """Least-squares change a row over the last ``rows`` rows."""
    return _state(_Slope, rows)(x)


def previous(x: Column, rows: int = 1) -> Column:
    """The value ``rows`` rows ago, NaN before that."""
    return _state(_Previous, rows)(x)


class _Began:
    """Onset of an illness that pauses: a pause no longer than the illness so far, or than 10 rows, is part of it."""

    def __init__(self) -> None:
        self.row, self.first, self.last = 0, 0, -math.inf
        self.off, self.start, self.onset = False, _NAN, _NAN

    def push(self, when: Any, off: Any, step: Any) -> Any:
        self.start = (self.start if self.off else step) if off else _NAN
        self.off = bool(off)
        if when:
            if self.row - self.last > max(10, self.last - self.first + 1):
                self.first, self.onset = self.row, self.start
            self.last = self.row
        self.row += 1
        return self.onset if when else _NAN

    def block(self, when: Any, off: Any, steps: Any) -> Any:
        out = np.full(len(steps), math.nan)
        if not np.any(when):  # the usual case; only the streak must be carried on
            back = np.flatnonzero(~np.asarray(off, bool))
            streak = back[-1] + 1 if len(back) else 0
            if streak < len(steps):
                self.start = self.start if self.off and not streak else np.float64(steps[streak])
            self.off, self.row = streak < len(steps), self.row + len(steps)
            return out
        for i in range(len(steps)):
            out[i] = self.push(when[i], off[i], steps[i])
        return out


def began(when: Column, off: Column, step: Column) -> Column:
    """Step from which a quantity was off its first level without a break when ``when`` set in; NaN where it is not.

    Length that fell below a quarter (``when``) began to fall when it left its first level (``off``).
    """
    return _state(_Began)(when, off, step)


def row(x: Column) -> Column:
    """How many rows the check has seen, this one included."""
    seen = _turn.memory.seen
    return np.arange(seen + 1.0, seen + 1 + len(x)) if isinstance(x, np.ndarray) else np.float64(seen + 1)


# -- how a sparse, noisy score stands ----------------------------------------------------------------------------


class _OnKnown:
    """Another transform that sees the known values only; between them it keeps its last value, or is unknown."""

    def __init__(self, make: Callable[..., _State], arguments: tuple[Any, ...], keep: bool) -> None:
        self.inner, self.keep, self.value = make(*arguments), keep, _NAN

    def push(self, x: Any) -> Any:
        if x == x:
            self.value = self.inner.push(x)
            return self.value
        return self.value if self.keep else _NAN

    def block(self, xs: Any) -> Any:
        xs = np.asarray(xs, float)
        known = np.flatnonzero(~np.isnan(xs))
        out = np.full(len(xs), math.nan)
        if len(known):
            values = np.asarray(self.inner.block(xs[known]), float)
            if self.keep:
                last = np.searchsorted(known, np.arange(len(xs)), side="right")
                out = np.concatenate(([self.value], values))[last]
            else:
                out[known] = values
            self.value = values[-1]
        elif self.keep:
            out[:] = self.value
        return out


def recent_mean(x: Column, rows: int = 5) -> Column:
    """Mean of the last ``rows`` known values, kept where the field is not recorded."""
    return _state(_OnKnown, _Window, (rows, _mean), True)(x)


def known_median(x: Column, rows: int) -> Column:
    """Median of the last ``rows`` known values, kept where the field is not recorded."""
    return _state(_OnKnown, _Ranked, (rows, _median, _middle), True)(x)


class _Noise:
    """Mean distance of neighbouring known values so far."""

    def __init__(self) -> None:
        self.last, self.apart, self.pairs = math.nan, 0.0, 0

    def push(self, x: Any) -> Any:
        if x == x:
            if self.last == self.last:
                self.apart, self.pairs = self.apart + abs(float(x) - self.last), self.pairs + 1
            self.last = float(x)
        return _ONE * (self.apart / self.pairs) if self.pairs else _NAN

    def block(self, xs: Any) -> Any:
        xs = np.asarray(xs, float)
        known = ~np.isnan(xs)
        values = np.concatenate(([self.last], xs[known]))
        steps = np.abs(np.diff(values))
        first = int(len(steps) > 0 and math.isnan(self.last))
        apart = np.add.accumulate(np.concatenate(([self.apart], steps[first:])))
        pairs = self.pairs + np.arange(len(apart))
        at = np.maximum(np.cumsum(known) - first, 0)
        self.last, self.apart, self.pairs = float(values[-1]), float(apart[-1]), int(pairs[-1])
        return apart[at] / np.where(pairs[at], pairs[at], math.nan)


def noise(x: Column) -> Column:
    """Standard deviation of one known value about its trend, from the differences of neighbours so far."""
    return _SPREAD * _state(_Noise)(x)


_SPREAD = math.sqrt(math.pi) / 2
"""Standard deviation of normal noise by the mean distance of neighbours."""
GAINED, FALLEN = 2.5, 5.0
"""Standard errors from which a score has gained, and has fallen."""
PART = 0.3
"""Share of its range so far that a score must have lost to have fallen."""


class _Standing:
    """How a sparse, noisy score stands: 1 if it has gained, plus 2 if it has fallen from its best.

    Pushed value by value it is plain arithmetic, because a dozen checks ask for it at every step of a live run.
    """

    def __init__(self, rows: int) -> None:
        self.windows = (rows, 4 * rows)
        self.errors = [(math.sqrt(1 + 1 / window), math.sqrt(2 / window)) for window in self.windows]
        self.tail: deque[float] = deque(maxlen=4 * rows)
        self.starts = [math.nan, math.nan]
        self.first = self.top = self.low = math.nan
        self.apart, self.pairs, self.standing = 0.0, 0, np.float64(0.0)

    def push(self, x: Any) -> Any:
        if x != x:
            return self.standing
        x, tail, rows = float(x), self.tail, self.windows[0]
        if tail:
            self.apart, self.pairs = self.apart + abs(x - tail[-1]), self.pairs + 1
        else:
            self.first = self.low = x
        if x < self.low:
            self.low = x
        tail.append(x)
        if len(tail) < rows:
            return self.standing
        scatter = _SPREAD * self.apart / self.pairs if self.pairs else math.nan
        values, over = list(tail), 0.0
        for i, window in enumerate(self.windows):
            if len(values) >= window:
                mean = _sum(values[-window:]) / window
                if self.starts[i] != self.starts[i]:
                    self.starts[i] = mean
                over = max(over, (mean - self.first) / self.errors[i][0], (mean - self.starts[i]) / self.errors[i][1])
                if i == 0:
                    self.top = mean if not self.top >= mean else self.top
                    down = self.top - mean
        fell = down > FALLEN * scatter * self.errors[0][1] and down > PART * (self.top - self.low)
        self.standing = _ONE * ((over > GAINED * scatter) + 2 * fell)
        return self.standing

    def block(self, xs: Any) -> Any:
        xs = np.asarray(xs, float)
        known = np.flatnonzero(~np.isnan(xs))
        values = np.concatenate((list(self.tail), xs[known])).astype(float)
        old = len(self.tail)
        before = self.standing
        if not len(known):
            return np.full(len(xs), before)
        if not old:
            self.first = values[0]
        steps = np.abs(np.diff(values, prepend=values[0]))[old:]
        apart = np.add.accumulate(np.concatenate(([self.apart], steps)))[1:]
        pairs = self.pairs + np.arange(1, len(known) + 1) - (not old)
        low = np.fmin.accumulate(np.concatenate(([self.low], values[old:])))[1:]
        scatter = _SPREAD * apart / np.where(pairs, pairs, math.nan)
        over = np.zeros(len(known))
        for i, window in enumerate(self.windows):
            mean = np.full(len(values), math.nan)
            if len(values) >= window:
                mean[window - 1 :] = _sum([values[k : len(values) - window + 1 + k] for k in range(window)]) / window
            mean = mean[old:]
            begun = mean[~np.isnan(mean)]
            if self.starts[i] != self.starts[i] and len(begun):
                self.starts[i] = begun[0]
            over = np.fmax(over, (mean - self.first) / self.errors[i][0])
            over = np.fmax(over, (mean - self.starts[i]) / self.errors[i][1])
            if i == 0:
                top = np.fmax.accumulate(np.concatenate(([self.top], mean)))[1:]
                down = top - mean
        fell = (down > FALLEN * scatter * self.errors[0][1]) & (down > PART * (top - low))
        standing = np.where(np.isnan(down), 0.0, (over > GAINED * scatter) + 2.0 * fell)
        self.tail.extend(values[old:])
        self.apart, self.pairs, self.low, self.top = float(apart[-1]), int(pairs[-1]), float(low[-1]), float(top[-1])
        self.standing = np.float64(standing[-1])
        return np.concatenate(([before], standing))[np.searchsorted(known, np.arange(len(xs)), side="right")]


def gained(x: Column, rows: int = 5) -> Column:
    """Whether the recent mean lies 2.5 standard errors above the first value, or above the first such mean.

    The first row stands before any update, but may be a fluke of a small batch; the first mean is steady, but
    hides what the first updates did. Either will do, over ``rows`` rows or, for a slow gain, over four times as many.
    """
    return _state(_Standing, rows)(x) % 2 == 1


def standing(reward: Column, reward_max: Column, rows: int = 5) -> tuple[Column, Column, Column]:
    """``(gained, fallen, solved)``: how a run's reward stands, asked once for every check.

    Gained as in `gained`, solved as in `solved`; fallen is a recent mean that lies 5 standard errors and 30 % of the
    range so far below its own best.
    """
    how = _state(_Standing, rows)(reward)
    return how % 2 == 1, how >= 2, solved(reward, reward_max)


def solved(reward: Column, reward_max: Column, rows: int = 5, share: float = 0.9) -> Column:
    """Whether the reward is ``share`` of the best single reward, or of 1 where rewards stay in 0 to 1.

    By its recent mean; until there is one, by its last value. Rewards that have all been 0 solve nothing.
    """
    now, most, least = recent_mean(reward, rows), best(reward_max), lowest(reward)
    now = where(isnan(now), latest(reward), now)
    most = where(isnan(most), where((best(reward) <= 1) & (least >= 0), 1.0, math.nan), most)
    return (now >= share * most) & ((most != 0) | (least < 0))


# -- anything else, row by row ---------------------------------------------------------------------------------


class _Fold:
    def __init__(self, function: Callable[..., tuple[Any, Any]], start: Callable[[], Any]) -> None:
        self.function, self.value = function, start()

    def push(self, *row: Any) -> Any:
        self.value, out = self.function(self.value, *row)
        return np.float64(out)

    def block(self, *rows: Any) -> Any:
        return np.array([self.push(*row) for row in zip(*rows, strict=True)], float)


def fold(function: Callable[..., tuple[Any, float]], start: Callable[[], Any], *columns: Column) -> Column:
    """``function(state, *row) -> (state, value)`` over the rows: for rules that no other transform fits."""
    return _state(_Fold, function, start)(*columns)


def each(function: Callable[..., float], *columns: Column) -> Column:
    """``function`` of the row's values, row by row: for lists, dictionaries and events."""
    if isinstance(columns[0], np.ndarray):
        return np.array([function(*row) for row in zip(*columns, strict=True)], float)
    return np.float64(function(*columns))


def several(number: int, function: Callable[..., tuple[float, ...]], *columns: Column) -> tuple[Column, ...]:
    """So many columns of the numbers that ``function`` makes of the row's values, row by row."""
    if isinstance(columns[0], np.ndarray):
        rows = [function(*row) for row in zip(*columns, strict=True)]
        return tuple(np.array(rows, float).reshape(-1, number).T)
    return tuple(map(np.float64, function(*columns)))


def is_any(declared: Column, *names: str | float) -> Column:
    """Whether what a run declares is one of these words or numbers; not where it declares nothing."""
    return each(lambda value: value == value and value in names, declared) > 0


class Words:
    """Text of a row's values for a message, which is made only where the message is shown."""

    def __init__(self, function: Callable[..., str], columns: tuple[Column, ...]) -> None:
        self.function, self.columns = function, columns

    def at(self, row: int | None) -> str:
        """The text of this row of the columns, or of the one row that they hold."""
        return self.function(*(c[row] if isinstance(c, np.ndarray) and c.ndim else c for c in self.columns))


def words(function: Callable[..., str], *columns: Column) -> Words:
    """Text of the row's values, row by row, for messages."""
    return Words(function, columns)


def seen(events: Column, kind: str, *texts: str) -> Column:
    """How many events of this kind whose message holds all ``texts`` the row has."""

    def count(row: Iterable[Any] | None) -> float:
        return float(sum(e.kind == kind and all(t in e.message for t in texts) for e in row or ()))

    return each(count, events)


# -- collapse: derived here and nowhere else -------------------------------------------------------------------

COLLAPSED = 0.9
"""Share of invalid responses from which a rollout counts as collapsed."""
HEALTHY = 0.5
"""Share of invalid responses up to which a rollout counts as healthy."""
NEAR_FLOOR = 0.1
"""Share of the run's own range of reward, above its floor, that counts as collapsed where validity is unknown."""


def collapse(invalid: Column, reward: Column) -> tuple[Column, Column]:
    """``(healthy, collapsed)`` by the share of invalid responses, else by the run's own range of reward."""
    known = invalid == invalid
    top, floor = best(reward), lowest(reward)
    span = top - floor
    ranged = span > 0.05 * maximum(abs(top), abs(floor))
    collapsed = where(known, invalid >= COLLAPSED, ranged & (reward <= floor + NEAR_FLOOR * span))
    healthy = where(known, invalid <= HEALTHY, ranged & (reward >= floor + HEALTHY * span))
    return healthy, collapsed


# -- statistics of counts --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def fisher(hit: float, missed: float, hit_else: float, missed_else: float) -> float:
    """One-sided Fisher p that the first row of a 2x2 table hits no more often than the second."""
    a, b, c, d = int(hit), int(missed), int(hit_else), int(missed_else)
    n, exposed, hits = a + b + c + d, a + b, a + c
    if exposed == 0 or exposed == n or hits == 0 or hits == n:
        return 1.0
    if n > 2000:  # the normal approximation; the exact sum would grow with the run
        z = (a - exposed * hits / n) / math.sqrt(exposed * (n - exposed) * hits * (n - hits) / n**2 / (n - 1))
        return math.erfc(z / math.sqrt(2)) / 2
    ways = sum(math.comb(exposed, k) * math.comb(n - exposed, hits - k) for k in range(a, min(exposed, hits) + 1))
    return ways / math.comb(n, hits)


def shift_p(exposed: Sequence[float], outcome: Sequence[float]) -> float:
    """Exact p of the risk difference over all circular shifts of the exposure, which keep its autocorrelation."""
    x, y = np.asarray(exposed, float), np.asarray(outcome, float)
    ones = x.sum()
    if len(x) < 2 or ones in (0, len(x)):
        return 1.0
    hits = np.array([np.roll(x, k) @ y for k in range(len(x))])
    difference = hits / ones - (y.sum() - hits) / (len(x) - ones)
    return float(np.mean(difference >= difference[0] - 1e-12))


def rms_on_ties(std: Column, mean: Column, rms_live: Column, dead: Column, n: Column) -> Column:
    """Root mean square advantage over the groups with equal rewards, which should be 0; NaN where there are none.

    From the identity mean(A^2) = (1 - dead) rms_live^2 + dead rms_tied^2. ``std`` may have one degree of freedom
    less: with ``n`` advantages it is read as the smaller one, so that the result is a lower bound.
    """
    square = std**2 * (n - 1) / n + mean**2
    excess = maximum(square - (1 - dead) * where(dead >= 1, 0.0, rms_live) ** 2, 0.0)
    return sqrt(where(dead > 0, excess / maximum(dead, 1e-12), math.nan))


def homogeneous(p: Column, k: Column) -> Column:
    """Expected share of groups whose ``k`` binary rewards are all equal when each is right with chance ``p``."""
    return p**k + (1 - p) ** k


class Pairs:
    """The last 200 transitions, for a permutation test whose cost must not grow with the run."""

    ROWS = 200

    def __init__(self) -> None:
        self.exposed: deque[float] = deque(maxlen=self.ROWS)
        self.outcome: deque[float] = deque(maxlen=self.ROWS)
        self.seen, self.p = 0, 1.0

    @staticmethod
    def shift_p(pairs: Pairs, known: Any, exposed: Any, outcome: Any, wanted: Any) -> tuple[Pairs, float]:
        """Step of a `fold`: the circular-shift p of the transitions so far, computed where it is wanted."""
        if known:
            pairs.exposed.append(float(exposed == 1))
            pairs.outcome.append(float(outcome))
            pairs.seen += 1
            if wanted and (pairs.seen <= Pairs.ROWS or pairs.seen % 50 == 0):
                pairs.p = shift_p(pairs.exposed, pairs.outcome)
        return pairs, pairs.p
