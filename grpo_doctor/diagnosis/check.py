"""Checks and findings.

A check file describes one issue under one code. It contains at most one function of each kind: ``@check`` (a
predicate over columns), ``@conclude`` (over other findings), ``@probe`` (over entry points of a trainer), ``@across``
(over the two sides of a comparison). The docstring of the first function is the page of the issue. The probe of a check
``x.py`` is in ``x_probe.py`` in the same folder.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from itertools import islice
from string import Formatter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ..run import RunType
from ..series import ColumnError, Plan, columns
from ..series.derived import MEANINGS
from ..series.trajectory import STANDING, TRENDS, States

if TYPE_CHECKING:
    from .remedies import Advice

Role = Literal["cause", "outcome", "symptom", "note"]

HEADINGS = ("What it sees", "Why it matters", "Known false alarms", "Remedy", "Sources")
THRESHOLDS = re.compile(r"^## Thresholds[^\n]*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
"""The sections of a page that explain its thresholds, with one list item per threshold."""
PROVES = "What this certifies, and what it does not"
"""Heading of the section about the probe, on the page of every check that has a probe."""
ACROSS = "Across runs"
"""Heading of the section on comparisons, on the page of a check."""

Kind = Literal["outcome", "defect", "risk", "remark"]
"""The kind of an issue. An outcome is a failure of the run. A defect is a wrong computation, whatever the curves show.
A risk is a setting or state that often causes damage. If the run learns anyway, a risk is at most a warning. A remark
is information only."""
SPECIAL = frozenset(("events", "samples", "step", *STANDING))
"""Parameter names that are not record fields: the row's events, samples and step, and the state of success.

``samples`` without a default is required like any field: the check processes only rows with samples. A parameter named
in `STANDING` is one state of a series at this row, and a parameter named in `TRENDS` contains all states. Without a
default, the parameter requires the series.
"""
DECLARED = "settings."
"""Prefix of declared settings among the alternatives of `any_of`: ``settings.learning_rate``."""


class Severity(IntEnum):
    """How severe the issue is if the finding is correct."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    CRITICAL = 3

    @classmethod
    def of(cls, name: str) -> Severity:
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


class Confidence(IntEnum):
    """How certain the finding is. High: the finding is proven by a log line, a probe or an identity. Medium: a
    statistical test and the order in time support the finding. Low: a threshold was crossed."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2

    @classmethod
    def of(cls, name: str) -> Confidence:
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


class Rival(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alternative explanation of the same records, with the test that distinguishes it from the finding.

    ``ruled_out_by``: the check that fires if this explanation is correct; if that check ran and passed, the log
        contradicts the explanation.
    ``run_types``: the kinds of training in which the explanation is possible; all if empty.
    """

    name: str
    why: str
    separated_by: str
    ruled_out_by: str = ""
    run_types: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, omit_defaults=True, rename={"who": "for"}):
    """The action in one framework; ``for`` names the framework: trl, verl, openrlhf or by-hand (a custom trainer).

    ``built_in``: the framework's trainer already applies the remedy, so the remedy can only be missing in the user's
    own code.
    """

    who: str
    do: str
    built_in: bool = False


class Remedy(msgspec.Struct, frozen=True):
    """A recommended change. ``evidence`` is the measured effect of the change (before → after); ``source`` is the
    reference for it."""

    id: str
    title: str
    steps: tuple[Step, ...]
    evidence: str
    source: str


class Withheld(msgspec.Struct, frozen=True):
    """A remedy that does not apply while another finding is active."""

    id: str
    title: str
    because: str


