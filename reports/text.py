"""Renders the report for a terminal: one screen with problem, onset, cause and remedy; ``--full`` shows everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from grpo_doctor import Diagnosis, Finding, Remedy, Withheld
from grpo_doctor.diagnosis import wording
from grpo_doctor.diagnosis.check import Severity, Step
from grpo_doctor.diagnosis.framework import FRAMEWORKS, framework
from grpo_doctor.diagnosis.verdict import weight
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.report.charts import panels
from grpo_doctor.report.model import (  # fmt: skip
    Options,
    begun,
    coverage,
    facts,
    first_screen,
    leading,
    level,
    measured,
    missing,
    named,
    next_run,
    number,
    responses,
    since,
    steps_for,
    story,
    when,
    withheld,
)
from grpo_doctor.report.redaction import one_line
from grpo_doctor.report.terminal import LEVEL, VERDICT, Name, Screen, bullet, rows_per_bar, sparkline, title
from grpo_doctor.run import Table

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

ROWS = 12
"""Maximum number of rows per table; the other formats show all rows."""
ALSO = 8
"""Maximum number of other findings on the screen."""
ASKED = 3
"""Maximum number of answered questions on the screen."""
SERIES = 3
"""Maximum number of series on the screen."""
WIDE, LEAST, GAP = 56, 8, 2
"""Maximum and minimum width of a sparkline, and the gap between the columns of its row."""
MANY = 6
"""Number of runs above which only the summary and the worst run are printed."""
SIDES = {"better": VERDICT["healthy"], "worse": VERDICT["failing"], "mixed": VERDICT["suspect"]}
"""Style of each verdict of a comparison that is not neutral."""
WORST = ("failing", "suspect", "unjudged", "unproven", "healthy")
"""Order of several runs."""


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Render one block per run, the worst first. A summary precedes several runs."""
    screen = Screen(options)
    ordered = sorted(diagnoses, key=lambda d: WORST.index(d.verdict))
    told = ordered if options.full or len(ordered) <= MANY else ordered[:1]
    if len(ordered) > 1:
        screen.print(_summary(ordered, options.width), no_wrap=True, overflow="ignore", crop=False)
        screen.print()
    for diagnosis in told:
        screen.print(_head(diagnosis))
        body = _body(diagnosis, options) if options.full else _screen(diagnosis, options)
        screen.print(Padding(Group(*body), (0, 0, 1, 2)))
    for one in options.suppressions:
        screen.print(bullet(f"{one.kind}: {one.text}", "yellow"))
    if len(ordered) > len(told):
        words = f"{options.rest} shows each run, --run one of a file; grpo-doctor fleet groups them"
        screen.print(Text(words, style="dim"))
    return screen.text


def render_comparisons(comparisons: Sequence[Comparison], options: Options) -> str:
    """Render one block for each setting that is compared with BASE."""
    from grpo_doctor.compare import summary as compared

    screen = Screen(options)
    for found in comparisons:
        verdict = Text(f" {found.verdict.upper()} ", style=SIDES.get(found.verdict, "bold reverse"))
        new, base = compared.names(found)
        screen.print(Text.assemble(verdict, "  ", (new, "bold"), "  against ", base))
        screen.print(Padding(Group(*_comparison(found, options)), (0, 0, 1, 2)))
    return screen.text


def _comparison(found: Comparison, options: Options) -> list[RenderableType]:
    from grpo_doctor.compare import summary as compared

    grid = _grid()
    for name, value in compared.facts(found):
        grid.add_row(name, Name(value))
    parts: list[RenderableType] = [Text(), Text(compared.headline(found), style="bold"), Text(), grid]
    if found.findings:
        parts += [title("Found by the comparison"), _findings(found.findings, remedies=True)]
    for table in compared.tables(found):
        parts += _table(table, options)
    return [*parts, title("Notes"), *map(bullet, found.notes)] if found.notes else parts


