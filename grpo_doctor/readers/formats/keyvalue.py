"""The general reader: reads metrics that custom trainers print as ``key: value``, ``key=value`` or ``key value``.

It does not depend on a trainer. A line with numbers has a shape: the names before its numbers. Repeated shapes whose
names mean record fields are metrics; the alias table has names in several languages. The step is in the line itself
(``iter 12``, ``[12/500]``, ``第12步``) or in a heading above it. Headings must count up, unlike ``Step 1: … Step 2: …``
in the answers of a model.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import merge
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from ...run import Run
from ..aliases import resolve, words
from ..fast import CHUNK
from ..input import Input, NotRead
from ..reading import chosen
from ..row_buffer import Rows
from ..row_kinds import OF_RL, OF_SETTINGS
from ..settings import declared
from ..steps import excursions
from ..values import number
from . import table, text_tables
from .histories import Histories
from .pairs import NUMBER, apart, counter_first, picked, plain, said
from .prose_filter import Essay
from .repeated_lines import (
    SAYS_ENOUGH,
    Shape,
    backs,
    counts_as,
    counts_up,
    is_metric,
    is_step,
    is_weak,
    says,
    words_of,
)
from .templates import mine

FORMAT = "key-value-console"

_ATTACHED = re.compile(r"(step|iter|iteration|update|epoch|\b(?:it|ep|upd))(?=\d)", re.IGNORECASE)
_OF_RL = frozenset("kl kl_loss policy_loss clip_fraction ratio_mean advantage_mean advantage_std success_rate".split())
"""Fields next to which a bare ``R`` is the reward."""
_BARE = {"R": "reward", "R std": "reward std", "r": "reward", "r std": "reward std"}
_OF_RECALL = frozenset("P p F F1 f1 precision Precision".split())
_BESIDE_BARE = 3
"""Minimum number of other names on a line for a bare ``R`` to be a metric."""
_TRAINS = frozenset("reward_mean reward_std grad_norm kl policy_loss".split())
_LEAST_ROWS = 4
"""Minimum number of rows of a table that replaces the surrounding lines."""
_LETTERS = re.compile(r"[^\W\deE_]")
"""Characters that a line of numbers alone does not contain, except exponents."""
_LEAST_NAMELESS = 3
"""Minimum number of lines of unnamed numbers to be reported if nothing else is read."""
_STARTS, _SAME_START, _SHORTEST_START = 3, 0.2, 8
"""Number of lines of a start, their share of all, and minimum letters in one, from which the program was restarted."""
_FEWEST_ROWS = 5
"""Minimum number of rows for a process to count as training."""
_HELD_OUT_TWICE = 2
"""Number of evaluation lines that suffice: one before and one after the training."""
_LEAST_METRICS = 4
"""Minimum number of metrics, one of which only training has, for lines with one row per step."""
_HELD_OUT = re.compile(
    r"(?:^\W*|(?:INFO|DEBUG)\W+)(?:eval|evaluation|val|validation|test)\b"
    r"(?:\s*[|\])@]|\s+#\d|\s*:(?!\s*[-+.\d])|\s*:\s*\d{1,3}%\||\s+(?:step|iter|iteration|epoch|at|after|results?|metrics)\b)"
    r"|[\[(](?:eval|evaluation|val|validation|test)[\])]|\bevaluated \S{1,60} in \d",
    re.IGNORECASE,
)
"""Start of an evaluation line: its metrics are not those of training."""
_ANNOUNCED = re.compile(
    r"\b(?:evaluating|validating|running (?:evaluation|validation))\b(?:[^\w:=]*$|\s?(?:\.\.\.|…))", re.IGNORECASE
)
"""End of a line (except for the text after its dots) that announces an evaluation: the next metrics belong to it."""
_OF_A_SAMPLE = re.compile(
    r"\W*(?:sample|completion|response|candidate|generation|answer)\s?[#(\[]?\s?\d{0,6}(?:/\d{1,6})?[)\]]?\s?[:|]",
    re.IGNORECASE,
)
"""Start of a line about one response: its reward is part of the step's."""
_ITS_TEXT = re.compile(
    r"[;,|]\s*(?:response|completion|generation|answer|output|prediction|text)\s?[:=]", re.IGNORECASE
)
"""Start of the response text after its reward."""
_OF_AN_ENVIRONMENT = re.compile(
    r"\b(?:action|reward)\b.{1,400}\b(?:done|terminated)\s?[:=]\s?(?:true|false)\b", re.IGNORECASE
)
"""A step of an environment, as in OpenEnv's transcripts: its reward is that of one action, not of an update."""
_PHASE = re.compile(r"\b(Started|Finished): '(\w{1,40})'")
"""SkyRL's text before and after each part of a step: lines inside ``eval`` are held out."""
_HEADING = re.compile(r"(\s*)[^\w\s]{0,3}\s?(\w[\w /]{0,40}?)\s?(?:\([^()]{1,20}\))?\s?:\s*")
"""A line that names the indented statistics below it."""
_AROUND, _LONGEST_NAME = " \t*#:|", 40
"""Characters that may surround a name on a separate line above its number, and the maximum length of such a name."""
_STATISTICS = frozenset("mean std min max median total overall sum".split())
_LONGEST_LINE = 4096
_RULE = re.compile(r"\W{6,}$")
_ASTRAY = 0.2
"""Maximum share of the rows of a shape whose step is lower than that of the row above them."""
_FEWEST_COUNTS, _AT_THEIR_PACE = 3, 0.8
"""Minimum number of counters to count the lines between them, and the share of them with an equal number of lines in
between."""
_OFTEN_ABOVE = 0.05
"""Share of the steps above whose line others occur that belong to them."""
_RARELY = 0.01
"""Share of the most frequent shape's lines below which lines may be completions."""
_MOST_SHAPES = 20_000
_MOST_OTHERS = 1000


