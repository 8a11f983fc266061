"""Renders the page of all advisories as Markdown, one section per package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ..report.markup import environment
from .database import advisories
from .entry import Advisory, Level

ORDER: tuple[Level, ...] = ("error", "warning", "info")


def page() -> str:
    """Return the page: a summary by package, then each advisory, the most severe first."""
    template = environment(Path(__file__).parent, html=False).get_template("page.md.j2")
    ordered = sorted(advisories(), key=lambda one: ORDER.index(one.severity))
    return template.render(advisories=ordered, counts=_counts, link=_link)


def _counts(these: Iterable[Advisory]) -> str:
    """Return the table cells with the number of advisories of each severity."""
    counted = Counter(one.severity for one in these)
    return " | ".join(str(counted[level]) for level in ORDER)


def _link(source: str) -> str:
    """Return a source as a link: an issue or pull request, or a commit."""
    kind, sign = ("issues", "#") if "#" in source else ("commit", "@")
    where, _, name = source.partition(sign)
    return f"[{source}](https://github.com/{where}/{kind}/{name})"