class Finding(msgspec.Struct, kw_only=True):
    """A finding of a check in a run."""

    code: str
    name: str
    kind: Kind
    severity: str
    confidence: str
    role: Role = "note"
    onset_step: int
    detected_step: int
    last_step: int
    cleared: bool = False
    message: str
    evidence: dict[str, Any] = {}
    lines: list[int] = []
    explained_by: list[str] = []
    invalidates: list[str] = []
    rivals: list[Rival] = []
    remedies: list[Remedy] = []
    withheld: list[Withheld] = []
    columns: list[str] = []
    preview: bool = False

    @property
    def level(self) -> Severity:
        return Severity.of(self.severity)

    @property
    def sureness(self) -> Confidence:
        return Confidence.of(self.confidence)

    @property
    def action(self) -> str:
        """Return the first remedy or, without a remedy, a test that decides between the explanations."""
        if self.remedies:
            return self.remedies[0].title
        if self.rivals:
            return f"Test the alternative explanations first: {self.rivals[0].separated_by}"
        return f"Read about this check: grpo-doctor checks explain {self.code}"

    def __str__(self) -> str:
        """Return one line: code, name, severity, onset and message."""
        return f"{self.code} {self.name} ({self.severity}, step {self.onset_step}): {self.message}"


class Fires(msgspec.Struct, frozen=True):
    """A condition over rows with its message; see `fires`."""

    when: Any
    message: str
    hold: tuple[int, int] | None
    clear: int
    levels: tuple[tuple[Severity, Any], ...]
    confidence: Any
    suffered: Any
    onset: Any
    evidence: dict[str, Any]


_INFO, _WARNING, _ERROR, _CRITICAL = Severity  # looking up a member costs as much as a check's comparison


def fires(
    when: Any,
    message: str,
    /,
    *,
    hold: tuple[int, int] | None = None,
    clear: int = 5,
    info: Any = None,
    warning: Any = None,
    error: Any = None,
    critical: Any = None,
    confidence: Any = None,
    suffered: Any = None,
    onset: Any = None,
    **evidence: Any,
) -> Fires:
    """Build the return value of a check: the condition, and the message with its numbers.

    Args:
        when: condition over rows at the check's own severity.
        message: one sentence; ``{name:.3g}`` inserts the evidence of the last row on which the condition was true.
        hold: ``(m, n)``: the check fires when the condition is true on m of its last n rows; by default 3 of 5, and 1
            of 1 for a check that uses only settings.
        clear: number of consecutive rows with a false condition after which the finding clears.
        info, warning, error, critical: conditions for other severities, with the same ``hold``; the highest severity
            whose condition is true applies.
        confidence: overrides the check's confidence; may be a column.
        suffered: condition for an outcome, regardless of the kind of the check: a vital series has been wrong for most
            of the run.
        onset: column with the step at which the condition began; by default the first row of the hold.
        evidence: columns or numbers, named.
    """
    levels: tuple[tuple[Severity, Any], ...] = ()
    if info is not None:
        levels += ((_INFO, info),)
    if warning is not None:
        levels += ((_WARNING, warning),)
    if error is not None:
        levels += ((_ERROR, error),)
    if critical is not None:
        levels += ((_CRITICAL, critical),)
    sure = Confidence.of(confidence) if isinstance(confidence, str) else confidence
    return Fires(when, message, hold, clear, levels, sure, suffered, onset, evidence)


class Traced(NamedTuple):
    """The result of calling a check with symbolic columns: its return value, and how to compute it.

    The plan computes the conditions (that of the check's own severity first), then onset, confidence, ``suffered`` and
    the evidence.
    """

    fires: Fires
    plan: Plan


class AnyOf(msgspec.Struct, frozen=True):
    """Alternative fields for one parameter. On each row, the first known field is used."""

    fields: tuple[str, ...]
    optional: bool = False
    sparse: bool = False


def any_of(*fields: str, optional: bool = False) -> Any:
    """Return the default of a parameter that any of these fields can fill; the fields must have the same meaning and
    unit.

    ``settings.name`` is the setting that the run declares under that name, as a number or string on every row.
    """
    return AnyOf(fields, optional)


def once_known(*fields: str) -> Any:
    """Return the default of a parameter that is recorded only on some rows. The check starts on the first row on which
    one of the fields is known; before that row, the value is NaN."""
    return AnyOf(fields, sparse=True)


class CheckError(ValueError):
    """A check file that cannot be loaded; the message states the file, the code and the fix."""


