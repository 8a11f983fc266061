"""The general reader: reads metrics that custom trainers print as ``key: value``, ``key=value`` or ``key value``.

The reader works for any trainer. A line with numbers has a shape: the names before its numbers. Repeated shapes whose
names mean record fields are metrics. The alias table contains names in several languages. The step is in the line
itself (``iter 12``, ``[12/500]``, ``第12步``) or in a heading above the line. Headings must count up, because a model's
answers may also contain ``Step 1: … Step 2: …``.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np

from ...run import Run
from ..aliases import GUESSED, WEAK_STEP_KEYS, counts_as, is_step, is_weak, of_another, resolve, words
from ..input import Input, NotRead, decoded
from ..reading import chosen
from ..row_buffer import Numbers, Rows
from ..row_kinds import EVAL, OF_RL, OF_SETTINGS, SAYS_ENOUGH, component, says
from ..settings import declared
from ..steps import excursions
from .line_templates import ONCE, Template, figures, key, silent
from .pairs import NUMBER, counter_first, pairs, picked, plain, said
from .prose_filter import Essay
from .repeated_lines import Shape, counts_up, is_metric
from .templates import mine
from .timeline import Timeline

FORMAT = "key-value-console"

_ATTACHED = re.compile(r"(step|iter|iteration|update|epoch|\b(?:it|ep|upd))(?=\d)", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_GLUED = re.compile(r"\d(?<=[A-Za-z].)")
_OF_RL = frozenset("kl kl_loss policy_loss clip_fraction ratio_mean advantage_mean advantage_std success_rate".split())
"""Fields that occur only in RL; next to such a field, a bare ``R`` means the reward."""
_BARE = {"R": "reward", "R std": "reward std", "r": "reward", "r std": "reward std"}
_OF_RECALL = frozenset("P p F F1 f1 precision Precision".split())
_BESIDE_BARE = 3
"""Minimum number of other names on a line at which a bare ``R`` is a metric."""
_TRAINS = frozenset("reward_mean reward_std grad_norm kl policy_loss".split())
_LETTERS = re.compile(r"[^\W\deE_]")
"""Letters other than the E of an exponent. A line that contains only numbers has none of them."""
_LEAST_NAMELESS = 3
"""Minimum number of lines with only numbers at which they are reported if no row was read."""
_SHORTEST_START = 8
"""Minimum number of characters, excluding numbers, of a line that marks the start of a program."""
_STARTS, _SAME_START = 3, 0.2
"""`_STARTS`: minimum number of repeated lines from the program's start for the program to count as restarted.
`_SAME_START`: minimum share of repeated lines among all lines from the program's start."""
_FEWEST_ROWS = 5
"""Minimum number of rows at which a process counts as training."""
_HELD_OUT_TWICE = 2
"""Minimum number of evaluation lines of one shape. Two lines are enough: one before and one after training."""
_LEAST_METRICS = 4
"""Minimum number of metrics in a pasted row whose lines each occur once. At least one metric must be specific to
training."""
_HELD_OUT = re.compile(
    r"(?:^\W*|(?:info|debug)\W+|^\W*(?:it|iter|iteration|step|update|epoch|round)?\W?\d{1,9}\W{1,3})"
    r"(?:eval|evaluation|val|validation|test)\b"
    r"(?:\s*[|\])@]|\s+#\d|\s*:(?!\s*[-+.\d])|\s*:\s*\d{1,3}%\||\s+(?:step|iter|iteration|epoch|at|after|results?|metrics)\b)"
    r"|[\[(](?:eval|evaluation|val|validation|test)[\])]|\bevaluated (?:\S{1,60} in \d|\W?(?:step|iter|epoch)\b)"
)
"""Start (in lowercase) of a line about an evaluation, perhaps after a counter. The metrics on such a line do not
describe training."""
_ANNOUNCED = re.compile(
    r"\b(?:evaluating|validating|running (?:evaluation|validation))\b"
    r"(?:[^\w:=]*$|\s?(?:\.\.\.|…)|[^:=]{1,40}\bepoch \d{1,6}/\d{1,6}\W*$)",
    re.IGNORECASE,
)
"""End of a line that announces an evaluation, up to its dots, or up to its epoch, as in DeepSpeed-Chat. The next
metrics belong to the evaluation."""
_OF_A_SAMPLE = re.compile(
    r"\W*(?:sample|completion|response|candidate|generation|answer)\s?[#(\[]?\s?\d{0,6}(?:/\d{1,6})?[)\]]?\s?[:|]",
    re.IGNORECASE,
)
"""Start of a line about one response. The reward on the line is part of the reward of the step."""
_ITS_TEXT = re.compile(
    r"[;,|]\s*(?:response|completion|generation|answer|output|prediction|text)\s?[:=]", re.IGNORECASE
)
"""Start of a response's text after its reward."""
_STATEMENT = re.compile(r"\s+return\s")
"""Start of a statement in the code of a response, whose value is not a return of RL."""
_OF_AN_ENVIRONMENT = re.compile(
    r"\b(?:action|reward)\b.{1,400}\b(?:done|terminated)\s?[:=]\s?(?:true|false)\b", re.IGNORECASE
)
"""A step of an environment, as in OpenEnv's transcripts. The reward of an environment's step belongs to one action, not
to an update."""
_HEADING = re.compile(r"(\s*)(?:[^\w\s]{0,3}\s?(\w[\w /]{0,40}?)\s?(?:\([^()]{1,60}\))?\s?|([a-z][\w./@-]{0,80})):\s*")
"""A heading: a line that names the indented statistics below it."""
_KEY = re.compile(r"[a-z][\w./@-]*")
"""A heading that is a YAML key. The names below a YAML key are parts of paths, because EasyR1 splits verl's names at
slashes."""
_STATISTICS = frozenset("mean std min max median total overall sum".split())
_LONGEST_LINE = 4096
_RARELY = 0.01
"""Frequency of a shape, as a share of the most frequent shape, below which its lines may be completions."""
_MOST_SHAPES = 20_000
_MOST_OTHERS = 1000


