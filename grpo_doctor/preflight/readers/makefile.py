"""Converts Makefiles to shell scripts. Recipes become commands, and the shell reader fills in the variables."""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"\$\((\w+)\)")
_ASSIGNMENT = re.compile(r"(?:export\s+)?(\w+)\s*[:?+]?=\s*(.*)")


def makefile(text: str) -> str:
    """Return a shell script with the recipes and variables of a Makefile on the same lines."""
    lines: list[str] = []
    going = recipe = assigned = False
    for line in text.split("\n"):
        bare, ends = line.strip(), not line.rstrip().endswith("\\")
        if not going:
            recipe = line.startswith("\t")
            given = None if recipe else _ASSIGNMENT.fullmatch(bare)
            assigned = given is not None
            bare = f'{given[1]}="{given[2]}' if given else bare.lstrip("@-+") if recipe else ""
        if recipe or assigned:
            bare = _VARIABLE.sub(r"${\1}", bare.replace("$$", "$")) + ('"' if assigned and ends else "")
        lines.append(bare if recipe or assigned else "")
        going = not ends
    return "\n".join(lines)
