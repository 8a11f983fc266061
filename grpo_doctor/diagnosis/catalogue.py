"""Mounts the folders of leaf files, ``checks/`` and ``reports/``, and users' own folders of checks.

The folders hold no ``__init__.py``: installed as import packages named ``checks`` and ``reports`` they would
shadow users' own modules. They are mounted as ``grpo_doctor.checks`` and ``grpo_doctor.reports`` instead, and
``sys.path`` is never touched.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import ParamSpec, TypeVar

from .check import Check, CheckError
from .declare import take_loaded
from .remedies import shared_remedies

_HERE = Path(__file__).parents[1]
FORMER = {"config": "preflight"}
"""Families under the name that they had before."""
_LOADING = RLock()
"""Held while checks are loaded: a leaf declares its check into one shared place."""
P = ParamSpec("P")
T = TypeVar("T")


def _once(function: Callable[P, T]) -> Callable[P, T]:
    """Caches a function that loads checks, for threads too: the first caller loads and the others wait."""
    cached = cache(function)

    @wraps(function)
    def loaded(*args: P.args, **kwargs: P.kwargs) -> T:
        with _LOADING:
            return cached(*args, **kwargs)  # type: ignore[arg-type]

    return loaded


def home(name: str) -> Path:
    """The folder of leaves: inside the package in a wheel, beside it in a checkout."""
    inside = _HERE / name
    return inside if inside.is_dir() else _HERE.parent / name


def mount(package: str, folder: Path) -> None:
    """Makes ``folder`` importable as ``package`` without an ``__init__.py`` and without touching ``sys.path``."""
    if package in sys.modules:
        return
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules.setdefault(package, module_from_spec(spec))


def leaves(folder: Path) -> list[Path]:
    """The leaf files below a folder, in a fixed order."""
    return sorted(p for p in folder.rglob("*.py") if not p.name.startswith("_"))


@cache
def _load_leaf(package: str, folder: Path, path: Path) -> tuple[Check, ...]:
    """The checks of a leaf, which declares them only when it is imported, and that Python does once."""
    mount(package, folder)
    parts = path.relative_to(folder).with_suffix("").parts
    for depth in range(1, len(parts)):
        mount(".".join((package, *parts[:depth])), folder.joinpath(*parts[:depth]))
    try:
        importlib.import_module(".".join((package, *parts)))
    finally:
        loaded = take_loaded(path)
    for check in loaded:
        check.family = parts[0] if len(parts) > 1 else folder.name
    return tuple(loaded)


def _load_folder(package: str, folder: Path, family: str = "") -> list[Check]:
    """The checks of a folder, or of one family in it."""
    return [check for path in leaves(folder / family) for check in _load_leaf(package, folder, path)]


def load_file(path: Path) -> Check:
    """The check that one file declares, wherever the file is. Raises `CheckError` where it declares none or several."""
    path = path.resolve()
    found = _load_leaf(f"grpo_doctor.user_{abs(hash(path.parent)):x}", path.parent, path)
    if len(found) != 1:
        raise CheckError(f"{path}: declares {len(found)} checks; a file declares one")
    return found[0]


@cache
def _load_installed() -> tuple[Check, ...]:
    found: list[Check] = []
    for entry in entry_points(group="grpo_doctor.checks"):
        take_loaded()
        entry.load()
        found += take_loaded()
    return tuple(found)


def _built_in(family: str = "") -> list[Check]:
    """The checks of the package, or of one family, with what each has been seen on."""
    folder = home("checks")
    checks = _load_folder("grpo_doctor.checks", folder, family)
    seen = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    for check in checks:
        check.seen = seen.get(check.code, {})
    return checks


class Catalogue:
    """Every illness that is known, by code.

    ``preview`` says whether checks that were never seen on anything real count like the others; without ``compiled``
    the checks are not traced, which an author's check with an ``if`` does not survive.
    """

    def __init__(self, checks: Iterable[Check], preview: bool = False, *, compiled: bool = True) -> None:
        self.preview, self.compiled = preview, compiled
        self.checks: dict[str, Check] = {}
        for check in checks:
            if (taken := self.checks.get(check.code)) is not None:
                raise CheckError(f"{check.file}: {check.code} is taken by {taken.file}; choose a free code")
            self.checks[check.code] = check
        self.checks = dict(sorted(self.checks.items()))
        self._validate()

    def _validate(self) -> None:
        proven: set[str] = set()
        for check in self.checks.values():
            self._refuse_cycle(check.code, (), proven)
        for check in self.checks.values():
            if check.predicate is not None and self.compiled:
                check.traced({})

    def _refuse_cycle(self, code: str, path: tuple[str, ...], proven: set[str]) -> None:
        if code in path:
            ring = " -> ".join((*path[path.index(code) :], code))
            raise CheckError(f"{self.checks[code].file}: {code}: explains runs in a circle: {ring}")
        if code in proven:
            return
        for explained in self.checks[code].explains:
            if explained in self.checks:
                self._refuse_cycle(explained, (*path, code), proven)
        proven.add(code)

    def refuse_unknown(self) -> None:
        """Raises `CheckError` where a check names a code that no check has.

        Only the whole catalogue can answer that, so a selection of it is not asked.
        """
        for check in self.checks.values():
            for code in (*check.explains, *check.premises):
                if code not in self.checks:
                    raise CheckError(f"{check.file}: {check.code}: names {code}, and no check has this code")

    def refuse_unknown_remedies(self) -> None:
        """Raises `CheckError` where a check recommends or withholds a remedy that does not exist.

        It reads every file of advice, so it is asked for a user's own checks and by the tests.
        """
        known = shared_remedies().keys() | {r.id for check in self.checks.values() for r in check.remedies}
        for check in self.checks.values():
            for remedy_id in check.withholds:
                if remedy_id not in known:
                    raise CheckError(f"{check.file}: {check.code}: withholds {remedy_id!r}, and no remedy has this id")

    def find(self, word: str) -> Check | None:
        """The check with this code or name."""
        return self.checks.get(word.upper()) or next((c for c in self.checks.values() if c.name == word.lower()), None)

    def matches(self, check: Check, words: Iterable[str]) -> bool:
        """Whether a code, a code's prefix, a name or a family among ``words`` means this check."""
        return any(check.code.startswith(w.upper()) or w.lower() in (check.name, check.family) for w in words)

    def select(self, select: Iterable[str] = (), ignore: Iterable[str] = (), preview: bool = False) -> Catalogue:
        """The checks that ``select`` names (all, if it names none) less those that ``ignore`` names."""
        chosen, unwanted = ([FORMER.get(word, word) for word in words] for words in (select, ignore))
        for word in (*chosen, *unwanted):
            if not any(self.matches(c, [word]) for c in self.checks.values()):
                raise CheckError(f"no check, name or family is called {word!r}; see `grpo-doctor checks`")
        kept = (c for c in self.checks.values() if not chosen or self.matches(c, chosen))
        return Catalogue((c for c in kept if not self.matches(c, unwanted)), preview or self.preview)


