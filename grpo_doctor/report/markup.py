"""What every HTML page shares: strict templates, the digests of its content security policy, data that stays data."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape


@cache  # templates are compiled once, however many pages a fleet has
def environment(folder: Path) -> Environment:
    """Templates of a folder: everything escaped, what is not defined an error."""
    made = Environment(
        loader=FileSystemLoader(folder, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["prose"] = prose
    return made


def digest(text: str) -> str:
    """What the content security policy calls the only style and the only script that may run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(value: Any) -> str:
    """JSON that cannot end the element in which it stands, whatever texts it holds."""
    return (
        msgspec.json.encode(value)
        .decode()
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
"""What authors mark in a sentence: code between backticks, strong words between two asterisks."""


def prose(text: str) -> Markup:
    """Text that a check's author wrote, with its code and its strong words as HTML."""
    pieces = iter(_MARKED.split(text))
    shown = escape(next(pieces))
    for code, strong, after in zip(pieces, pieces, pieces, strict=True):
        shown += Markup("<code>{}</code>").format(code) if code else Markup("<strong>{}</strong>").format(strong)
        shown += escape(after)
    return shown