class Check:
    """One check: its metadata, page and functions."""

    def __init__(self, code: str, function: Callable[..., Any], **meta: Any) -> None:
        self.code = code
        self.name = function.__name__.replace("_", "-")
        self.file = function.__code__.co_filename
        self._docs = [function.__doc__ or ""]
        self.family = ""
        self.severity = Severity.of(meta.pop("severity"))
        self.confidence = Confidence.of(meta.pop("confidence"))
        self.kind: Kind = meta.pop("kind")
        self.explains: tuple[str, ...] = tuple(meta.pop("explains"))
        self.explains_from = Severity.of(meta.pop("explains_from"))
        self.withholds: Mapping[str, str] = dict(meta.pop("withholds"))
        self.invalidates: tuple[str, ...] = tuple(meta.pop("invalidates"))
        self.run_types: tuple[RunType, ...] = tuple(meta.pop("run_types"))
        self.vital: bool = meta.pop("vital", False)
        self.denies_learning: bool = meta.pop("denies_learning", False)
        self.about: tuple[str, ...] = tuple(meta.pop("about", ()))
        self.predicate: Callable[..., Any] | None = None
        self._traced: Traced | None = None
        self.conclusion: Callable[..., Any] | None = None
        self.probe: Callable[..., Any] | None = None
        self.seen: Mapping[str, int] | None = None
        """Number of correct findings on real data, by kind of evidence; None for a user's own check."""
        self.across: Callable[..., Any] | None = None
        self.needs: tuple[AnyOf, ...] = ()
        self.parameters: dict[str, tuple[bool, Any]] = {}
        self.arguments: tuple[tuple[str, ...], ...] = ()
        self.thresholds: dict[str, Any] = {}
        self.premises: dict[str, bool] = {}
        self.probe_arguments: dict[str, bool] = {}
        self.probe_thresholds: dict[str, Any] = {}
        self.probe_severity = self.severity
        self.across_thresholds: dict[str, Any] = {}
        self._validate_page()

    @cached_property
    def advice(self) -> Advice:
        """Remedies and rival explanations, read on demand from ``advice.toml`` in the folder of the check file."""
        from .remedies import advice_for

        return advice_for(self.file, self.code)

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The remedies, the most likely first."""
        return self.advice.remedies

    @property
    def rivals(self) -> tuple[Rival, ...]:
        """Alternative explanations of the same records, each with the test that decides."""
        return self.advice.rivals

    @cached_property
    def page(self) -> str:
        """The docstrings of the check's functions, joined in order."""
        return "\n\n".join(map(inspect.cleandoc, self._docs))

    @cached_property
    def meanings(self) -> dict[str, str]:
        """The meaning and unit of each threshold. Raises `CheckError` if the page explains an unknown threshold."""
        found: dict[str, str] = {}
        for section in THRESHOLDS.findall(self.page):
            for name, meaning in re.findall(r"^- `(\w+)`: (.*?)(?=^- |^$|\Z)", section, re.MULTILINE | re.DOTALL):
                if name not in self.limits:
                    raise self._fail(f"its page explains a threshold {name!r} that it does not have")
                found[name] = " ".join(meaning.split())
        return found

    @property
    def title(self) -> str:
        """First line of the page."""
        return self.page.split("\n", 1)[0]

    def _fail(self, why: str, line: int | None = None) -> CheckError:
        return CheckError(f"{self.file}{f':{line}' if line else ''}: {self.code}: {why}")

    def _add_docs(self, function: Callable[..., Any]) -> bool:
        """Add the docstring of another function to the page unless it is already present. Return whether it was
        added."""
        docs = function.__doc__ or ""
        if docs in self._docs:
            return False
        self._docs.append(docs)
        return True

    def _validate_page(self) -> None:
        if not re.fullmatch(r"[A-Z]{2,3}\d{3}", self.code):
            raise self._fail("a code has two or three capital letters and three digits, for example ENT001")
        if missing := [h for h in HEADINGS if f"## {h}" not in self._docs[0]]:
            raise self._fail(f"the docstring lacks the heading '## {missing[0]}'; see .github/CONTRIBUTING.md")

    def take_predicate(self, function: Callable[..., Any]) -> None:
        """Read required and optional fields from the positional parameters of the signature, and thresholds from the
        keyword-only parameters."""
        needs, arguments = [], []
        self.thresholds, self.parameters = _keyword_only(function), _positional(function)
        single = ((part, self.parameters[name]) for name in self.parameters for part in TRENDS.get(name, (name,)))
        for name, (needed, default) in single:
            named = default if isinstance(default, AnyOf) else AnyOf((name,), not needed)
            fields = named.fields
            if name == "settings":
                raise self._fail('settings is not a column; write name: Column = any_of("settings.NAME", ...)')
            if unknown := [f for f in fields if f not in MEANINGS and f not in SPECIAL and not f.startswith(DECLARED)]:
                raise self._fail(f"{unknown[0]!r} is not a record field; see grpo_doctor/record.py for all fields")
            arguments.append(fields)
            if len(fields) > 1 and not STANDING.keys().isdisjoint(fields):
                raise self._fail(f"{fields[0]!r} cannot have alternatives in any_of")
            if fields[0] in STANDING:
                field = STANDING[fields[0]][0]
                named = AnyOf((field,), named.optional, sparse=field != "reward_mean")
            if not named.optional and fields[0] not in ("events", "step"):
                needs.append(named)
        self.predicate, self.arguments = function, tuple(arguments)
        self.needs = tuple(dict.fromkeys(needs))

    def conditions(self, columns: Iterable[Any], thresholds: Mapping[str, Any]) -> Any:
        """Call the predicate with the columns of its arguments; the columns of a `Trend` form a single argument."""
        assert self.predicate is not None
        left, width = iter(columns), len(States._fields)
        given = [States(*islice(left, width)) if name in TRENDS else next(left) for name in self.parameters]
        return self.predicate(*given, **thresholds)

    def traced(self, thresholds: Mapping[str, Any]) -> Traced:
        """Return the predicate as a plan, with these thresholds in place of the defaults. Raises `CheckError` if
        tracing fails."""
        if thresholds:
            return self._trace(thresholds)
        if self._traced is None:
            self._traced = self._trace({})
        return self._traced

    def _trace(self, thresholds: Mapping[str, Any]) -> Traced:
        try:
            first = [fields[0] for fields in self.arguments]
            late = {place: STANDING[field][1] for place, field in enumerate(first) if field in STANDING}
            found = self.conditions(columns(map(key_of, self.arguments), late), thresholds)
        except Exception as error:  # any error in a check file means that this file cannot be loaded
            raise self._fail(f"{_said(error)}", _line_in(error.__traceback__, self.file)) from error
        if not isinstance(found, Fires):
            raise self._fail("a @check must return fires(...)")
        named = {name for _, name, _, _ in Formatter().parse(found.message) if name is not None}
        if unknown := named - found.evidence.keys():
            raise self._fail(f"its message contains {{{min(unknown)}}}, which is not passed to fires as evidence")
        shown = [found.when, *(condition for _, condition in found.levels)]
        return Traced(found, Plan(shown, [found.onset, found.confidence, found.suffered, *found.evidence.values()]))

    def refuse_threshold(self, name: str, value: object) -> None:
        """Raise ValueError for an unknown threshold or an invalid value."""
        limits = self.limits
        if name not in limits:
            raise ValueError(f"no such threshold; available: {', '.join(limits) or 'none'}")
        count = isinstance(limits[name], int)
        if isinstance(value, bool) or not isinstance(value, int if count else int | float) or not math.isfinite(value):
            raise ValueError(f"takes {'a whole number' if count else 'a number'}, not {value!r}")
        if count and value < 1:
            raise ValueError(f"takes a whole number of at least 1, not {value}")

    def take_conclusion(self, function: Callable[..., Any]) -> None:
        """Read the premises, which are codes of checks, from the signature. A premise is required unless its parameter
        has a default."""
        self.conclusion = function
        self.premises = {name: needed for name, (needed, _) in _positional(function).items()}

    def take_probe(self, function: Callable[..., Any], meta: Mapping[str, Any]) -> None:
        """Read the entry points from the signature, which are required unless they have a default. For a @check, add
        them to the page and the metadata."""
        self.probe_thresholds = _keyword_only(function)
        self.probe_arguments = {name: needed for name, (needed, _) in _positional(function).items()}
        if twice := self.thresholds.keys() & self.probe_thresholds.keys():
            raise self._fail(f"{min(twice)!r} is a threshold of its @check; rename the probe's threshold")
        self._add_docs(function)
        if not any(f"## {PROVES}" in docs for docs in self._docs):
            raise self._fail(f"the docstring of its probe lacks the heading '## {PROVES}'")
        self.probe = function
        self.probe_severity = Severity.of(meta["severity"])
        self.explains = tuple(dict.fromkeys((*self.explains, *meta["explains"])))

    def take_across(self, function: Callable[..., Any], meta: Mapping[str, Any]) -> None:
        """Read the thresholds of a comparison of two sides; for a @check, add them to the page."""
        self.across_thresholds = _keyword_only(function)
        if twice := (self.thresholds | self.probe_thresholds).keys() & self.across_thresholds.keys():
            raise self._fail(f"{min(twice)!r} is a threshold of its @check or @probe; rename the threshold of @across")
        if self._add_docs(function) and f"## {ACROSS}" not in self._docs[-1]:
            raise self._fail(f"the docstring of its @across lacks the heading '## {ACROSS}'")
        self.across = function

    @property
    def hold(self) -> tuple[int, int]:
        """``(m, n)``: the condition must be true on m of the last n rows, unless `fires` sets another value."""
        declared = all(field.startswith(DECLARED) for fields in self.arguments for field in fields)
        return (1, 1) if declared else (3, 5)

    @property
    def limits(self) -> dict[str, Any]:
        """Every threshold of the check with its default."""
        return self.thresholds | self.probe_thresholds | self.across_thresholds

    @property
    def preview(self) -> bool:
        """Whether only synthetic test columns have ever triggered the check. Findings of a preview are remarks, unless
        previews are enabled. Checks whose findings are proven by a probe or by the log itself (confidence high) are
        never previews."""
        proven = self.probe is not None or self.confidence is Confidence.HIGH
        return self.seen is not None and not self.seen and not proven

    @property
    def columns(self) -> list[str]:
        """Fields to plot with a finding of this check."""
        fields = [STANDING[f][0] if f in STANDING else f for alternatives in self.arguments for f in alternatives]
        return [f for f in dict.fromkeys(fields) if f not in SPECIAL and not f.startswith(DECLARED)]