@lru_cache(maxsize=4096)
def _of_rl(name: str) -> bool:
    """Return whether a name means a field that supervised training does not have."""
    return any(alias.field in _OF_RL for alias in resolve(name))


def _bare_reward(text: str, names: Sequence[str]) -> bool:
    """Return whether a bare ``R`` is probably the reward, because it is in a progress bar or among other metrics.
    Recall appears next to precision, and the rank of an adapter appears among settings."""
    alone = _OF_RECALL.isdisjoint(names) and not any(map(declared, names))
    return alone and ("%|" in text or (sum(map(bool, names)) > _BESIDE_BARE and not any(" " in name for name in names)))


_PREFIXED = frozenset(bytes([byte]) for byte in b"0123456789[(")
"""First bytes of a line that may begin with a time or a process name."""
_PROCESS = re.compile(r"(?:\[\d{1,2}m)?(\([\w./:@-]{1,80},? ?(?:pid|ip|rank)=[^()]{1,60}\))(?:\[\d{1,2}m)? ?")
"""The prefix that Ray adds to the lines of each process, possibly with remains of colour codes."""
_CLOCK = re.compile(r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?\]?[:,]? ?(?:- )?")
"""The time at the start of a line, as written by loggers and containers."""
_HEAD = ("step", "epoch")
_Heads: TypeAlias = "dict[str, Shape]"
"""Headings by the text before their number. The shape of a heading contains its steps and epochs."""


_Picks: TypeAlias = "Sequence[tuple[int, float]] | None"
"""The positions of the numbers of a line that are used, each with its divisor; None if the positions depend on the
digits."""


