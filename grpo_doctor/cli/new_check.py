"""``grpo-doctor new-check``: writes a template for a check and its test."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from ..diagnosis.catalogue import PREFLIGHT, home
from ..report.redaction import one_line
from . import common

PAGE = '''    """One sentence that states the problem.

    ## What it sees
    The {sees} it reads, the rule with numbers and units, and how long it must hold.

    ## Thresholds
    - `{limit}`: {meaning}.

    ## Why it matters
    The mechanism: what the problem does to the run.

    ## Known false alarms
    When it fires on a healthy run, and how to recognise that.

    ## Remedy
    What to change: the setting in TRL, verl and OpenRLHF, or a few lines of code.

    ## Sources
    A paper, an issue or documentation.
    """
'''
CHECK = (
    """from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline


@check("{code}", severity="warning")
def {function}(entropy_mean: Column, *, share: float = 0.5) -> Fires:
"""
    + PAGE.format(sees="metrics", limit="share", meaning="share of the first entropy below which it fires, 0 to 1")
    + """    start = baseline(entropy_mean, 1)
    return fires(
        entropy_mean < share * start,
        "Entropy is {{now:.3g}} nats, less than {{share:.0%}} of the {{start:.3g}} at the start.",
        now=entropy_mean,
        share=share,
        start=start,
    )
"""
)
RULE = (
    """from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("{code}", severity="warning", confidence="high")
def {function}(rate: Column = any_of("settings.learning_rate"), *, above: float = 1e-4) -> Fires:
"""
    + PAGE.format(sees="settings", limit="above", meaning="learning rate above which it fires")
    + """    return fires(
        rate > above,
        "The learning rate ({{rate:.3g}}) is above {{above:.3g}}.",
        rate=rate,
        above=above,
    )
"""
)
TEST = """from pathlib import Path

import pytest

from grpo_doctor.testing import run_check

CHECK = Path(__file__).parent / "{place}"


"""
CHECK_TEST = (
    TEST
    + """@pytest.mark.parametrize(
    ("entropy", "message"),
    [
        ("1.0 0.5x10", None),
        ("1.0 0.49x10", "Entropy is 0.49 nats, less than 50% of the 1 at the start."),
    ],
)
def test_fires_below_its_share_of_the_start(entropy: str, message: str | None) -> None:
    finding = run_check(CHECK, entropy_mean=entropy)
    assert (finding and finding.message) == message


def test_does_not_fire_on_a_healthy_run() -> None:
    assert run_check(CHECK, entropy_mean="1.0 0.95 0.9 0.88x20") is None
"""
)
RULE_TEST = (
    TEST
    + """@pytest.mark.parametrize(
    ("rate", "message"),
    [(1e-4, None), (2e-4, "The learning rate (0.0002) is above 0.0001.")],
)
def test_fires_above_its_threshold(rate: float, message: str | None) -> None:
    finding = run_check(CHECK, {{"learning_rate": rate}}, loss="0")
    assert (finding and finding.message) == message


def test_does_not_fire_on_a_usual_setting() -> None:
    assert run_check(CHECK, {{"learning_rate": 1e-6}}, loss="0") is None
"""
)


def new_check(
    code: Annotated[str, typer.Argument(help="An unused code, for example ENT050.")],
    name: Annotated[str, typer.Argument(help="The problem in hyphenated words, for example entropy-halved.")],
    family: Annotated[str, typer.Argument(help="The family (folder name); preflight for a rule about settings.")],
    folder: Annotated[Path, typer.Option(help="Folder for the check.")] = Path("checks"),
    tests: Annotated[Path, typer.Option(help="Folder for its test.")] = Path("tests/checks"),
) -> None:
    """Writes a new check and its test, ready to run and edit."""
    from ..diagnosis.catalogue import load

    function = name.lower().replace("-", "_")
    if not (re.fullmatch(r"[A-Z]{2,3}\d{3}", code) and function.isidentifier() and family.isidentifier()):
        common.fail("expected a code such as ENT050, a name such as entropy-halved and a family such as entropy")
    with common.plain_errors():
        taken = load().find(code) or load().find(name)
    if taken is not None:
        common.fail(
            f"{code} {name}: {taken.code} {taken.name} already exists in {taken.file}; choose another code or name"
        )
    check, test = folder / family / f"{function}.py", tests / family / f"test_{function}.py"
    place = Path(os.path.relpath(check, test.parent)).as_posix()
    rule = family == PREFLIGHT
    for path, text in ((check, RULE if rule else CHECK), (test, RULE_TEST if rule else CHECK_TEST)):
        with common.plain_errors():
            common.new_file(path, text.format(code=code, function=function, place=place), "it was not changed")
        typer.echo(one_line(f"wrote {path}"))
    typer.echo(one_line(f"next: pytest {test}"))
    typer.echo(one_line(_how_to_use(folder, code, "preflight CONFIG" if rule else "analyze LOG")))


def _how_to_use(folder: Path, code: str, command: str) -> str:
    """Return the line that explains how to use the new check."""
    if folder.resolve() == home("checks").resolve():
        why = "a check stays in preview until `make seen` finds evidence for it"
        return f"then: grpo-doctor {command} --preview --select {code} ({why})"
    return (
        f'then: checks = ["{folder}"] in grpo-doctor.toml, `grpo-doctor trust {folder}`, '
        f"and grpo-doctor {command} --select {code}"
    )
