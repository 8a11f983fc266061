"""Renders strict templates. For HTML pages, also computes the digests of the content security policy, and embeds data
safely."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape


@cache  # each template is compiled only once
def environment(folder: Path, *, html: bool = True) -> Environment:
    """Return the environment for the templates of a folder. HTML templates escape all texts, and undefined names are
    errors."""
    made = Environment(
        loader=FileSystemLoader(folder, encoding="utf-8"),
        autoescape=html,
        keep_trailing_newline=not html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["prose"] = prose
    return made


def page(template: Path, styles: Iterable[Path], script: str, **known: Any) -> str:
    """Render an HTML page with the only style and the only script that its content security policy allows."""
    style = "".join(path.read_text(encoding="utf-8") for path in styles)
    frame = {"style": Markup(style), "script": Markup(script)}
    digests = {"style_digest": _digest(style), "script_digest": _digest(script)}
    return environment(template.parent).get_template(template.name).render(**known, **frame, **digests).strip()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(value: Any) -> str:
    """Return JSON that cannot end the HTML element that contains it, whatever texts the data contains."""
    return (
        msgspec.json.encode(value)
        .decode()
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])\*(?=[^\s*])([^*]+)(?<!\s)\*(?![\w*])")
"""Matches markup in a sentence: code between backticks, strong words between double asterisks, and emphasised words
between single asterisks."""
_TAGS = ("code", "strong", "em")
"""The HTML element of each alternative of `_MARKED`."""


def prose(text: str) -> Markup:
    """Render text written by a check's author as HTML, with code, strong and emphasised words."""
    shown, end = Markup(), 0
    for found in _MARKED.finditer(text):
        tag = _TAGS[(found.lastindex or 1) - 1]
        shown += escape(text[end : found.start()]) + Markup(f"<{tag}>{{}}</{tag}>").format(found[found.lastindex or 1])
        end = found.end()
    return shown + escape(text[end:])