@contextmanager
def _from_source() -> Iterator[None]:
    """Imports inside the block neither read nor write compiled files: those beside a source may hold anything else."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


@_once
def load(folders: tuple[Path, ...] = (), *, compiled: bool = True) -> Catalogue:
    """The built-in checks, those of installed entry points, and those of the user's ``folders``, which are executed."""
    checks = [*_built_in(), *_load_installed()]
    for folder in folders:
        if not folder.is_dir():
            raise CheckError(f"{folder}: not a folder of checks; see checks in [tool.grpo-doctor]")
        with _from_source():
            added = _load_folder(f"grpo_doctor.user_{abs(hash(folder.resolve())):x}", folder)
        for check in added:
            _ = check.meanings  # raises where the page explains what is no threshold
        checks += added
    catalogue = Catalogue(checks, compiled=compiled)
    catalogue.refuse_unknown()
    if folders:
        catalogue.refuse_unknown_remedies()
    return catalogue


@_once
def load_family(family: str) -> Catalogue:
    """The built-in checks of one family and those of installed entry points, for who asks for nothing else: a third
    of the time that all of them take to load."""
    return Catalogue([*_built_in(family), *_load_installed()])


def report_names() -> list[str]:
    """The report formats, one leaf each."""
    return [p.stem for p in leaves(home("reports"))]


def report(name: str) -> ModuleType:
    """The leaf of one report format; only that one is imported."""
    mount("grpo_doctor.reports", home("reports"))
    return importlib.import_module(f"grpo_doctor.reports.{name}")
