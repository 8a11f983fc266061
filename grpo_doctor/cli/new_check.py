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

TEMPLATES = Path(__file__).parent / "templates"


def new_check(
    code: Annotated[str, typer.Argument(help="An unused code, for example ENT050.")],
    name: Annotated[str, typer.Argument(help="The problem in hyphenated words, for example entropy-halved.")],
    family: Annotated[str, typer.Argument(help="The family (folder name); preflight for a rule about settings.")],
    folder: Annotated[Path, typer.Option(help="Folder for the check.")] = Path("checks"),
    tests: Annotated[Path, typer.Option(help="Folder for its test.")] = Path("tests/checks"),
) -> None:
    """Writes a new check and its test, ready to run and edit."""
    from ..diagnosis.catalogue import load
    from ..report.markup import environment

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
    for path, template in ((check, "check.py.j2"), (test, "test.py.j2")):
        written = environment(TEMPLATES, html=False).get_template(template)
        text = written.render(code=code, function=function, place=place, rule=rule)
        with common.plain_errors():
            common.new_file(path, text, "it was not changed")
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
