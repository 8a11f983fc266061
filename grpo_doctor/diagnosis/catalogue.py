"""Loads check files and report formats from ``checks/`` and ``reports/``, and users' own folders of checks.

The folders contain no ``__init__.py``: as import packages named ``checks`` and ``reports``, they would shadow users'
own modules. The folders are therefore mounted as ``grpo_doctor.checks`` and ``grpo_doctor.reports``, and ``sys.path``
is never changed.
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
from importlib.util import module_from_spec
from itertools import chain
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import ParamSpec, TypeVar

from .check import DECLARED, Check, CheckError
from .declare import PROBE, probe_beside, take_loaded
from .remedies import shared_remedies

_HERE = Path(__file__).parents[1]
PREFLIGHT = "preflight"
"""Family of the checks that judge settings."""
FORMER = {"config": PREFLIGHT}
"""Former names of families."""
_LOADING = RLock()
"""Lock that is held while checks are loaded, because check files add their declarations to one shared list."""
P = ParamSpec("P")
T = TypeVar("T")


def _once(function: Callable[P, T]) -> Callable[P, T]:
    """Cache a function that loads checks. The cache is thread-safe: the first caller loads, and the others wait."""
    cached = cache(function)

    @wraps(function)
    def loaded(*args: P.args, **kwargs: P.kwargs) -> T:
        with _LOADING:
            return cached(*args, **kwargs)  # type: ignore[arg-type]

    return loaded


def home(name: str) -> Path:
    """Return the folder of check files or reports. In a wheel, the folder is inside the package; in a checkout, it is
    next to the package."""
    inside = _HERE / name
    return inside if inside.is_dir() else _HERE.parent / name


def mount(package: str, folder: Path) -> None:
    """Make ``folder`` importable as ``package`` without an ``__init__.py`` and without changing ``sys.path``."""
    if package in sys.modules:
        return
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules.setdefault(package, module_from_spec(spec))


def python_files(folder: Path) -> list[Path]:
    """Return the Python files in a folder and its subfolders, in a fixed order."""
    return sorted(p for p in folder.rglob("*.py") if not p.name.startswith("_"))


@cache
def _load_check_file(package: str, folder: Path, path: Path) -> tuple[Check, ...]:
    """Return the checks of a file and of its probe file. The result is cached, because Python imports a file only
    once."""
    mount(package, folder)
    *families, stem = path.relative_to(folder).parts
    for family in families:
        package, folder = f"{package}.{family}", folder / family
        mount(package, folder)
    name = f"{package}.{stem.removesuffix('.py')}"
    try:
        importlib.import_module(name)
        if os.path.isfile(probe_beside(path)):
            importlib.import_module(name + PROBE)
    finally:
        loaded = take_loaded(path)
    for check in loaded:
        check.family = families[0] if families else folder.name
    return tuple(loaded)


def _load_folder(package: str, folder: Path, family: str = "") -> list[Check]:
    """Return the checks of a folder, or of one family in it."""
    files = python_files(folder / family)
    beside = set(map(probe_beside, files))
    return [c for path in files if str(path) not in beside for c in _load_check_file(package, folder, path)]


def load_file(path: Path) -> Check:
    """Return the check that a file declares. Raises `CheckError` if the file declares no check or several checks."""
    path = path.resolve()
    found = _load_check_file(f"grpo_doctor.user_{abs(hash(path.parent)):x}", path.parent, path)
    if len(found) != 1:
        raise CheckError(f"{path}: declares {len(found)} checks; a file must declare exactly one")
    refuse_unknown_settings(found)
    return found[0]


def refuse_unknown_settings(checks: Iterable[Check]) -> None:
    """Raise `CheckError` if a preflight rule uses a setting that does not exist, because the rule would never fire."""
    from ..readers.settings import known_settings, meanings

    rules = [check for check in checks if check.family == PREFLIGHT]
    known = {name for table in meanings().values() for name in table} | known_settings() if rules else set()
    for check in rules:
        for field in chain.from_iterable(check.arguments):
            name = field.removeprefix(DECLARED)
            if name != field and name not in known:
                from difflib import get_close_matches

                near = get_close_matches(name, sorted(known), 3) or ["none is similar"]
                raise CheckError(
                    f"{check.file}: {check.code}: asks for settings.{name}, but no setting has this name; nearest: "
                    f"{', '.join(near)}; `grpo-doctor checks --settings` lists all"
                )


@cache
def _load_installed() -> tuple[Check, ...]:
    from ..config import plugins

    found: list[Check] = []
    take_loaded()
    for _ in plugins("grpo_doctor.checks"):
        found += take_loaded()
    for check in found:
        check.family = Path(check.file).parent.name
    if found:
        refuse_unknown_settings(found)
    return tuple(found)


def _built_in(family: str = "") -> list[Check]:
    """Return the checks of the package, or of one family, with their evidence counts."""
    folder = home("checks")
    checks = _load_folder("grpo_doctor.checks", folder, family)
    seen = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    for check in checks:
        check.seen = seen.get(check.code, {})
    return checks


class Catalogue:
    """All checks, by code.

    ``preview``: whether checks that have never fired on real data are treated like other checks. Without ``compiled``,
    the checks are not traced, because tracing fails on a check with an ``if``. ``selected``: the words that selected
    the checks; empty if all are selected.
    """

    selected: tuple[str, ...] = ()

    def __init__(self, checks: Iterable[Check], preview: bool = False, *, compiled: bool = True) -> None:
        self.preview, self.compiled = preview, compiled
        self.checks: dict[str, Check] = {}
        for check in checks:
            if (taken := self.checks.get(check.code)) is not None:
                raise CheckError(f"{check.file}: {check.code} is already used by {taken.file}; choose another code")
            self.checks[check.code] = check
        self.checks = dict(sorted(self.checks.items()))
        self._validate()

    def _validate(self) -> None:
        proven: set[str] = set()
        for check in self.checks.values():
            self._refuse_cycle(check.code, (), proven)
        for check in self.checks.values():
            if check.predicate is not None and self.compiled and check.seen is None:
                check.traced({})  # An error in a user's check is raised now; the tests trace the checks of the package.

    def _refuse_cycle(self, code: str, path: tuple[str, ...], proven: set[str]) -> None:
        if code in path:
            ring = " -> ".join((*path[path.index(code) :], code))
            raise CheckError(f"{self.checks[code].file}: {code}: `explains` is circular: {ring}")
        if code in proven:
            return
        for explained in self.checks[code].explains:
            if explained in self.checks:
                self._refuse_cycle(explained, (*path, code), proven)
        proven.add(code)

    def refuse_unknown(self) -> None:
        """Raise `CheckError` if a check refers to a code that no check has.

        Call the method only on the whole catalogue, because a selection may omit the code.
        """
        for check in self.checks.values():
            for code in (*check.explains, *check.premises):
                if code not in self.checks:
                    raise CheckError(f"{check.file}: {check.code}: refers to {code}, but no check has this code")

    def refuse_unknown_remedies(self) -> None:
        """Raise `CheckError` if a check recommends or withholds an unknown remedy.

        The method reads every advice file, so it is used only for users' own checks and in tests.
        """
        known = shared_remedies().keys() | {r.id for check in self.checks.values() for r in check.remedies}
        for check in self.checks.values():
            for remedy_id in check.withholds:
                if remedy_id not in known:
                    raise CheckError(f"{check.file}: {check.code}: withholds {remedy_id!r}, but no remedy has this id")

    def find(self, word: str) -> Check | None:
        """Return the check with this code or name."""
        return self.checks.get(word.upper()) or next((c for c in self.checks.values() if c.name == word.lower()), None)

    def matches(self, check: Check, words: Iterable[str]) -> bool:
        """Return whether any of ``words`` (a code, a code prefix, a name or a family) matches this check."""
        return any(check.code.startswith(w.upper()) or w.lower() in (check.name, check.family) for w in words)

    def select(self, select: Iterable[str] = (), ignore: Iterable[str] = (), preview: bool = False) -> Catalogue:
        """Return the checks that match ``select`` (all if empty), except checks that match ``ignore``."""
        chosen, unwanted = ([FORMER.get(word, word) for word in words] for words in (select, ignore))
        for word in (*chosen, *unwanted):
            if not any(self.matches(c, [word]) for c in self.checks.values()):
                raise CheckError(f"no check, name or family is called {word!r}; see `grpo-doctor checks`")
        kept = (c for c in self.checks.values() if not chosen or self.matches(c, chosen))
        made = Catalogue((c for c in kept if not self.matches(c, unwanted)), preview or self.preview)
        made.selected = tuple(chosen)
        return made


@contextmanager
def _from_source() -> Iterator[None]:
    """Make imports inside the block neither read nor write compiled files, which may differ from the source."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