def _screen(diagnosis: Diagnosis, options: Options) -> list[RenderableType]:
    """Render the problem, the cause, the remedy, the main series, and one line for each other finding."""
    main, effects, others, notes = story(diagnosis)
    parts: list[RenderableType] = [Text()]
    if main is None:
        parts.append(Text(diagnosis.headline, style="bold"))
        if diagnosis.verdict == "unjudged":  # one or two pasted rows: the user asks about their numbers
            parts += map(bullet, diagnosis.answers[:ASKED])
    else:
        parts += [_first_screen(main, diagnosis, options), *_fix(main, diagnosis)]
    parts += _sparklines(diagnosis, options.width)
    telling = [f for f in (*effects, *others, *notes) if f.level > Severity.INFO]
    if telling:
        parts += [title("Other findings"), _lines(telling[:ALSO])]
    hidden = len(effects) + len(others) + len(notes) - min(len(telling), ALSO)
    return [*parts, *_foot(diagnosis, hidden, options)]


def _fix(main: Finding, diagnosis: Diagnosis) -> list[RenderableType]:
    """Return the first remedy for the framework that wrote the log, and what not to do."""
    parts: list[RenderableType] = []
    if main.remedies:
        steps = steps_for(main.remedies[0], framework(diagnosis.run))[0]
        parts += _steps(steps)
    return parts + [bullet(f"ruled out: {w.title}. {w.because}", "yellow") for w in withheld(diagnosis)]


def _lines(findings: list[Finding]) -> Grid:
    """Return the code, message and onset of each finding."""
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(style="dim", no_wrap=True)
    for finding in findings:
        grid.add_row(Text(finding.code, LEVEL[finding.severity]), Name(finding.message), Text(since(finding)))
    return grid


def _sparklines(diagnosis: Diagnosis, width: int) -> list[RenderableType]:
    """Return the main series over the same steps, with a mark at the onset. Lines do not wrap."""
    drawn = [p for p in panels(diagnosis, SERIES) if p.field != "timeline"]
    if not drawn:
        return []
    rows = [(panel.field, diagnosis.run.column(panel.field)) for panel in drawn]
    ends = [_ends(column) for _, column in rows]
    wide = max(LEAST, min(WIDE, width - 2 - 3 * GAP - max(len(name) for name, _ in rows) - max(map(len, ends))))
    grid = Grid.grid(padding=(0, GAP, 0, 0))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    for (name, column), end in zip(rows, ends, strict=True):
        grid.add_row(Text(name, style="dim"), Text(sparkline(column, wide)), Text(end, style="dim"))
    main = drawn[0].ground.main
    starts = np.empty(0) if main is None else np.flatnonzero(diagnosis.run.steps == main.onset_step)
    if main is None or not len(starts):
        return [Text(), grid]
    at = max(len(name) for name, _ in rows) + GAP + int(starts[0]) // rows_per_bar(len(diagnosis.run), wide)
    words = f"{main.code} from step {main.onset_step}"
    room = at + 2 + len(words) < width - 2
    mark = " " * at + f"▲ {words}" if room else " " * max(at - len(words) - 1, 0) + f"{words} ▲"
    return [Text(), grid, Text(mark, style="red", no_wrap=True)]


def _ends(column: np.ndarray | None) -> str:
    """Return the first and the last value of a series."""
    known = column[np.isfinite(column)] + 0.0 if column is not None else np.empty(0)  # -0.0 becomes 0.0
    return f"{wording.number(known[0])} → {wording.number(known[-1])}" if len(known) else ""


def _foot(diagnosis: Diagnosis, hidden: int, options: Options) -> list[RenderableType]:
    more = f"{counted(hidden, 'more finding')}. " if hidden > 0 else ""
    where = f"{options.rest[:1].upper()}{options.rest[1:]}"
    words = f"\n{more}{where} shows evidence, alternative explanations, tables and skipped checks."
    return [*map(bullet, diagnosis.notes), Text(words, style="dim")]


def _head(diagnosis: Diagnosis) -> Text:
    verdict = Text(f" {diagnosis.verdict.upper()} ", style=VERDICT.get(diagnosis.verdict, "bold reverse"))
    about = ", ".join(value for name, value in facts(diagnosis) if name != "source")
    return Text.assemble(verdict, "  ", (diagnosis.source, "bold"), "  ", (about, "dim"))


