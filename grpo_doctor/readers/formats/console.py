"""Reads a trainer's console output. Each line is passed to the format that recognises it, and the format with the most
values is used.

Lines of known trainers take precedence. Before the first such line, the general reader tries every line that contains a
number. Trainers also print completions, so a line counts only if it is similar to other lines.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ...run import Run
from .. import before_after
from ..aliases import resolve
from ..before_after import BeforeAfter
from ..endings import TAIL, conclude, ending
from ..input import PARTED, Head, Input, NotRead, decoded, lines_with, pieces
from ..known_warnings import ERRORS, Errors, metric, refused, sign, skipped
from ..row_buffer import Rows
from ..row_kinds import OF_SWEEPS, flat
from ..settings import declared
from ..values import number
from . import keyvalue, pairs, trl_console, verl_console
from .wrapped import Wrapped

FORMAT = "console"
_LONGEST = 1 << 16
"""Maximum size of a line of metrics in bytes. Longer lines are texts."""

_BRACE, _PERCENT = b"{%"
"""The bytes ``{`` and ``%`` as integers, because Python finds an integer in bytes several times as fast as a byte
string."""
_STEP_ALONE = re.compile(
    r"[\W_]*(?:(?:global|train(?:ing)?|optimizer)[ _])?(?:step|iter(?:ation)?|update)\W{1,3}(\d{1,12})"
    r"(?: ?(?:/|of) ?\d{1,12})?[\W_]*",
    re.IGNORECASE,
)
"""A heading: a line that contains only the number of a step."""
_STEPPED = re.compile(r"['\"](?:global_)?step['\"]:")
"""The key of the step in a row that contains its own step."""
_HEADING, _BELOW = 80, 2
"""`_HEADING`: maximum number of bytes of a heading. `_BELOW`: maximum distance in lines between a heading and its
row."""
_FEWEST = 5
"""Minimum number of rows of an RL run in lines that a known trainer did not print."""
_AGREE = "rollout_"
"""Prefix of fields that compare the sampler and the trainer."""
_FAILS = b"tensor contains"
"""Text in the error message of a policy that has become NaN."""
_SETS = b"actor_rollout_ref."
"""Text in the overrides of settings, which verl and Hydra print at the start or with an error."""
_PRINTED_BY = re.compile(rb"\([\w./:-]{1,80},? ?pid=\d{1,10}")
"""The prefix that Ray adds to the lines of each process."""
_RANK = re.compile(rb"\[(?:rank|default|trainer)[ :]?(\d{1,5})(?:\|\d{1,5})?\]", re.IGNORECASE)
"""The prefix that torchrun and accelerate add to the lines of each process."""


_NAMES = re.compile(r"[A-Za-z]\w*\s?[:=] ?[-+.\d]")
"""A name with a number before a mapping on the same line."""


def sniff(head: Head) -> int:
    return 0 if head.binary else 1


def read(file: Input) -> list[Run]:
    console, settled, failed, compared = _Console(file), False, Errors(), BeforeAfter()
    tail: list[tuple[int, bytes]] = []
    for first, lines in file.blocks():
        tail = [*tail, *enumerate(lines[-TAIL:], first + max(len(lines) - TAIL, 0))][-TAIL:]
        whole = b"\n".join(lines)
        plain, steps = not any(mark in whole for mark in PARTED), whole.find(b"step:") >= 0
        holds, tagged = whole.find(_FAILS) >= 0 or whole.find(_SETS) >= 0, whole.find(b"pid=") >= 0
        compared.see(first, whole)
        for line, raw in lines_with(ERRORS, first, whole):
            failed.see(line, file.texts(raw[:_LONGEST])[-1])
        for line, raw in enumerate(lines, first):
            if tagged and raw[:1] == b"(":
                console.printed(raw)
            if steps and raw.find(b"step:") >= 0:
                console.unwrap()
                if console.steps.quick(line, raw):
                    continue
            elif settled and _BRACE not in raw and _PERCENT not in raw and not console.speaks(raw, holds):
                continue
            for piece in (raw,) if plain else pieces(raw):
                console.take(line, piece)
            settled = console.settled
    comparisons = compared.found()
    console.general.compared = {line for comparison in comparisons for line in comparison.lines}
    runs = console.best()
    runs += _elsewhere(file, runs, {*console.trl.lines, *console.verl.lines})
    failed.conclude(runs)
    if not file.embedded:
        before_after.conclude(runs, comparisons)
    last = max(runs, key=lambda run: int(run.lines[-1]) if len(run) else 0)
    console.bars.tell(last)
    texts = [(line, text) for line, raw in tail for text in file.texts(raw)]
    last.notes += skipped([text for _, text in texts])
    end = ending(texts, int(last.lines[last.lines != console.torn].max(initial=0)))
    if end is not None and file.completed and end.kind not in ("finished", "interrupted"):
        end = None
    if end is not None and file.embedded:
        end.line = 0
    conclude(last, end)
    return runs


def _elsewhere(file: Input, known: list[Run], own: set[int]) -> list[Run]:
    """Return the RL runs in lines that a known trainer did not print, if its own lines are about another kind of
    training."""
    if any(run.run_type == "rl" for run in known) or not any(map(len, known)) or known[0].format == keyvalue.FORMAT:
        return []
    general = keyvalue.General(Input(file.path, file.mapping, shown=file.source))
    for line, raw in file.raw_lines():
        for piece in map(trl_console.unfilled, pieces(raw) if line not in own else ()):
            if len(piece) <= _LONGEST and not general.quick(line, piece):
                general.see(line, decoded(piece), plain=True)
    return [run for run in general.finish() if run.run_type == "rl" and len(run) >= _FEWEST]


def _said(text: str) -> dict[str, float]:
    """Return the metrics of a line before its mapping, as in ``rl_loss: 0.2, entropy: 0.8, rewards: {…}``."""
    before, _, mapping = text.partition("{")
    return pairs.metrics(before) if "[" not in mapping and _NAMES.search(before) else {}


def _settings(row: Mapping[str, Any]) -> bool:
    """Return whether at least half of the known keys of a mapping are settings, not metrics."""
    known = [key for key in flat(row) if declared(key) or resolve(key)]
    metrics = [key for key in known if not declared(key) and resolve(key)[0].field not in OF_SWEEPS]
    return len(known) > 2 * len(metrics)


def of_texts(file: Input, texts: Iterable[tuple[int, str]]) -> list[Run]:
    """Return the runs of a console whose lines are embedded in another format."""
    console = _Console(file)
    for line, text in texts:
        console.take(line, text.encode())
    return console.best()


class _Console:
    def __init__(self, file: Input) -> None:
        self.trl = Rows(file, trl_console.FORMAT)
        self.verl = Rows(file, verl_console.FORMAT)
        self.steps = verl_console.Lines(self.verl)
        self.wrapped = Wrapped()
        self.general = keyvalue.General(file)
        self.warned, self.refused = Rows(file, trl_console.FORMAT), Rows(file, verl_console.FORMAT)
        """Metrics in warnings of TRL and verl, for runs whose metrics were logged only to a tracker."""
        self.config = verl_console.Config()
        self.bars = trl_console.Bars()
        self.last, self._rank = "", b""
        self._known = self._by_bar = self._looks = False
        self.settled = False
        """Whether a known trainer printed the log, so that lines of other forms need not be searched."""
        self._origins: dict[bytes, int] = {}
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=1 + _BELOW)
        """The last lines that are as short as a heading, with their line numbers."""
        self.headed = False
        """Whether the step of a row is in a heading above the row."""
        self._early: list[tuple[dict[str, Any], int, float | None]] = []
        self._rewarded = False
        self.epochs = False
        self.rollouts: list[int] = []
        self.torn = 0
        """Line number of the incomplete row at the end of the log; 0 if there is none."""

    @property
    def _busy(self) -> bool:
        """Return whether the reader is inside a row or mapping that spans several lines."""
        return bool(self.config.open or self.wrapped.open)

    def take(self, line: int, raw: bytes) -> None:
        """Read one line, or a part of a line between carriage returns."""
        if len(raw) > _LONGEST or (raw[:1] == b"[" and raw[1:2].isalpha() and self._of_another_process(raw)):
            return
        if _PERCENT in raw and b"%|" in (raw := trl_console.unfilled(raw)):
            if self.bars.see(decoded(raw)):
                self.trl.end()
            self.trl.reach(line, self.bars.position, self.bars.total)
            if self._known and _BRACE not in raw:
                return
        if len(raw) < _HEADING:
            self._recent.append((line, raw))
        if self._looks or not self.general.quick(line, raw):
            self._take(line, decoded(raw))
            self._settle()

    def _settle(self) -> None:
        """Update the flags that determine how the next lines are read."""
        busy = self._busy
        self._looks = self._known or busy
        self.settled = self._known and not busy

    def _take(self, line: int, text: str) -> None:
        for at, whole in self.wrapped.take(line, text):
            for row in trl_console.several(whole) or [whole]:
                self._see(at, row)

    def _see(self, line: int, text: str) -> None:
        if "step:" in text and " - " in text and self.steps.see(line, text):
            self._known = True
            return
        if "actor_rollout_ref." in text:
            self.declare(verl_console.overrides(text))
        if "TrainOutput(" in text and (trained := trl_console.TRAINED.search(text)):
            self.trl.reach(line, int(trained[1]), int(trained[1]))
        if ("{" in text or self.config.open) and self._of_mapping(line, text):
            return
        warns = self._warns(line, text)
        if not self._known:
            self.general.see(line, text, not (self._busy or warns))

    def _of_mapping(self, line: int, text: str) -> bool:
        """Read a line that contains a mapping, or is part of a mapping. Return False for any other line."""
        if (found := trl_console.mapping(text)) is not None and self._mapping(line, text, *found):
            return True
        if config := self.config.see(text):
            self._printed(line, config)
        return self.config.took

    def speaks(self, raw: bytes, holds: bool) -> bool:
        """Return whether a line without a mapping must be read although the trainer is known. ``holds`` is true if any
        line of the block contains text of an error or of overrides."""
        return (holds and (raw.find(_FAILS) >= 0 or raw.find(_SETS) >= 0)) or (
            self.headed and _STEP_ALONE.fullmatch(decoded(raw)) is not None
        )

    def _warns(self, line: int, text: str) -> bool:
        """Record a warning, and any metric that the warning contains. Return False for any other line."""
        if (message := sign(text)) is not None:
            for rows in (self.trl, self.verl, self.general.rows, self.warned):
                rows.event("log-warning", message, line)
        told, withheld = (metric(text), refused(text)) if not self._known else ({}, {})
        if told:
            self.warned.add(told, line)
        if withheld:
            self.refused.add(withheld, line)
        return bool(message or told or withheld)

    def unwrap(self) -> None:
        """Read the buffered row that may have been continued on the next line."""
        if self.wrapped.open:
            for at, text in self.wrapped.end():
                self._see(at, text)
            self._settle()

    def _take_torn(self) -> None:
        """Add the complete part of an incomplete row at the end of the log."""
        whole = self.wrapped.torn() if self._known else ""
        row = trl_console.row(whole) if whole else None
        if row is not None and trl_console.updates(row) and self.trl.add(row, self.wrapped.line, self.bars.position):
            self.torn = self.wrapped.line
            told = f"line {self.torn} is incomplete: its last value and everything after it were not read"
            self.trl.notes.append(NotRead(told))

    def printed(self, raw: bytes) -> None:
        """Set the process that prints the following rows, from the prefix of a line."""
        found = _PRINTED_BY.match(raw)
        if found is None:
            return
        process = found[0]
        origin = self._origins.setdefault(process, len(self._origins) + 1)
        if origin != self.trl.origin:
            self.unwrap()
            self.trl.flush()
            self.verl.flush()
            self.trl.origin = self.verl.origin = origin

    def _of_another_process(self, raw: bytes) -> bool:
        """Return whether a line has the prefix of another process of the job. Other processes repeat the lines of the
        first process."""
        rank = _RANK.match(raw)
        if rank is None:
            return False
        self._rank = self._rank or rank[1]
        return rank[1] != self._rank

    def _mapping(self, line: int, text: str, body: str, before: str) -> bool:
        """Read a mapping as a row of metrics or as settings. Return False if the mapping cannot be parsed."""
        step, of_rollout = self._step(line, body, before)
        if text == self.last or ("epoch" in body and self.last.endswith(body)):
            return True  # each process prints the same row, perhaps after its rank
        said = _said(text)
        at = step if step is not None else self.bars.position
        self._by_bar |= at is not None and step is None
        raw = trl_console.json(body).encode()
        if not of_rollout and not said and self.trl.quick(raw, line, at):
            self.last = text
            return True
        row = trl_console.row(body)
        if row is None:
            return False
        row = {**said, **row}
        if "train_runtime" in row:
            self.trl.add(row, line, at)
            self.trl.reach(line, self.bars.total, self.bars.total)
            self.bars = trl_console.Bars()
            return True
        self.last = text
        if _settings(row):
            self._declare_below(line, text, row)
            return True
        if step is None and self.trl.file.mapping.keys().isdisjoint(row) and self._of_a_response(row, line, at):
            return True
        self._take_early(trl_console.rewards(row))
        if self.trl.add(row, line, at):
            if of_rollout:
                self.rollouts.append(len(self.trl) - 1)
            else:
                self.trl.learn(row, raw, at, strict=False)
            self._known |= trl_console.updates(row)
            self.epochs |= "epoch" in row
            self.bars.settle()
        else:
            self._declare_below(line, text, row)
        return True

    def _of_a_response(self, row: dict[str, Any], line: int, at: float | None) -> bool:
        """Return whether a mapping without a step is not a row, because it has no known metric, or only the rewards of
        a single response. The rewards are kept until an update is read."""
        if not trl_console.tells(row) or (self.epochs and "epoch" not in row):
            self.general.pass_over(key for key, value in row.items() if number(value) is not None)
            return True
        if trl_console.updates(row):
            return False
        if not self._rewarded:
            self._early.append((row, line, at))
        return True

    def _declare_below(self, line: int, text: str, row: dict[str, Any]) -> None:
        """Read a mapping that is not a row as settings, and the text before the mapping as a line."""
        self.declare(row)
        before = text.partition("{")[0]
        if _NAMES.search(before):
            self.general.see(line, before)

    def _step(self, line: int, body: str, before: str) -> tuple[float | None, bool]:
        """Return the step of a mapping, from the text before it or from a heading above it, and whether the step counts
        rollouts."""
        step, of_rollout = trl_console.counted(before)
        if step is None and not _STEPPED.search(body):
            above = (_STEP_ALONE.fullmatch(decoded(raw)) for at, raw in self._recent if 0 <= line - at <= _BELOW)
            step = next((float(heading[1]) for heading in reversed([*above]) if heading), None)
            self.headed |= step is not None
        return step, of_rollout

    def _take_early(self, rewarded: bool) -> None:
        """Add the kept rows that have a reward but no update. If updates also have rewards, the kept rows are single
        responses and are dropped."""
        self._rewarded |= rewarded
        for row, line, at in () if self._rewarded else self._early:
            self.trl.add(row, line, at)
        self._early.clear()

    def _printed(self, line: int, mapping: dict[str, Any]) -> None:
        """Read a mapping that spans many lines. A mapping of only numbers is a row of metrics; any other mapping is a
        configuration. If a mapping only compares the sampler and the trainer, as in XTuner, other lines contain the
        metrics.
        """
        metrics = [key for key in mapping if resolve(key) and not declared(key)]
        if metrics and all(resolve(key)[0].field.startswith(_AGREE) for key in metrics) and not self._known:
            for key, value in mapping.items():
                self.general.see(line, f"{key}: {value}")
        elif len(metrics) > 1 and all(number(value) is not None for value in mapping.values()):
            self._known |= self.trl.add(mapping, line, trl_console.counted(self.config.before)[0])
        else:
            self.declare(mapping)

    def declare(self, config: Mapping[str, object]) -> None:
        for rows in (self.trl, self.verl, self.general.rows):
            rows.declare(config)

    def best(self) -> list[Run]:
        """Return the runs of the format that read the most values."""
        self._take_torn()
        self.unwrap()
        self._take_early(rewarded=False)
        self.trl.flush()
        self.verl.flush()
        if self.rollouts:
            self.trl.join(self.rollouts)
        self.trl.by_bar = self._by_bar
        known = max((self.verl, self.trl), key=lambda rows: len(rows) * len(rows.columns))
        if len(known) and (len(known.columns) > 1 or known is self.verl):  # the only result may be one held-out score
            return known.runs()
        runs = self.general.finish()
        alone = max((known, self.warned, self.refused), key=len)
        return runs if any(len(run) for run in runs) else alone.runs() if len(alone) else runs
