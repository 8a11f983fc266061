"""``grpo-doctor explain``: prints the page of one check."""

from __future__ import annotations

import difflib
import re
from typing import Annotated

import typer

from . import common


def explain(
    word: Annotated[
        str,
        typer.Argument(
            help="Code or name of a check, such as GEN001 or zero-variance-groups.", autocompletion=common.codes
        ),
    ],
    config: common.ConfigFile = None,
    trust_checks: common.TrustChecks = False,
) -> None:
    """Explains a check: what it detects, why it matters, false alarms, remedy and sources."""
    from rich.console import Console
    from rich.markdown import Markdown

    from ..report.check_pages import page

    with common.plain_errors():
        catalogue = common.everything(config, trust_checks)
    check = catalogue.find(word)
    if check is None:
        near = [code for code in catalogue.checks if re.sub("0+", "", code) == re.sub("0+", "", word.upper())]
        near += difflib.get_close_matches(word.upper(), catalogue.checks, 3, 0.6)
        near += difflib.get_close_matches(word.lower(), [c.name for c in catalogue.checks.values()], 3, 0.5)
        hint = f"; did you mean {' or '.join(dict.fromkeys(near))}?" if near else "; `grpo-doctor checks` lists them"
        common.fail(f"no check is called {word!r}{hint}")
    Console(width=min(100, Console().width)).print(Markdown(page(catalogue, check)))