def key_of(fields: tuple[str, ...]) -> str:
    """Return the key, among the values of a live row, of an argument with these alternatives."""
    return f"standing of {STANDING[fields[0]][0]}" if fields[0] in STANDING else " or ".join(fields)


def _positional(function: Callable[..., Any]) -> dict[str, tuple[bool, Any]]:
    """Return, for each positional parameter by name, whether it is required, and its default.

    `inspect.signature` returns the same values, but would account for a tenth of the catalogue's loading time. A
    function that was created for a table entry has its own ``__signature__``.
    """
    if made := getattr(function, "__signature__", None):
        return {p.name: (p.default is p.empty, p.default) for p in made.parameters.values() if p.kind < p.KEYWORD_ONLY}
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    required = len(names) - len(defaults)
    return {name: (i < required, None if i < required else defaults[i - required]) for i, name in enumerate(names)}


def _keyword_only(function: Callable[..., Any]) -> dict[str, Any]:
    """Return keyword-only parameters by name, with their defaults."""
    if made := getattr(function, "__signature__", None):
        return {p.name: p.default for p in made.parameters.values() if p.kind is p.KEYWORD_ONLY}
    code, defaults = function.__code__, function.__kwdefaults__ or {}
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return {name: defaults[name] for name in names}


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ColumnError) else f"{type(error).__name__}: {error}"


def _line_in(traceback: TracebackType | None, file: str) -> int | None:
    """Return the innermost line of this file in a traceback."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
