"""The console of a trainer: each line goes to the format that knows it, and the surest format wins.

Lines of known trainers are read first; while none has shown up, the general reader looks at every line that has a
number in it. Completions are printed between the metrics, so a line must look like its neighbours to count.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..run import Run
from . import Head, Input, keyvalue, trl_console, verl_console
from .rows import Rows

FORMAT = "console"
_LONGEST = 1 << 16
"""Characters of a metrics line at most; longer ones are texts."""


def sniff(head: Head) -> int:
    return 0 if head.binary else 1


def read(file: Input) -> list[Run]:
    console, settled = _Console(file), False
    for line, raw in file.raw_lines():
        if settled and b"{" not in raw and b"step:" not in raw and b"%|" not in raw:
            continue
        for text in file.texts(raw):
            if len(text) <= _LONGEST:
                console.see(line, text)
        settled = console.settled
    return [console.best()]


class _Console:
    def __init__(self, file: Input) -> None:
        self.trl = Rows(file, trl_console.FORMAT)
        self.verl = Rows(file, verl_console.FORMAT)
        self.steps = verl_console.Lines(self.verl)
        self.general = keyvalue.General(file)
        self.config = verl_console.Config()
        self.bars = trl_console.Bars()
        self.last = ""
        self._known = False
        self.epochs = False

    @property
    def settled(self) -> bool:
        """Whether a known trainer prints here, so that other lines need no look."""
        return bool(self._known) and not self.config.open

    def see(self, line: int, text: str) -> None:
        if "step:" in text and " - " in text and self.steps.see(line, text):
            self._known = True
            return
        if "{" in text or self.config.open:
            if (dictionary := trl_console.row(text)) is not None:
                self._mapping(line, text, *dictionary)
                return
            if (self.config.open or "{'" in text) and (config := self.config.see(text)):
                self.declare(config)
            if self.config.open:
                return
        if "%|" in text:
            self.bars.see(text)
        if "actor_rollout_ref." in text:
            self.declare(verl_console.overrides(text))
        if not self._known:
            self.general.see(line, text)

    def _mapping(self, line: int, text: str, row: dict[str, object], step: float | None) -> None:
        if text == self.last:  # every process of a job prints the same row
            return
        self.last = text
        if step is None and self.epochs and "epoch" not in row:  # a mapping in a completion
            return
        if self.trl.add(row, line, step if step is not None else self.bars.position):
            self._known = True
            self.epochs |= "epoch" in row
        else:
            self.declare(row)

    def declare(self, config: Mapping[str, object]) -> None:
        for rows in (self.trl, self.verl, self.general.rows):
            rows.declare(config)

    def best(self) -> Run:
        """The run of the format that understood most."""
        self.steps.finish()
        known = max((self.verl, self.trl), key=lambda rows: len(rows) * len(rows.columns))
        if len(known.columns) > 1 and len(known):
            known.settle()
            return known.run()
        return self.general.finish()