@lru_cache(maxsize=4096)
def _of_rl(name: str) -> bool:
    """Return whether a name means a field that supervised training does not have."""
    return any(alias.field in _OF_RL for alias in resolve(name))


def _bare_reward(text: str, names: Sequence[str]) -> bool:
    """Return whether a bare ``R`` is in a progress bar or among other metrics, as the reward is: recall comes with
    precision, and an adapter's rank with settings."""
    alone = _OF_RECALL.isdisjoint(names) and not any(map(declared, names))
    return alone and ("%|" in text or (sum(map(bool, names)) > _BESIDE_BARE and not any(" " in name for name in names)))


_PROCESS = re.compile(r"(?:\[\d{1,2}m)?(\([\w./:@-]{1,80},? ?(?:pid|ip|rank)=[^()]{1,60}\))(?:\[\d{1,2}m)? ?")
"""Ray's prefix for the lines of each process, also without the lost colour escapes of a copy."""
_CLOCK = re.compile(r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?\]?[:,]? ?(?:- )?")
"""The time before a line, as loggers and containers write it."""
_DIGITS = re.compile(r"\d+")
_HEAD = ("step", "epoch")
_Key = TypeVar("_Key")
_Heads: TypeAlias = "dict[str, Shape]"
"""Headings by their start, each with its step and epoch."""


class _Plan(NamedTuple):
    """How to read lines that differ only in their digits: their shape, their relevant numbers, and whether they are
    settings."""

    shape: Shape
    picks: list[tuple[int, float]]
    sets: bool