@_once
def load(folders: tuple[Path, ...] = (), *, compiled: bool = True) -> Catalogue:
    """Return the built-in checks, the checks of installed entry points, and the checks in the user's ``folders``, which
    are executed."""
    checks = [*_built_in(), *_load_installed()]
    for folder in folders:
        if not folder.is_dir():
            raise CheckError(f"{folder}: not a folder of checks; see checks in [tool.grpo-doctor]")
        with _from_source():
            added = _load_folder(f"grpo_doctor.user_{abs(hash(folder.resolve())):x}", folder)
        for check in added:
            _ = check.meanings  # raises if the page explains an unknown threshold
        refuse_unknown_settings(added)
        checks += added
    catalogue = Catalogue(checks, compiled=compiled)
    catalogue.refuse_unknown()
    if folders:
        catalogue.refuse_unknown_remedies()
    return catalogue


@_once
def load_family(family: str) -> Catalogue:
    """Return the built-in checks of one family and the checks of installed entry points, for callers that need no other
    checks. Loading one family takes a third of the time needed to load all families."""
    return Catalogue([*_built_in(family), *_load_installed()])


def report_names() -> list[str]:
    """Return the names of the report formats. Each format is one file."""
    return [p.stem for p in python_files(home("reports"))]


def report(name: str) -> ModuleType:
    """Return the module of one report format; only that module is imported."""
    mount("grpo_doctor.reports", home("reports"))
    return importlib.import_module(f"grpo_doctor.reports.{name}")
