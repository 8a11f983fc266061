"""``grpo-doctor advisories``: the known bugs of a package or a version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from . import common

if TYPE_CHECKING:
    from ..advisories import Advisory

Format = Literal["text", "json", "sarif"]
_ASKED = re.compile(r"([A-Za-z0-9][\w.\-]*)(?:==(\S+))?")
LEVELS = {"info": "note", "warning": "warning", "error": "error"}
"""SARIF levels by severity."""


def advisories(
    package: Annotated[
        str | None, typer.Argument(metavar="[PACKAGE[==VERSION]]", help="Package or version; all by default.")
    ] = None,
    output_format: Annotated[str, typer.Option("--output-format", "-f", help="text, json or sarif.")] = "text",
) -> None:
    """Lists known bugs of RL trainers: affected versions, conditions, symptom and fix.

    `preflight`, `analyze` and `attach` report the bugs that affect a run.

    Exit codes: 0 for a list, which may be empty; 2 for wrong usage or an unknown package.
    """
    from ..advisories import find, names
    from ..advisories.database import normal

    if output_format not in get_args(Format):
        common.fail(f"--output-format {output_format}: one of {', '.join(get_args(Format))}")
    asked = _ASKED.fullmatch(package) if package else None
    if package and asked is None:
        common.fail(f"{package}: write PACKAGE or PACKAGE==VERSION, as in trl==0.23.1")
    name, version = (asked[1], asked[2]) if asked else (None, None)
    if name is not None and normal(name) not in names():
        common.fail(f"{name}: no advisories known; packages with advisories: {', '.join(sorted(names()))}")
    found = find(name, version)
    match output_format:
        case "json":
            typer.echo(json.dumps([_as_json(one) for one in found], indent=2, ensure_ascii=False))
        case "sarif":
            typer.echo(json.dumps(_as_sarif(found), indent=2, ensure_ascii=False))
        case _:
            for one in found:
                typer.echo("\n".join(_lines(one, whole=name is not None)))
            if not found:
                typer.echo(f"No advisory affects {package}.")


def _lines(one: Advisory, whole: bool) -> Iterator[str]:
    """Yield one line per advisory or, if a package was given, all details of each advisory."""
    yield f"{one.id} {one.package} {one.range} ({one.severity}): {one.title}"
    if not whole:
        return
    if conditions := one.conditions_in_words():
        yield f"    applies if {conditions}"
    yield f"    symptom: {one.symptom}"
    yield f"    effect: {one.effect}"
    yield f"    → {one.do}"
    yield f"    {one.verified}; {', '.join(one.sources)}"


def _as_json(one: Advisory) -> dict[str, Any]:
    import msgspec

    made: dict[str, Any] = msgspec.to_builtins(one)
    return made | {"range": one.range}


def _as_sarif(found: Sequence[Advisory]) -> dict[str, Any]:
    """Return one SARIF run with a rule and a result for each advisory."""
    from .. import __version__

    driver = {
        "name": "grpo-doctor",
        "version": __version__,
        "rules": [
            {
                "id": one.id,
                "shortDescription": {"text": one.title},
                "fullDescription": {"text": f"{one.symptom} {one.effect}"},
                "help": {"text": one.do},
                "defaultConfiguration": {"level": LEVELS[one.severity]},
            }
            for one in found
        ],
    }
    results = [
        {
            "ruleId": one.id,
            "ruleIndex": index,
            "level": LEVELS[one.severity],
            "message": {"text": f"{one.package} {one.range}: {one.title}. {one.do}"},
            "locations": [{"logicalLocations": [{"name": one.package, "kind": "package"}]}],
        }
        for index, one in enumerate(found)
    ]
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
