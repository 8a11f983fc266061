"""Renders a fleet on a terminal: verdicts, settings and the best runs, then one line per run, grouped by cause."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from ..diagnosis.wording import counted
from ..report.model import Options
from ..report.redaction import one_line
from ..report.terminal import VERDICT, Name, Screen, bullet, title
from .merge import UNTOLD
from .overview import Cause, Overview, effects_words, unit_of, verdict_words
from .planning import Plan
from .separating_settings import Effect, Value
from .store import Answered

STYLE = VERDICT | dict.fromkeys(UNTOLD, VERDICT["failing"])
EACH = 8
"""Maximum number of runs per cause without --full, which prints all runs."""
SETTINGS = 6
"""Maximum number of settings that --full shows with a table. Without --full, only one setting has a table."""


def render(overview: Overview, options: Options) -> str:
    """Render the fleet as text."""
    screen = Screen(options)
    for part in _parts(overview, options):
        screen.print(part)
    return screen.text


def answer(asked: Answered, options: Options) -> str:
    """Render the result of an SQL query as a table."""
    screen, grid = Screen(options, 100), _grid(*asked.head)
    for row in asked.rows:
        grid.add_row(*(Text(one_line(_word(cell))) for cell in row))
    screen.print(grid)
    return screen.text


def _parts(overview: Overview, options: Options) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(verdict_words(overview), style="bold")]
    parts += [title("Settings"), *map(bullet, map(one_line, effects_words(overview)))]
    parts += [_shares(effect, overview.metric) for effect in overview.effects[: SETTINGS if options.full else 1]]
    if overview.leaders:
        parts += [title(f"Best runs by {unit_of(overview.metric)} (without failing runs)"), _leaders(overview)]
    if overview.plan is not None:
        parts += [title(f"Detecting a gain of {overview.plan.gain:g}"), *_plan(overview.plan)]
    parts.append(title("Runs"))
    for cause in overview.causes:
        parts.append(_runs(overview, cause, options))
    return parts


def _runs(overview: Overview, cause: Cause, options: Options) -> RenderableType:
    onset = "" if cause.onset is None else f", since step {cause.onset:.0f} (median)"
    name = f"{cause.code} {cause.name}" if cause.code else ""
    head = Text.assemble(
        (f" {cause.verdict.upper()} ", STYLE.get(cause.verdict, "bold reverse")),
        f" {name}",
        (f"  {counted(cause.runs, 'run')}{onset}", "dim"),
    )
    shown = cause.runs if options.full else min(cause.runs, EACH)
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(max_width=options.width // 2)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for number in range(cause.first, cause.first + shown):
        line = overview.lines[number]
        since = f"since {line.onset_step}: " if line.onset_step is not None and cause.code else ""
        grid.add_row(Name(overview.names[number]), Text(one_line(f"{since}{line.headline}"), style="dim"))
    parts: list[RenderableType] = [head, Padding(grid, (0, 0, 0, 2))]
    if shown < cause.runs:
        parts.append(Text(f"  … and {cause.runs - shown} more (--full)", style="dim"))
    return Group(*parts)


def _shares(effect: Effect, metric: str | None) -> RenderableType:
    grid = _grid(effect.setting, "runs", "failing", f"median {unit_of(metric)}" if metric else "", "median onset")
    for value in effect.values:
        grid.add_row(*map(Name, cells(value)))
    return Padding(grid, (0, 0, 0, 4))


def cells(value: Value) -> list[str]:
    """Return the table cells for one value of a setting."""
    return [one_line(value.value), str(value.runs), f"{value.share:.0%}", _word(value.reward), _word(value.onset)]


def _leaders(overview: Overview) -> RenderableType:
    grid = _grid("", unit_of(overview.metric), "best", "verdict", "run")
    for rank, number in enumerate(overview.leaders, 1):
        line = overview.lines[number]
        level = line.levels[overview.metric or ""]
        error = f" ± {level.error:.2g}" if level.error == level.error else ""
        cells = (str(rank), f"{level.now:.4g}{error}", _word(level.best), line.verdict, overview.names[number])
        grid.add_row(*map(Name, cells))
    return Padding(grid, (0, 0, 0, 2))


def _plan(plan: Plan) -> list[RenderableType]:
    parts: list[RenderableType] = [*map(bullet, map(one_line, plan.words))]
    if plan.choices:
        grid = _grid("averaged steps", "spread of seeds", "seeds per setting", "seeds (cautious)")
        for c in plan.choices:
            grid.add_row(f"{c.steps:,} steps", f"{c.spread:.3g}", *map(_seeds, (c.seeds, c.cautious)))
        parts.append(Padding(grid, (0, 0, 0, 4)))
    return parts


def _seeds(number: int | None) -> str:
    return "> 1000" if number is None else str(number)


def _word(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _grid(*head: str) -> Grid:
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in head:
        grid.add_column(Name(one_line(name)))
    return grid