class General:
    """Collects the lines of a console that no known trainer printed."""

    def __init__(self, file: Input) -> None:
        self.rows = Rows(file, FORMAT)
        self._shapes: dict[tuple[tuple[str, ...], bool], Shape] = {}
        self._heads: _Heads = {}
        self._weak_heads: _Heads = {}
        self._order = self._origin = 0
        self._processes: dict[str, int] = {}
        self._nameless = array("q")
        self._startup: set[int] = set()
        self._starting: set[int] = set()
        self._rowed = False
        self._starts: list[int] = []
        self._breaks = array("q")
        self._others: Counter[str] = Counter()
        self._evaluates = self._announced = self._follows = False
        self._heading: tuple[int, str] | None = None
        self._bare = ""
        self._plans: dict[str, _Plan] = {}
        self._histories = Histories()
        self._essay = Essay(file.path.name)
        self._table = text_tables.Below()

    def quick(self, line: int, text: str) -> bool:
        """Process a line that differs from an earlier one only in its digits; return False for any other."""
        if self._heading is not None or self._bare or self._announced or self._evaluates or not self._plans:
            return False
        text = self._without_prefix(text)
        plan = self._plans.get(_DIGITS.sub("0", text))
        if plan is None:
            return False
        if "|" in text:
            self._table.see(line, text)
        found = NUMBER.findall(text)
        self._order += 1
        self._follows = True
        if not plan.sets:
            self._rows_begin()
        plan.shape.take(self._order, line, self._origin, [float(found[i][0]) * scale for i, scale in plan.picks])
        return True

    def _learn(self, text: str, shape: Shape, names: tuple[str, ...], picks: list[tuple[int, float]] | None) -> None:
        """Learn a line so that lines with other digits are processed quickly."""
        calm = self._heading is None and not self._announced and not self._evaluates and not self._essay.document
        listed = text[-1:] in ("]", " ", ":") or text.lstrip().startswith("-")
        if calm and picks and not listed and len(self._plans) < _MOST_SHAPES:
            self._plans[_DIGITS.sub("0", text)] = _Plan(shape, picks, self._sets(names))

    def see(self, line: int, text: str) -> None:
        text = self._without_prefix(text)
        self._histories.see(line, text)
        self._essay.see(line, text)
        self._table.see(line, text)
        if len(text) > _LONGEST_LINE:
            return
        if _OF_AN_ENVIRONMENT.search(text):
            self.rows.seen.update(("action", "done"))
            return
        if "ating" in text and _ANNOUNCED.search(text):
            self._announced, self._follows = True, False
        heading = _HEADING.fullmatch(text) if text.rstrip()[-1:] == ":" else None
        if heading is not None or not NUMBER.search(text):
            self._without_numbers(text, heading)
            return
        given, its_text = text, _ITS_TEXT.search(text)
        sample = its_text is not None or _OF_A_SAMPLE.match(text) is not None
        text = self._rewritten(text[: its_text.start()] if its_text else text)
        names, values, picks = picked(text)
        if not any(names):
            if not _LETTERS.search(text):
                self._nameless.append(line)
            return
        names, told = self._named(text, names)
        self._order += 1
        if sample and not told:
            return
        self._see_start(text, names, told)
        if not told:
            self._headline(line, text, names, values)
        elif (shape := self._shape(names, sample)) is not None:
            shape.bar = "%|" in text
            shape.add(self._order, line, self._origin, values, text)
            if given == text:
                self._learn(text, shape, names, picks)

    def _without_prefix(self, text: str) -> str:
        """Return a line without its time and its process name, which is kept."""
        if text[:1].isdigit() or text[:1] == "[":
            text = _CLOCK.sub("", text, count=1) if _CLOCK.match(text) else text
        process = _PROCESS.match(text) if "=" in text[:140] and text[:1] in "([" else None
        if process is None:
            self._origin = 0
            return text
        self._origin = self._processes.setdefault(process[1], len(self._processes) + 1)
        return text[process.end() :]

    def _without_numbers(self, text: str, heading: re.Match[str] | None) -> None:
        """Process a line that may be the heading of statistics, a name above its number, or a rule between two
        blocks."""
        subject = next(filter(is_metric, _beginnings(heading[2])), "") if heading else ""
        self._heading = (len(heading[1]), subject) if heading and subject else None
        bare = text.strip(_AROUND)
        self._bare = bare if 0 < len(bare) < _LONGEST_NAME and (is_metric(bare) or is_step(bare)) else ""
        self._see_start(text, (), told=False)
        if (not text.strip() or _RULE.match(text)) and (not self._breaks or self._breaks[-1] != self._order):
            self._breaks.append(self._order)

    def _see_start(self, text: str, names: tuple[str, ...], told: bool) -> None:
        """Note repeated lines that a program printed before its first row: it was restarted there."""
        if told and not self._sets(names):
            self._rows_begin()
        elif len(words_only := words_of(text)) >= _SHORTEST_START:
            if not self._rowed:
                self._startup.add(hash(words_only)) if len(self._startup) < _MOST_OTHERS else None
            else:
                self._starting |= {hash(words_only)} & self._startup

    def _rows_begin(self) -> None:
        """Begin a row: confirms a restart of a program that had not ended."""
        self._rowed = True
        if len(self._starting) >= max(_STARTS, _SAME_START * len(self._startup)):
            self._starts.append(self._order)
        self._starting.clear()

    @staticmethod
    def _sets(names: tuple[str, ...]) -> bool:
        """Return whether a line contains only settings."""
        return all(alias.field in OF_SETTINGS for name in names for alias in resolve(name))

    def _rewritten(self, text: str) -> str:
        """Return a line as pairs of names and numbers: with the name above it, without its sentence, lists as means."""
        if self._bare and number(text.strip(_AROUND)) is not None:
            text = f"{self._bare}: {text.strip(_AROUND)}"  # the name is on a separate line
        self._bare = ""
        text = said(text) if " is " in text else counter_first(apart(text))
        return _ATTACHED.sub(r"\1 ", plain(text) if "[" in text or "(" in text else text)

    def _named(self, text: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        """Return the names with the meaning from the lines above, and whether any belongs to training or its
        evaluation."""
        names = self._below_heading(text, names)
        if not _BARE.keys().isdisjoint(names) and (any(map(_of_rl, names)) or _bare_reward(text, names)):
            names = tuple(_BARE.get(name, name) for name in names)
        told = any(name in self.rows.file.mapping or is_metric(name) for name in names if name)
        self._announced &= not self._follows or (told and not any(map(is_step, names)))
        self._follows = told
        if self._held_out(text) or (told and self._announced):
            names = tuple(f"eval/{name}" if is_metric(name) and "eval" not in words(name) else name for name in names)
        return names, told

    def _headline(self, line: int, text: str, names: tuple[str, ...], values: Sequence[float]) -> None:
        """Process a line without a metric: it may name the step of the lines below, declare settings, or contain unread
        values."""
        for heads, counts in ((self._heads, is_step), (self._weak_heads, is_weak)):
            for name, value in zip(names, values, strict=True):
                if counts(name) and not declared(name):
                    epoch = next((v for n, v in zip(names, values, strict=True) if counts_as(n, "epoch")), math.nan)
                    self._head(heads, line, text, value, epoch)
                    self._pass_over(name for name in names if not is_step(name) and not is_weak(name))
                    return
        for name, value in zip(names, values, strict=True):
            if (setting := declared(name)) and not self._shapes:
                self.rows.set(setting, value)
            else:
                self._pass_over([name])

    def _pass_over(self, names: Iterable[str]) -> None:
        """Note unknown names, which are reported if they repeat."""
        for name in names:
            if name and name != "#" and (name in self._others or len(self._others) < _MOST_OTHERS):
                self._others[name] += 1

    def _below_heading(self, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Combine the names of a line with the heading above bare statistics."""
        if self._heading is not None and len(text) - len(text.lstrip()) > self._heading[0]:
            return tuple(f"{self._heading[1]} {n}" if n and words(n) <= _STATISTICS else n for n in names)
        self._heading = None
        return names

    def _held_out(self, text: str) -> bool:
        """Return whether a line belongs to an evaluation, by its start or by the part of a step around it."""
        if (phase := _PHASE.search(text)) is not None and "eval" in words(phase[2]):
            self._evaluates = phase[1] == "Started"
        return self._evaluates or _HELD_OUT.search(text, 0, 120) is not None

    def _shape(self, names: tuple[str, ...], sample: bool) -> Shape | None:
        shape = self._shapes.get((names, sample))
        if shape is None and len(self._shapes) < _MOST_SHAPES:
            shape = self._shapes[names, sample] = Shape(names, sample)
        return shape

    def _head(self, heads: _Heads, line: int, text: str, step: float, epoch: float) -> None:
        match = NUMBER.search(_ATTACHED.sub(r"\1 ", text))
        kind = " ".join(text[: match.start() if match else 24].split())[-24:]
        if kind in heads or len(heads) < _MOST_SHAPES:
            heads.setdefault(kind, Shape(_HEAD)).add(self._order, line, self._origin, (step, epoch), text)

    def finish(self) -> list[Run]:
        """Return the runs of the repeated shapes, separately for each process if several print."""
        parts = self._processes_apart()
        runs = [run for part in parts for run in part._finish()]
        if not any(map(len, runs)):
            return self._finish()
        first = runs[0]
        same = [run for run in runs if np.array_equal(run.steps, first.steps) and _alike(run, first)]
        if len(same) == len(runs) > 1:
            first.notes.append(f"{len(runs)} processes print the same rows; only those of one are read")
            return [first]
        return runs

    def _processes_apart(self) -> list[General]:
        """Return a reader for each process whose rows are interleaved with those of another; none if only one
        prints."""
        metrics = [shape for shape in self._often() if shape.weight() and not shape.evaluates()]
        if len(self._processes) < 2 or not metrics:
            return []
        order = np.concatenate([shape.order for shape in metrics])
        origins = np.concatenate([shape.origins for shape in metrics])[np.argsort(order)]
        printing = [origin for origin in np.unique(origins) if np.count_nonzero(origins == origin) >= _FEWEST_ROWS]
        if len(printing) < 2 or np.count_nonzero(np.diff(origins)) < 2 * len(printing):
            return []
        return [self._of_process(int(origin)) for origin in printing]

    def _of_process(self, origin: int) -> General:
        """Return a reader of the lines of one process."""
        name = next((name for name, number in self._processes.items() if number == origin), "no process named")
        file = self.rows.file
        part = General(Input(file.path, file.mapping, file.notes, shown=f"{file.source} {name}"))
        for held, own in (
            (self._shapes, part._shapes),
            (self._heads, part._heads),
            (self._weak_heads, part._weak_heads),
        ):
            for key, shape in held.items():
                kept = np.array(shape.origins) == origin
                if kept.any():
                    own[key] = shape.only(kept)  # type: ignore[index]
        part._order, part._breaks = self._order, self._breaks
        part.rows.settings.update(self.rows.settings)
        return part

    def _finish(self) -> list[Run]:
        shapes = self._often()
        metrics = {line for shape in shapes for line in shape.lines}
        if said := self._essay.sentences(metrics):
            shapes = [kept for s in shapes if len((kept := s.only(~np.isin(np.array(s.lines), list(said)))).lines)]
        self._declare(shapes)
        timeline = self._timeline(shapes)
        if timeline is not None:
            timeline.begins = min((0 for start in self._starts if start <= timeline.places[0]), default=timeline.begins)
            found = [(shape, self._part(shape, timeline)) for shape in shapes]
            whole = [(shape, part) for shape, part in found if not shape.averaged and len(part.at)]
            fields = {field for shape, _ in whole for field in map(_means, shape.names) if field}
            steps = np.unique(np.concatenate([part.at for _, part in whole])) if whole else timeline.places[:0]
            parts = [part.beside(steps, fields) if shape.averaged else part for shape, part in found]
            self.rows.redrawn = any(shape.bar and shape.counter is not None for shape in shapes)
            self._add(self.rows, merge(*(part.rows() for part in parts), key=itemgetter(0, 1)))
        if len(self.rows) < 2:
            for line, row in self._histories.rows():
                self.rows.add(row, line)
        if metrics and self._essay.document and not len(self.rows):
            self.rows.notes.append(NotRead("numbers in prose are not a log; extract the log from the document"))
        elif not len(self.rows):
            self._tell_what_was_not_read()
        if self._table.rows > max(len(self.rows), _LEAST_ROWS):
            return self._of_table()
        often = max(3, 0.5 * len(set(self.rows.steps)))
        self.rows.unread.update({name: count for name, count in self._others.items() if count >= often})
        first = self.rows.runs()
        return chosen(first, self._second(first)) if any(map(len, first)) else first

    def _add(self, rows: Rows, found: Iterable[tuple[int, int, float, dict[str, float]]]) -> None:
        """Add rows; a run ends where the program was restarted and counts again, or does not count at all."""
        starts = iter([*self._starts, math.inf])
        start, begun = next(starts), math.nan
        for place, line, step, row in found:
            if place >= start:
                while place >= start:
                    start = next(starts)
                if not rows.numbered or step <= begun:
                    rows.end()
                    begun = step
            begun = step if math.isnan(begun) else begun
            rows.add(row, line, step)

    def _tell_what_was_not_read(self) -> None:
        """Report lines of unnamed numbers, and lines that name a metric, if neither gave a row."""
        if len(self._nameless) >= _LEAST_NAMELESS:
            told = f"{len(self._nameless)} lines starting at line {self._nameless[0]} have numbers without names"
            self.rows.notes.append(NotRead(f"{told} and were not read; add a header line above them"))
        named = [(s.names[place], line) for s in self._shapes.values() for place in s.fields for line in s.lines]
        if len(named) > 1:
            name, line = named[0]
            told = f"{len(named)} numbers have metric names, the first {name!r} on line {line}"
            self.rows.notes.append(NotRead(f"{told}, but they do not repeat like the steps of a log; not read"))

    def _second(self, first: list[Run]) -> list[Run]:
        """Return the runs of a second reading of the same lines, by their templates alone."""
        found = mine(self._often(), [*self._heads.values(), *self._weak_heads.values()])
        if found is None:
            return []
        table, steps = found
        rows = Rows(Input(self.rows.file.path, self.rows.file.mapping, shown=self.rows.file.source), FORMAT)
        rows.seen, rows.numbered = set(self.rows.seen), not np.isnan(steps).all()
        for setting, value in self.rows.settings.items():
            rows.set(setting, value)
        places = [(i, name) for i, name in enumerate(table.names) if name != "#" and not is_step(name)]
        numbered = (row if rows.numbered else math.nan for row in steps.tolist())
        named = ({name: row[i] for i, name in places if not math.isnan(row[i])} for row in table.values.tolist())
        self._add(rows, zip(table.order.tolist(), table.lines.tolist(), numbered, named, strict=True))
        rows.unread.update(self.rows.unread)
        return rows.runs()

    def _of_table(self) -> list[Run]:
        """Return the runs of a table that has more rows than the other lines, with a note."""
        runs = table.below(self.rows.file, self._table.names)
        left = f"{len(self.rows)} rows outside the table at line {self._table.line} were skipped"
        for run in runs if len(self.rows) else ():
            run.notes.append(NotRead(left))
        return runs

    def _often(self) -> list[Shape]:
        """Return shapes that occur often enough to be printed by a program, including those with additional values at
        the end; a line of a completion occurs once."""
        shapes = self._shapes.values()
        most = max((len(shape.lines) for shape in shapes), default=0)
        often = [s for s in shapes if len(s.lines) >= min(_HELD_OUT_TWICE if s.evaluates() else 3, 0.5 * most)]
        often = [s for s in often if len(s.lines) >= _RARELY * most or s.evaluates() or s.printed]
        begun = {s.names for s in often if s.counters() and len(s.fields)}
        return often + [s for s in shapes if s not in often and any(s.names[: len(n)] == n for n in begun)]

    def _declare(self, metrics: list[Shape]) -> None:
        """Read single lines that contain only settings, such as ``group_size = 8``."""
        for shape in self._shapes.values():
            if len(shape.lines) == 1 and shape not in metrics:
                known = [declared(name) for name in shape.names]
                if all(known):
                    for setting, value in zip(known, shape.values, strict=True):
                        self.rows.set(str(setting), int(value) if value.is_integer() else value)

    def _timeline(self, shapes: list[Shape]) -> _Timeline | None:
        """Return the step of each line; None if the lines are not a training log."""
        breaks = np.array(self._breaks, np.int64)
        counting = [s for s in shapes if s.count() is not None]
        if any(not s.bar and s.counter not in s.positions and len(s.lines) > 1 for s in counting):
            # lines contain their step, so the progress bars count something else: groups of a step, test questions
            shapes[:] = [s for s in shapes if not s.bar]
            counting = [s for s in counting if not s.bar]
        own = sorted(counting, key=Shape.weight, reverse=True)
        line = _Timeline.of(own[0], breaks) if own else None
        for shape in own[1:]:
            line = line and line.joined(shape, own[0].weak())
        if line is not None or self._heads:  # a line with a step that does not count with the others is a text
            shapes[:] = [s for s in shapes if s.counter is not None or not any(map(is_step, s.names))]
        if line is not None:
            named = any(
                counts_as(name, "epoch") for shape in shapes if shape.counter is not None for name in shape.names
            )
            line = line.without_excursions(None if named else self._epochs)
            return next((finer for shape in shapes if (finer := line.refined(shape)) is not None), line)
        heads = _counting(self._heads) or _counting(self._weak_heads)
        if heads and shapes:
            head = max(heads, key=lambda head: len(head.lines))
            self.rows.seen.update(*(words(kind) & OF_RL for kind in (*self._heads, *self._weak_heads)))
            steps, epochs = head.table().T
            turns = np.diff(steps, prepend=math.nan) != 0
            astray = excursions(steps[turns])[np.cumsum(turns) - 1]
            return _Timeline(np.array(head.order), np.where(astray, math.nan, steps), breaks, epochs)
        shapes = [s for s in shapes if not s.sample]
        main = max((s for s in shapes if says(s.names) >= SAYS_ENOUGH), key=Shape.weight, default=None)
        if main is None or len(main.lines) < (2 if len(main.fields) > 1 else max(10, 0.3 * self._order)):
            step = next((head.values[0] for head in self._heads.values()), None)
            pasted = _pasted(shapes, breaks, 1.0 if step is None else step)
            if pasted is not None and step is None:
                self.rows.set("rows", "unnumbered")
            return pasted
        self.rows.numbered = False
        return _Timeline(np.array(main.order), np.arange(1.0, len(main.order) + 1), breaks)

    def _epochs(self, places: np.ndarray) -> np.ndarray | None:
        """Return the epoch in the heading above each place, as Keras prints it; None if there is none."""
        for kind, head in self._weak_heads.items():
            epochs = head.table()[:, 0]
            if "epoch" in words(kind) and len(epochs) > 1 and counts_up(epochs):
                above = np.searchsorted(np.array(head.order), places, side="right") - 1
                return np.where(above >= 0, epochs[above], math.nan)
        return None

    @staticmethod
    def _part(shape: Shape, timeline: _Timeline) -> _Part:
        """Return the rows of a shape with the step of each; several lines per step without their own step are
        averaged."""
        table, places, lines = shape.table(), np.array(shape.order), np.array(shape.lines)
        (at, counted), own = timeline.at(places), np.isin(places, timeline.places)
        if shape.counter is not None and own.any():
            table, counted, lines, at = table[own], counted[own], lines[own], at[own]
        else:
            turns = np.flatnonzero(np.diff(at, prepend=-1))
            if len(turns) < 0.67 * len(at) or shape.sample:
                shape.averaged = True
                counts = np.diff(np.append(turns, len(at)))[:, None]
                table = np.add.reduceat(table, turns, axis=0) / counts
                counted, lines, at = counted[turns], lines[turns], at[turns]
        skipped = {shape.counter, *shape.positions}
        named: dict[str, int] = {}
        for i, name in enumerate(shape.names):
            if name and i not in skipped:
                named.setdefault(name, i)
        if timeline.epochs is not None and not np.isnan(timeline.epochs[at]).any() and "epoch" not in named:
            table = np.column_stack((table, timeline.epochs[at]))
            named["epoch"] = table.shape[1] - 1
        of_run = ~np.isnan(timeline.steps[at]) & (shape.evaluates() | (counted >= timeline.begins))
        return _Part(named, *(part[of_run] for part in (table, at, counted, lines, timeline.steps[at])))


def _beginnings(name: str) -> Iterator[str]:
    """Return a name and its prefixes, longest first: ``Reward calculation complete``, …, ``Reward``."""
    found = name.split()
    return (" ".join(found[:count]) for count in range(len(found), 0, -1))


def _counting(heads: _Heads) -> list[Shape]:
    """Return the headings that count up."""
    return [head for head in heads.values() if len(head.lines) > 1 and counts_up(head.table()[:, 0])]


class _Part(NamedTuple):
    """Rows of one shape: names of metrics to the columns of ``table``, and for each row the index of its step, the
    place at which that is counted, its line and its step."""

    named: dict[str, int]
    table: np.ndarray
    at: np.ndarray
    places: np.ndarray
    lines: np.ndarray
    steps: np.ndarray

    def beside(self, steps: np.ndarray, fields: Collection[str]) -> _Part:
        """Return the additional information of lines that occur once per step: neither their own steps nor these
        fields."""
        own = np.isin(self.at, steps) | (not len(steps))
        named = {name: column for name, column in self.named.items() if _means(name) not in fields}
        return _Part(named, *(part[own] for part in self[1:]))

    def rows(self) -> Iterator[tuple[int, int, float, dict[str, float]]]:
        """Yield place, line, step and metrics on demand: mappings of a long log would not fit in memory."""
        for start in range(0, len(self.places), CHUNK):
            part = slice(start, start + CHUNK)
            columns = (self.places[part], self.lines[part], self.steps[part], self.table[part])
            for place, line, step, values in zip(*(column.tolist() for column in columns), strict=True):
                yield place, line, step, {name: values[i] for name, i in self.named.items()}


class _Timeline:
    """Positions in a log and the step that begins there; ``breaks`` are the lines that separate blocks."""

    def __init__(
        self, places: np.ndarray, steps: np.ndarray, breaks: np.ndarray, epochs: np.ndarray | None = None
    ) -> None:
        self.places, self.steps, self.breaks, self.epochs = places, steps, breaks, epochs
        self.begins = int(places[0])
        """First possible position of its rows, if a program was restarted in between."""

    @classmethod
    def of(cls, shape: Shape, breaks: np.ndarray) -> _Timeline:
        return cls(np.array(shape.order), shape.table()[:, shape.counter or 0], breaks)

    def joined(self, shape: Shape, weak: bool) -> _Timeline:
        """Merge the rows of another shape if one of its columns counts with the surrounding rows.

        Otherwise that shape has another counter, such as updates that a progress bar does not count.
        """
        for column in shape.counters():
            shape.counter = column
            merged = self._with(shape)
            astray = backs(merged.steps) - backs(self.steps)
            if counts_up(merged.steps) and shape.weak() <= weak and astray <= _ASTRAY * len(shape.lines):
                return merged
        shape.averaged = shape.counter is not None and shape.weak()
        shape.counter = None
        return self

    def _with(self, shape: Shape) -> _Timeline:
        other = _Timeline.of(shape, self.breaks)
        places = np.concatenate((self.places, other.places))
        order = np.argsort(places, kind="stable")
        return _Timeline(places[order], np.concatenate((self.steps, other.steps))[order], self.breaks)

    def without_excursions(self, epochs: Callable[[np.ndarray], np.ndarray | None] | None) -> _Timeline:
        keep = ~excursions(self.steps)
        places = self.places[keep]
        return _Timeline(places, self.steps[keep], self.breaks, epochs(places) if epochs else None)

    def refined(self, shape: Shape) -> _Timeline | None:
        """Return the steps of lines without one, if the number of lines between two counts equals the difference of the
        counts."""
        marks = self.places[np.diff(self.steps, prepend=math.nan) != 0]
        steps = self.steps[np.diff(self.steps, prepend=math.nan) != 0]
        places = np.array(shape.order)
        if (
            shape.counter is not None
            or not shape.updates()
            or len(marks) < _FEWEST_COUNTS
            or len(places) < 2 * len(marks)
        ):
            return None
        ends = np.searchsorted(places, marks)
        begins = np.flatnonzero(np.diff(steps, prepend=math.inf) < 0)  # of the runs
        first = begins[np.searchsorted(begins, np.arange(len(marks)), side="right") - 1]
        counted = steps[first] + ends - ends[first]
        if np.diff(steps).max() < 2 or np.mean(np.abs(counted - steps) <= 1) < _AT_THEIR_PACE:
            return None
        of_run = first[np.minimum(np.searchsorted(marks, places), len(marks) - 1)]
        own = steps[of_run] - ends[of_run] + 1 + np.arange(len(places))
        return _Timeline(places, own, self.breaks)

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the step of each line of a shape, and the place at which it is counted.

        It is the next step if the lines precede those that name it; else the last one that began, or the one that their
        block names. Lines before all steps are not moved, because an earlier run may have printed them.
        """
        last = np.searchsorted(self.places, places, side="right") - 1
        after = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        above = np.count_nonzero(last < 0) > np.count_nonzero(last == len(self.places) - 1)
        steps = len(np.unique(after))
        if above and 1 < steps > _OFTEN_ABOVE * np.count_nonzero(np.diff(self.steps, prepend=math.nan)):
            return after, self.places[after]
        block = np.searchsorted(self.breaks, places)
        blocks = np.searchsorted(self.breaks, self.places)
        named_below = (blocks[after] == block) & ((last < 0) | (blocks[np.maximum(last, 0)] != block))
        at = np.where(named_below, after, np.maximum(last, 0))
        return at, np.where((last < 0) & ~named_below, places, self.places[at])


def _pasted(shapes: list[Shape], breaks: np.ndarray, step: float) -> _Timeline | None:
    """Return the only step of a pasted row that spans several lines; None if it is not such a row."""
    means = {_means(name) for shape in shapes for name in shape.names if not declared(name)} - {""}
    if any(len(shape.lines) > 1 for shape in shapes) or len(means) < _LEAST_METRICS or not means & _TRAINS:
        return None
    return _Timeline(np.array([shapes[0].order[0]]), np.array([step]), breaks)


def _of_origin(shapes: dict[_Key, Shape], origin: int) -> dict[_Key, Shape]:
    """Return the lines of one process."""
    kept = {key: np.array(shape.origins) == origin for key, shape in shapes.items()}
    return {key: shapes[key].only(lines) for key, lines in kept.items() if lines.any()}


def _alike(run: Run, other: Run) -> bool:
    """Return whether two runs of the same steps have the same numbers."""
    return run.columns.keys() == other.columns.keys() and all(
        column.dtype == object or np.array_equal(column, other.columns[name], equal_nan=True)
        for name, column in run.columns.items()
    )


def _means(name: str) -> str:
    """Return the field that a name means, empty if none."""
    found = resolve(name)
    return found[0].field if found else ""