def _body(diagnosis: Diagnosis, options: Options) -> list[RenderableType]:
    main, effects, others, notes = story(diagnosis)
    parts: list[RenderableType] = [Text()]
    if main is None:
        parts.append(Text(diagnosis.headline))
    else:
        parts += [_first_screen(main, diagnosis, options), *_remedies(main, withheld(diagnosis))]
        if effects:
            parts += [title(f"Explained by {main.code}"), _findings(effects)]
        parts += _doubts(main)
    if others:
        parts += [title("Other findings"), _findings(others)]
    if notes:
        parts += [title("Notes"), _findings(notes, remedies=True)]
    if todo := next_run(diagnosis):
        parts += [title("Before the next run"), *map(bullet, todo)]
    if diagnosis.answers:
        parts += [title("What the numbers mean"), *map(bullet, diagnosis.answers)]
    for table in diagnosis.tables:
        parts += _table(table, options)
    if options.samples and (shown := responses(diagnosis)):
        parts.append(title(f"Responses at step {shown[0].step}"))
        parts += [bullet(sample.response.replace("\n", " ⏎ ")[:300]) for sample in shown]
    return [*parts, *_coverage(diagnosis, options)]


def _first_screen(main: Finding, diagnosis: Diagnosis, options: Options) -> Grid:
    grid = _grid()
    grid.add_row("what", Text(diagnosis.headline, style="bold"))
    for name, words in first_screen(main, diagnosis, options.gpu_cost).items():
        cell = Text(words, style="bold" if name == "do this" else "")
        cell.highlight_words(
            [main.code, f"({main.severity})"] if name in ("cause", "finding") else [], LEVEL[main.severity]
        )
        grid.add_row(name, cell)
    return grid


def _remedies(main: Finding, withheld: Sequence[Withheld]) -> list[RenderableType]:
    parts: list[RenderableType] = [part for remedy in main.remedies for part in _remedy(remedy)]
    parts += [bullet(f"ruled out: {w.title}. {w.because}", "yellow") for w in withheld]
    return [title("What to change"), *parts] if parts else []


def _doubts(main: Finding) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if main.rivals:
        parts.append(title("Alternative explanations"))
        for rival in main.rivals:
            parts.append(bullet(f"{rival.name}: {rival.why}"))
            parts.append(Padding(Text(f"how to confirm: {rival.separated_by}", style="italic"), (0, 0, 0, 4)))
    if main.invalidates:
        parts.append(title("Do not use"))
        parts += [bullet(text) for text in main.invalidates]
    if evidence := measured(main):
        words = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in evidence.items())
        parts += [title("Evidence"), Padding(Text(words), (0, 0, 0, 2))]
    return parts


def _remedy(remedy: Remedy) -> list[RenderableType]:
    grid = _grid()
    grid.add_row("evidence", Text(remedy.evidence, style="dim"))
    grid.add_row("source", Text(remedy.source, style="dim"))
    return [bullet(remedy.title, "bold green"), *_steps(remedy.steps), Padding(grid, (0, 0, 0, 2))]


def _steps(steps: Sequence[Step]) -> list[RenderableType]:
    """Return the steps of a remedy. Code is placed below the name of its framework, in the full width, so that calls
    are not split."""
    parts: list[RenderableType] = []
    names = [FRAMEWORKS.get(step.who, step.who) for step in steps]
    for name, step in zip(names, steps, strict=True):
        if "\n" in step.do:
            part: RenderableType = Group(Text(name, "dim"), Padding(Text(step.do), (0, 0, 0, 2)))
        else:
            part = _grid(max(map(len, names)))
            part.add_row(name, Text(step.do))
        parts.append(Padding(part, (0, 0, 0, 2)))
    return parts


def _findings(findings: Sequence[Finding], *, remedies: bool = False) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=8, no_wrap=True)
    grid.add_column(ratio=1)
    for finding in findings:
        about = Text.assemble(finding.name, (f"  {level(finding)}, {when(finding)}", "dim"), "\n", finding.message)
        if remedies and finding.remedies:
            about.append("\n→ " + "; ".join(remedy.title for remedy in finding.remedies), style="green")
        grid.add_row(Text(finding.code, style=LEVEL[str(weight(finding))]), about)
    return grid


