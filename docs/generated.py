"""Generates pages of the site: commands, checks, the gallery, the API reference, and copies of pages kept elsewhere."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import grpo_doctor
from docs import gallery
from grpo_doctor.advisories import page as advisory_page
from grpo_doctor.cli import PARTS, app
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.report import check_pages

ROOT = Path(__file__).parents[1]
REFERENCE = (
    "This page lists the public names of the package `grpo_doctor`. All other names may change with any release."
)
ELSEWHERE = {
    "writing-a-check.md": ".github/CONTRIBUTING.md",
    "architecture.md": ".github/ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that are kept elsewhere in the repository, with their paths."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the pages in ``docs/``."""
    made = {
        **_commands(), **_checks(), **_copied(), **gallery.reports(),
        "advisories.md": advisory_page.page(), "gallery.md": gallery.page(), "reference.md": _reference(),
    }  # fmt: skip
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to the pages of the checks in the repository with links to the pages of the site."""
    return markdown.replace("](../checks/pages/", "](checks/").replace("](../checks/README.md", "](checks/index.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every generated page to the navigation."""
    for section in config.nav or []:
        if isinstance(section, dict):
            for title, where in section.items():
                if where == "commands/":
                    section[title] = sorted(_commands())
                elif where == "checks/":
                    section[title] = ["checks/index.md", *_by_family()]
    return config


def _commands() -> dict[str, str]:
    """Return a page for each command and subcommand in the help. Hidden names have no page."""
    group: Any = typer.main.get_command(app)
    parts = {words[0]: " ".join(part) for part, words in PARTS.items()}
    named = {
        name: parts.get(name, name) for name, command in group.commands.items() if name in parts or not command.hidden
    }
    return {
        f"commands/{words.replace(' ', '-')}.md": _command(words, group.commands[name]) for name, words in named.items()
    }


def _command(name: str, command: Any) -> str:
    """Return the page of a command: usage, description, arguments and options."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(
        [
            "grpo-doctor",
            name,
            *(a.make_metavar(command.make_context(name, [], resilient_parsing=True)) for a in arguments),
        ]
    )
    lines = [f"# grpo-doctor {name}", _cells(command.help or "", table=False), f"```console\n$ {usage}\n```"]
    if arguments:
        lines.append(_table("argument", [(a.name, a.help) for a in arguments]))
    if options:
        lines.append(_table("option", [(", ".join([*o.opts, *o.secondary_opts]), o.help) for o in options]))
    return "\n\n".join(lines) + "\n"


def _reference() -> str:
    """Return a page with the public names. mkdocstrings reads their docstrings from the source."""
    names = sorted(grpo_doctor.__all__, key=lambda name: (name.islower(), name))
    return "\n\n".join(["# API reference", REFERENCE, *(f"::: {_defined(name)}" for name in names)]) + "\n"


def _defined(name: str) -> str:
    """Return the full name of the module and object that define a public name."""
    value = getattr(grpo_doctor, name)
    module = getattr(value, "__module__", None)
    return f"grpo_doctor.{name}" if module is None else f"{module}.{name}"


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head} | |", "|---|---|", *(f"| `{name}` | {_cells(text or '')} |" for name, text in rows)]
    return "\n".join(lines)


def _cells(text: str, *, table: bool = True) -> str:
    text = text.replace("|", "\\|").replace("\n", " ") if table else text
    return text.replace("\b", "").replace("<", "&lt;")


def _checks() -> dict[str, str]:
    catalogue = load()
    made = {
        f"checks/{check.code}.md": _linked(check_pages.page(catalogue, check)) for check in catalogue.checks.values()
    }
    made["checks/index.md"] = "# The checks\n\n" + check_pages.index(catalogue).replace("](pages/", "](")
    return made


def _linked(page: str) -> str:
    return re.sub(r"^##(#*) ", r"#\1 ", page, flags=re.MULTILINE).replace("<", "&lt;")


def _by_family() -> list[dict[str, list[str]]]:
    families: dict[str, list[str]] = {}
    for check in load().checks.values():
        families.setdefault(check.family.replace("_", " "), []).append(f"checks/{check.code}.md")
    return [{name: paths} for name, paths in sorted(families.items())]


def _copied() -> dict[str, str]:
    made = {}
    for target, source in ELSEWHERE.items():
        if (ROOT / source).exists():
            made[target] = _moved((ROOT / source).read_text(encoding="utf-8"), posixpath.dirname(source))
    return made


def _moved(text: str, folder: str) -> str:
    """Replace links to files outside the site with their text."""
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)