class _Taken(NamedTuple):
    """The numbers that are used from all lines that differ only in digits. Each number has a position on the line and a
    divisor, or is None if it is missing. ``unread`` contains the unused names."""

    shape: Shape | None = None
    picks: Sequence[tuple[int, float] | None] = ()
    unread: tuple[str, ...] = ()
    metric: bool = False


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
        self.compared: set[int] = set()
        """Lines with a score before or after the training, which are not rows."""
        self._startup: set[bytes] = set()
        self._starting: set[bytes] = set()
        self._rowed = False
        self._starts: list[int] = []
        self._others: Counter[str] = Counter()
        self._announced = self._follows = False
        self._path: list[tuple[int, str]] = []
        """Indentation and name of each heading that encloses the current line, the outermost first."""
        self._path_origin = 0
        self._templates: dict[bytes, Template] = {}
        self._essay = Essay(file.path.name)
        self._listens = self._waits()

    def quick(self, line: int, raw: bytes) -> bool:
        """Read a line of a known template, or a line without metrics. Return False for any other line."""
        if self._listens or len(raw) > _LONGEST_LINE:
            return False
        template = self._templates.get(of := key(raw))
        values: Sequence[float] = ()
        if template is None:
            if (template := silent(raw)) is None:
                return False
            self._add_template(of, template)
        elif template in ONCE:
            template = self._templates[of] = Template(raw, numbered=template.numbered, lines=2)
        elif template.shape is not None and not (values := template.numbers(raw)):
            return False
        else:
            template.lines += 1
        self._order += template.numbered
        if template.metric:
            self._follows = True
            if not template.sets and (self._starting or not self._rowed):
                self._rows_begin()
        else:
            self._follows &= not template.numbered
            if not self._rowed or of in self._startup:
                self._see_start(of)
        if template.shape is not None:
            self._origin = 0
            if raw[:1] in _PREFIXED and raw.find(b"=", 0, 140) >= 0:
                self._without_prefix(decoded(raw))
            template.shape.take(self._order, line, self._origin, values)
        return True

    def _add_template(self, of: bytes, template: Template) -> None:
        """Add a template. If there are too many templates, drop the templates with a single line first."""
        if len(self._templates) >= _MOST_SHAPES:
            often = {k: t for k, t in self._templates.items() if t.lines > 1 or t.shape is not None}
            self._templates = often if len(often) < 0.5 * _MOST_SHAPES else {}
        self._templates[of] = template

    def _learn(self, given: str, text: str, names: tuple[str, ...], taken: _Taken) -> None:
        """Register a template for a line, so that later lines that differ only in their numbers are read quickly."""
        raw = given.encode()
        template = Template(raw, numbered=bool(names))
        template.names, template.metric = taken.unread, taken.metric
        template.sets = taken.metric and self._sets(names)
        if taken.shape is not None:
            template.collects(taken.shape, taken.picks, len(figures(given.removesuffix(text).encode())))
        self._add_template(key(raw), template)

    def see(self, line: int, given: str, plain: bool = False) -> None:
        """Read a line. ``plain`` is true if no other reader needs lines that differ from this line only in their
        numbers."""
        text = self._without_prefix(given)
        self._essay.see(line, text)
        if len(text) > _LONGEST_LINE:
            return
        if ("True" in text or "true" in text or "False" in text or "false" in text) and _OF_AN_ENVIRONMENT.search(text):
            self.rows.seen.update(("action", "done"))
            return
        if "ating" in text and _ANNOUNCED.search(text):
            self._announced, self._follows = True, False
        heading = _heading(text)
        if heading is not None or not NUMBER.search(text):
            self._without_numbers(text, heading)
            self._see_start(key(given.encode()))
            told: tuple[tuple[str, ...], _Taken | None] = (), _Taken()
        else:
            told = self._with_numbers(line, text, key(given.encode()))
        names, taken = told
        self._listens = self._waits()
        if plain and taken is not None and not self._listens:
            self._learn(given, text, names, taken)

    def _waits(self) -> bool:
        """Return whether the meaning of the next line depends on earlier lines."""
        held = self._path or self._announced
        return bool(held or self._essay.document or self.rows.file.mapping)

    def _with_numbers(self, line: int, text: str, words_only: bytes) -> tuple[tuple[str, ...], _Taken | None]:
        """Return the names of the numbers in a line, and the numbers to use from all similar lines."""
        if _STATEMENT.match(text):
            return (), None
        calm, its_text = not self._waits(), _ITS_TEXT.search(text)
        sample = its_text is not None or _OF_A_SAMPLE.match(text) is not None
        given = text[: its_text.start()] if its_text else text
        names, values, picks = picked(text := self._rewritten(given))
        if not any(names):
            if not _LETTERS.search(text):
                self._nameless.append(line)
            return (), None
        names, told = self._named(text, names)
        self._order += 1
        taken: _Taken | None
        if told:
            shape = self._shape(names, sample)
            if not self._sets(names):
                self._rows_begin()
            if shape is not None:
                shape.bar = "%|" in text or "it [" in text
                shape.add(self._order, line, self._origin, values, text)
            taken = _Taken(shape, picks or (), metric=True)
        elif sample:
            return names, None
        else:
            self._see_start(words_only)
            taken = self._headline(line, text, names, values, picks)
        if not calm or taken is None or taken.shape is None:
            return names, taken if calm else None
        return names, _located(taken, given, text) if picks else None

    def _without_prefix(self, text: str) -> str:
        """Return a line without its time and its process name, and store the process that printed the line."""
        if text[:1].isdigit() or text[:1] == "[":
            text = _CLOCK.sub("", text, count=1) if _CLOCK.match(text) else text
        process = _PROCESS.match(text) if "=" in text[:140] and text[:1] in "([" else None
        if process is None:
            self._origin = 0
            return text
        self._origin = self._processes.setdefault(process[1], len(self._processes) + 1)
        return text[process.end() :]

    def _without_numbers(self, text: str, heading: re.Match[str] | None) -> None:
        """Process a line that has no numbers, or is the heading of statistics."""
        if heading is not None:
            name = heading[2] or heading[3]
            subject = name if _KEY.fullmatch(name) else next(filter(is_metric, _beginnings(name)), "")
            if not subject and not EVAL.isdisjoint(name.lower().split()[:1]):
                subject = "eval"
            indent = -1 if text[:1] == "#" else len(heading[1])  # a section of a document has no indentation
            self._leave(indent)
            if subject:
                self._path.append((indent, subject))
                self._path_origin = self._origin
        elif self._origin == self._path_origin:
            self._path.clear()

    def _see_start(self, words_only: bytes) -> None:
        """Record lines that a program prints before its first row. If the lines are repeated later, the program was
        restarted."""
        if self._rowed:
            if words_only in self._startup:
                self._starting.add(words_only)
        elif len(words_only) >= _SHORTEST_START and len(self._startup) < _MOST_OTHERS:
            self._startup.add(words_only)

    def _rows_begin(self) -> None:
        """Record that a row begins. If enough lines of the program's start were repeated before the row, the program
        was restarted."""
        self._rowed = True
        if len(self._starting) >= max(_STARTS, _SAME_START * len(self._startup)):
            self._starts.append(self._order)
        self._starting.clear()

    @staticmethod
    def _sets(names: tuple[str, ...]) -> bool:
        """Return whether a line contains only settings."""
        return all(alias.field in OF_SETTINGS for name in names for alias in resolve(name))

    def _rewritten(self, text: str) -> str:
        """Rewrite a line as pairs of names and numbers. Sentences are shortened, and lists are replaced by their
        means."""
        text = said(text) if " is " in text else counter_first(text)
        return _detached(plain(text) if "[" in text or "(" in text else text)

    def _named(self, text: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        """Return the names, completed with headings and announcements above the line, and whether any name is a metric
        of training or evaluation."""
        names = self._below_headings(text, names)
        if mapped := self.rows.file.mapping:
            names = tuple("step" if mapped.get(name) == "step" else name for name in names)
        if not _BARE.keys().isdisjoint(names) and (any(map(_of_rl, names)) or _bare_reward(text, names)):
            names = tuple(_BARE.get(name, name) for name in names)
        low = text[:120].lower()
        begins = ("val" in low or "test" in low) and _HELD_OUT.search(low) is not None
        held_out = begins or self._announced
        metrics = {name for name in names if is_metric(name) or (held_out and is_metric(f"eval/{name}"))}
        told = bool(metrics) or any(name in mapped for name in names)
        self._announced &= not self._follows or (told and not any(map(is_step, names)))
        self._follows = told
        if told and (begins or self._announced):
            names = tuple(f"eval/{name}" if name in metrics and "eval" not in words(name) else name for name in names)
        return names, told

    def _headline(
        self, line: int, text: str, names: tuple[str, ...], values: Sequence[float], picks: _Picks
    ) -> _Taken | None:
        """Process a line without a metric, which contains the step of the lines below it, settings, or unknown
        names."""
        epoch = next((at for at, name in enumerate(names) if counts_as(name, "epoch")), None)
        kinds: list[Callable[[str], bool]] = [is_step, *(partial(counts_as, word=word) for word in WEAK_STEP_KEYS)]
        for counts in kinds:
            heads = self._heads if counts is is_step else self._weak_heads
            for at, name in enumerate(names):
                if counts(name) and not declared(name):
                    unread = tuple(name for name in names if not is_step(name) and not is_weak(name))
                    counted = values[at], math.nan if epoch is None else values[epoch]
                    self.pass_over(unread)
                    head = self._head(heads, line, text, counted)
                    of = () if picks is None else (picks[at], None if epoch is None else picks[epoch])
                    return None if head is None else _Taken(head, of, unread)
        settings = {} if self._shapes else {i: found for i, name in enumerate(names) if (found := declared(name))}
        for i, setting in settings.items():
            self.rows.set(setting, values[i])
        unread = tuple(name for i, name in enumerate(names) if i not in settings)
        self.pass_over(unread)
        return None if settings else _Taken(unread=unread)

    def pass_over(self, names: Iterable[str]) -> None:
        """Count unknown names, which are reported if they are repeated."""
        for name in names:
            if name and name != "#" and (name in self._others or len(self._others) < _MOST_OTHERS):
                self._others[name] += 1

    def _count_others(self) -> None:
        """Count the names on lines of templates that were not parsed individually."""
        for template in self._templates.values():
            if template.lines > 1:
                silent = not template.names and not template.metric and template.shape is None
                names = pairs(self._without_prefix(decoded(template.text)))[0] if silent else template.names
                for name in {*names} - {"", "#"}:
                    self._others[name] += template.lines - 1 + silent

    def _leave(self, indent: int) -> None:
        """Leave the headings that do not enclose lines with this indentation."""
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()

    def _below_headings(self, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of a line, with the headings that enclose the line as prefixes."""
        if self._path and self._origin == self._path_origin:
            self._leave(len(text) - len(text.lstrip()))
        if not self._path:
            return names
        path = "/".join(name for _, name in self._path)
        if len(names) == 2 and names[1] == "" and is_step(names[0]) and is_metric(path):
            return names[0], path
        return tuple(_below(path, name) if name and not is_step(name) else name for name in names)

    def _shape(self, names: tuple[str, ...], sample: bool) -> Shape | None:
        shape = self._shapes.get((names, sample))
        if shape is None and len(self._shapes) < _MOST_SHAPES:
            shape = self._shapes[names, sample] = Shape(names, sample)
        return shape

    def _head(self, heads: _Heads, line: int, text: str, counted: tuple[float, float]) -> Shape | None:
        match = NUMBER.search(_detached(text))
        kind = " ".join(text[: match.start() if match else 24].split())[-24:]
        if kind not in heads and len(heads) >= _MOST_SHAPES:
            return None
        head = heads.setdefault(kind, Shape(_HEAD))
        head.add(self._order, line, self._origin, counted, text)
        return head

    def finish(self) -> list[Run]:
        """Return the runs of the repeated shapes. If several processes print rows, each process has separate runs."""
        parts = self._processes_apart()
        runs = [run for part in parts for run in part._finish()]
        if not any(map(len, runs)):
            return self._finish()
        first = runs[0]
        same = [run for run in runs if np.array_equal(run.steps, first.steps) and _alike(run, first)]
        if len(same) == len(runs) > 1:
            first.notes.append(f"{len(runs)} processes print the same rows; only the rows of one process are read")
            return [first]
        return runs

    def _processes_apart(self) -> list[General]:
        """Return a reader for each process if the rows of several processes are interleaved; otherwise, an empty
        list."""
        metrics = [shape for shape in self._often() if shape.weight() and not shape.evaluates()]
        if len(self._processes) < 2 or not metrics:
            return []
        order = np.concatenate([shape.order for shape in metrics])
        origins = np.concatenate([shape.origins for shape in metrics])[np.argsort(order)]
        rows = Counter(origins.tolist())  # in the order of their first rows
        printing = [origin for origin, count in rows.items() if count >= _FEWEST_ROWS]
        if len(printing) < 2 or np.count_nonzero(np.diff(origins)) < 2 * len(printing):
            return []
        return [self._of_process(origin) for origin in printing]

    def _of_process(self, origin: int) -> General:
        """Return a reader for the lines of one process."""
        name = next((name for name, number in self._processes.items() if number == origin), "no process named")
        file = self.rows.file
        part = General(Input(file.path, file.mapping, file.notes, shown=f"{file.source} {name}"))
        for held, own in (
            (self._shapes, part._shapes),
            (self._heads, part._heads),
            (self._weak_heads, part._weak_heads),
        ):
            for of, shape in held.items():
                kept = np.array(shape.origins) == origin
                if kept.any():
                    own[of] = shape.only(kept)  # type: ignore[index]
        part._order = self._order
        part.rows.settings.update(self.rows.settings)
        return part

    def _finish(self) -> list[Run]:
        shapes = self._often()
        metrics = {line for shape in shapes for line in shape.lines}
        if said := self._essay.sentences(metrics) | (self.compared & metrics):
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
            self.rows.add_tables((part.rows() for part in parts), self._starts)
        if metrics and self._essay.document and not len(self.rows):
            self.rows.notes.append(NotRead("numbers in prose are not a log; extract the log from the document"))
        elif not len(self.rows):
            self._tell_what_was_not_read()
        self._count_others()
        often = max(3, 0.5 * len(set(self.rows.steps)))
        self.rows.unread.update({name: count for name, count in self._others.items() if count >= often})
        first = self.rows.runs()
        return chosen(first, self._second(first)) if any(map(len, first)) else first

    def _tell_what_was_not_read(self) -> None:
        """Report lines with unnamed numbers, and lines that name a metric, if no row was read."""
        if len(self._nameless) >= _LEAST_NAMELESS:
            told = f"{len(self._nameless)} lines starting at line {self._nameless[0]} have numbers without names"
            self.rows.notes.append(NotRead(f"{told} and were not read; add a header line above them"))
        named = [(s.names[place], line) for s in self._shapes.values() for place in s.fields for line in s.lines]
        if len(named) > 1:
            name, line = named[0]
            told = f"{len(named)} numbers with metric names (the first is {name!r} on line {line})"
            self.rows.notes.append(NotRead(f"{told} were not read, because they do not recur like the steps of a log"))

    def _second(self, first: list[Run]) -> list[Run]:
        """Return the runs of a second reading of the lines, which uses only repeated templates."""
        found = mine(self._often(), [*self._heads.values(), *self._weak_heads.values()])
        if found is None:
            return []
        table, steps = found
        rows = Rows(Input(self.rows.file.path, self.rows.file.mapping, shown=self.rows.file.source), FORMAT)
        rows.seen, rows.numbered = set(self.rows.seen), not np.isnan(steps).all()
        for setting, value in self.rows.settings.items():
            rows.set(setting, value)
        named = [i for i, name in enumerate(table.names) if name != "#" and not is_step(name)]
        names, values = [table.names[i] for i in named], table.values[:, named]
        rows.add_tables([Numbers(names, table.order, table.lines, steps, values, partly=True)], self._starts)
        rows.unread.update(self.rows.unread)
        return rows.runs()

    def _often(self) -> list[Shape]:
        """Return the shapes that occur often enough to be printed by a program, and variants of these shapes with
        additional values at the end. A line of a completion usually occurs only once."""
        shapes = [shape for shape in self._shapes.values() if shape.measures()]
        most = max((len(shape.lines) for shape in shapes), default=0)
        often = [s for s in shapes if len(s.lines) >= min(_HELD_OUT_TWICE if s.evaluates() else 3, 0.5 * most)]
        often = [s for s in often if len(s.lines) >= _RARELY * most or s.evaluates() or s.printed]
        begun = {s.names for s in often if s.counters() and len(s.fields)}
        return often + [s for s in shapes if s not in often and any(s.names[: len(n)] == n for n in begun)]

    def _declare(self, metrics: list[Shape]) -> None:
        """Read lines that occur once and contain only settings, such as ``group_size = 8``. Lines after the last metric
        are a summary, which contains the final value of a schedule."""
        last = max((line for shape in metrics for line in shape.lines), default=math.inf)
        for shape in self._shapes.values():
            if len(shape.lines) == 1 and shape.lines[0] < last and shape not in metrics:
                known = [declared(name) for name in shape.names]
                if all(known):
                    for setting, value in zip(known, shape.values, strict=True):
                        self.rows.set(str(setting), int(value) if value.is_integer() else value)

    def _timeline(self, shapes: list[Shape]) -> Timeline | None:
        """Return the steps and the lines at which they start; None if the lines are not a training log."""
        counting = [s for s in shapes if s.count() is not None]
        if any(not s.bar and s.counter not in s.positions and len(s.lines) > 1 for s in counting):
            # lines contain their step, so progress bars count other items, such as groups of a step or test questions
            shapes[:] = [s for s in shapes if not s.bar]
            counting = [s for s in counting if not s.bar]
        own = sorted(counting, key=Shape.weight, reverse=True)
        line = Timeline.of(own[0]) if own else None
        for shape in own[1:]:
            line = line and line.joined(shape, own[0].weak())
        if line is not None or self._heads:  # lines whose steps do not fit are text
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
            return Timeline(np.array(head.order), np.where(astray, math.nan, steps), epochs)
        shapes = [s for s in shapes if not s.sample]
        main = max((s for s in shapes if says(s.names) >= SAYS_ENOUGH), key=Shape.weight, default=None)
        if main is None or len(main.lines) < (2 if len(main.fields) > 1 else max(10, 0.3 * self._order)):
            step = next((head.values[0] for head in self._heads.values()), None)
            pasted = _pasted(shapes, 1.0 if step is None else step)
            if pasted is not None and step is None:
                self.rows.set("rows", "unnumbered")
            return pasted
        self.rows.numbered = False
        return Timeline(np.array(main.order), np.arange(1.0, len(main.order) + 1))

    def _epochs(self, places: np.ndarray) -> np.ndarray | None:
        """Return the epoch in the heading above each place, as in the output of Keras, or None if there are no such
        headings."""
        for kind, head in self._weak_heads.items():
            epochs = head.table()[:, 0]
            if "epoch" in words(kind) and len(epochs) > 1 and counts_up(epochs):
                above = np.searchsorted(np.array(head.order), places, side="right") - 1
                return np.where(above >= 0, epochs[above], math.nan)
        return None

    @staticmethod
    def _part(shape: Shape, timeline: Timeline) -> _Part:
        """Return the rows of a shape, each with its step. The values of several lines at one step are averaged if the
        lines do not contain the step."""
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


def _heading(text: str) -> re.Match[str] | None:
    """Return the heading of statistics in a line. A line such as ``Step 3:`` is not a heading of statistics."""
    found = _HEADING.fullmatch(text) if text.rstrip()[-1:] == ":" else None
    counts = found is not None and any(is_step(name) or is_weak(name) for name in pairs(text)[0])
    return None if counts else found


def _detached(text: str) -> str:
    """Return a line with a blank between a counter and its number, as in ``step12``."""
    return _ATTACHED.sub(r"\1 ", text) if _GLUED.search(text) else text


def _located(taken: _Taken, given: str, text: str) -> _Taken | None:
    """Return the used numbers with their positions on the original line. Return None if the original line has other
    numbers, or a number that is not written in digits."""
    given = _detached(given)
    found = list(NUMBER.finditer(given))
    numbers = [match[0] for match in NUMBER.finditer(text)]
    if [m[0] for m in found] != numbers or not all(map(_DIGIT.search, numbers)):
        return None
    places = [len(figures(given[: match.start()].encode())) for match in found]
    return taken._replace(picks=[pick and (places[pick[0]], pick[1]) for pick in taken.picks])


def _beginnings(name: str) -> Iterator[str]:
    """Return a name and its first words, the longest part first: ``Reward calculation complete``, …, ``Reward``."""
    found = name.split()
    return (" ".join(found[:count]) for count in range(len(found), 0, -1))


@lru_cache(maxsize=4096)
def _below(path: str, name: str) -> str:
    """Return a name with the path above it if the combination has a meaning; otherwise, the name alone."""
    whole = f"{path}/{name}"
    if any(alias.rank < GUESSED for alias in resolve(whole)) or of_another(path) or words(name) <= _STATISTICS:
        return whole
    return whole if component(whole) and "reward" not in words(name) else name


def _counting(heads: _Heads) -> list[Shape]:
    """Return the headings whose numbers count up."""
    return [head for head in heads.values() if len(head.lines) > 1 and counts_up(head.table()[:, 0])]


class _Part(NamedTuple):
    """Rows of one shape. ``named`` maps the names of metrics to the columns of ``table``. Each row has the index of its
    step, the place at which the step is counted, a line, and a step."""

    named: dict[str, int]
    table: np.ndarray
    at: np.ndarray
    places: np.ndarray
    lines: np.ndarray
    steps: np.ndarray

    def beside(self, steps: np.ndarray, fields: Collection[str]) -> _Part:
        """Return the rows at steps that other lines also have, without fields that other lines contain."""
        own = np.isin(self.at, steps) | (not len(steps))
        named = {name: column for name, column in self.named.items() if _means(name) not in fields}
        return _Part(named, *(part[own] for part in self[1:]))

    def rows(self) -> Numbers:
        """Return the rows of the shape under the names of their metrics."""
        return Numbers([*self.named], self.places, self.lines, self.steps, self.table[:, [*self.named.values()]])


def _pasted(shapes: list[Shape], step: float) -> Timeline | None:
    """Return a timeline with the single step of a pasted row, whose lines each occur once. Return None for other
    logs."""
    means = {_means(name) for shape in shapes for name in shape.names if not declared(name)} - {""}
    if any(len(shape.lines) > 1 for shape in shapes) or len(means) < _LEAST_METRICS or not means & _TRAINS:
        return None
    return Timeline(np.array([shapes[0].order[0]]), np.array([step]))


def _alike(run: Run, other: Run) -> bool:
    """Return whether two runs of the same steps have the same numbers."""
    return run.columns.keys() == other.columns.keys() and all(
        column.dtype == object or np.array_equal(column, other.columns[name], equal_nan=True)
        for name, column in run.columns.items()
    )


def _means(name: str) -> str:
    """Return the field that a name means, or an empty string."""
    found = resolve(name)
    return found[0].field if found else ""