def _table(table: Table, options: Options) -> list[RenderableType]:
    shown = table.rows if options.verbose else table.rows[:ROWS]
    columns = [*zip(table.head, *shown, strict=True)]
    least = [max(Name(cell).least for cell in column) for column in columns]
    room = options.width - 2 * GAP - GAP * len(columns)
    if sum(least) <= room:
        grid = Grid(box=None, padding=(0, GAP, 0, 0), header_style="dim")
        widths = [max(map(cell_len, column)) for column in columns]
        while sum(widths) > room:
            widths[max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))] -= 1
        for name, width in zip(table.head, widths, strict=True):
            grid.add_column(Name(name), width=width)
        for row in shown:
            grid.add_row(*map(Name, row))
    else:  # too narrow for columns: each row becomes a line of text
        grid = _grid()
        for row in shown:
            told = [f"{name} {cell}" for name, cell in zip(table.head[1:], row[1:], strict=True) if cell]
            grid.add_row(row[0], Text(", ".join(told)))
    parts: list[RenderableType] = [title(table.title), Padding(grid, (0, 0, 0, 2))]
    if len(shown) < len(table.rows):
        parts.append(Text(f"  … and {counted(len(table.rows) - len(shown), 'row')} more (--verbose)", style="dim"))
    return [*parts, Padding(Text(table.note, style="dim"), (0, 0, 0, 2))] if table.note else parts


def _coverage(diagnosis: Diagnosis, options: Options) -> list[RenderableType]:
    parts: list[RenderableType] = [title("Coverage"), Padding(Text(coverage(diagnosis)), (0, 0, 0, 2))]
    if unread := diagnosis.coverage.unread_keys:
        keys = unread if options.verbose else unread[:8]
        more = f" and {len(unread) - len(keys)} more" if len(keys) < len(unread) else ""
        parts.append(bullet(f"log keys not used: {', '.join(keys)}{more}", "dim"))
    if options.verbose:
        parts += _read(diagnosis)
    lacking = missing(diagnosis)
    for needs, codes in lacking if options.verbose else lacking[:3]:
        parts.append(bullet(f"needs {needs}: {', '.join(codes)}", "dim"))
    if len(lacking) > 3 and not options.verbose:
        parts.append(bullet("--verbose names everything that was skipped or not read", "dim"))
    return parts + [bullet(note) for note in diagnosis.notes]


def _read(diagnosis: Diagnosis) -> list[RenderableType]:
    """Return the log keys with their fields, and the settings of the log."""
    run = diagnosis.run
    pairs = [f"{key} → {field}" for key, field in run.mapping.items()] or ["its own fields", *run.columns]
    settings = [f"{name}={value}" for name, value in diagnosis.settings.items()]
    told = (("read as", pairs), ("settings in the log", settings))
    return [bullet(one_line(f"{what}: {', '.join(words)}"), "dim") for what, words in told if words]


def _summary(diagnoses: Sequence[Diagnosis], width: int) -> Text:
    """Return a line for each run, with its full name last. The lines contain the names of checks if they then still
    fit."""
    leaders = [leading(diagnosis) for diagnosis in diagnoses]
    codes = [main.code if main else "" for main in leaders]
    since = [str(first.onset_step) if (first := begun(diagnosis)) else "" for diagnosis in diagnoses]
    runs = named(diagnoses)
    verdicts = [diagnosis.verdict for diagnosis in diagnoses]
    lines: list[list[str]] = []
    for findings in ([f"{main.code} {main.name}" if main else "" for main in leaders], codes):
        columns = (["verdict", *verdicts], ["finding", *findings], ["since", *since], ["run", *runs])
        widths = [max(map(cell_len, column)) for column in columns[:-1]]
        lines = [
            [*(set_cell_size(cell, size) for cell, size in zip(row, widths, strict=False)), row[-1]]
            for row in zip(*columns, strict=True)
        ]
        if max(cell_len("  ".join(line)) for line in lines) <= width:
            break
    text = Text.assemble(("  ".join(lines[0]), "dim"))
    for verdict, line in zip(verdicts, lines[1:], strict=True):
        text.append("\n")
        text.append(line[0], style=VERDICT.get(verdict, "bold"))
        text.append("  " + "  ".join(line[1:]))
    return text


def _grid(least: int = 10) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", min_width=least, no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    return grid
