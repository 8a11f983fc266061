"""Runs the probes on an adapter, one after another, and restores the adapter after each probe."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from ..diagnosis.catalogue import Catalogue, home, load
from ..diagnosis.check import Check, CheckError, Finding, Fires, Severity
from ..diagnosis.verdict import Coverage, Diagnosis, Verdict, diagnosis_of
from ..diagnosis.wording import counted, rendered
from ..fault_isolation import words_of
from ..run import Run
from . import entry_points as seams_module
from .composite import completed
from .crafted_inputs import PROMPTS, device_of, pad_left, special_ids
from .entry_points import (
    RESOURCES,
    SEAMS,
    Adapter,
    AdapterError,
    NotApplicable,
    NotObserved,
    Prompt,
    Unjudged,
    WrongShape,
)
from .forced_draws import Undrawn, Ways
from .generations import copies_that_generate
from .intercept import BESIDE_PROMPTS
from .known_forwards import KnownForwards
from .model_modes import one_thread
from .saved_cases import as_code
from .state_guard import Snapshot
from .tokenizers import readable

T = TypeVar("T")

TIME_LIMIT = 60.0
"""Time limit of one probe in seconds."""

CALLS = 100
"""The time limit of a probe is extended to the duration of this many calls to the slowest entry point, because no probe
makes more calls."""

_NUMBER = re.compile(r"\d+")
"""Matches the parts of a message that vary between exceptions with the same reason: shapes, versions, addresses."""

_OURS = (os.path.dirname(os.path.dirname(os.path.abspath(seams_module.__file__))), str(home("checks")))


@dataclasses.dataclass
class Result:
    """The result of one probe: a finding, the reason why the probe could not judge, or neither if the tested property
    is true."""

    check: Check
    finding: Finding | None = None
    why: str = ""
    needs: list[str] = dataclasses.field(default_factory=list)
    unseen: bool = False
    """Whether the most recently called entry point does not appear to use the adapter's model."""
    inapplicable: bool = False
    """Whether the trainer has no part that the probe tests."""
    withheld: bool = False
    """Whether the probe could not judge although the adapter provides all required parts."""
    note: str = ""
    """The probe's measurement for the report, with or without a finding."""
    called: list[str] = dataclasses.field(default_factory=list)
    """The adapter's own entry points that the probe called, most recent last."""

    @property
    def passed(self) -> bool:
        return self.finding is None and not self.why


def run_probes(
    adapter: Adapter,
    *,
    catalogue: Catalogue | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
    time_limit: float = TIME_LIMIT,
    device: str | None = None,
) -> Diagnosis:
    """Run every probe of the catalogue whose entry points the adapter has.

    The adapter's model, optimizer, tokenizer and settings, and the random generators, are restored. An exception that
    an entry point raises is reported in the coverage and in the notes. The other probes still run, but the verdict
    cannot be better than unjudged.

    Args:
        time_limit: seconds for each probe, enforced by an alarm signal in the main thread of a POSIX system.
        device: moves the adapter's models to this device; the adapter's functions must use it (``input_ids.device``).
    """
    catalogue = catalogue or load()
    if device is not None:
        move_to(adapter, device)
    snapshot = Snapshot(adapter)
    results = list(examine(adapter, catalogue, thresholds or {}, time_limit, snapshot))
    if not results:
        raise AdapterError("none of the selected checks has a probe")
    _without_dead_ends(results)
    run = Run(adapter.name, "adapter", "probe")
    run.settings.update(adapter.settings)
    unfinished = [r for r in results if r.why and not r.needs]
    run.notes += [r.note for r in results if r.note]
    run.notes += _reasons(unfinished)
    useless, lacking = _unused(adapter, results, whole=len(catalogue.checks) == len(load().checks))
    run.notes += [*useless, *lacking]
    findings = [r.finding for r in results if r.finding is not None]
    passed = sum(r.passed for r in results)
    skipped = [{"code": r.check.code, "needs": r.needs or [r.why]} for r in results if r.why]
    coverage = Coverage(
        ran=passed + len(findings),
        fired=len(findings),
        passed=passed,
        skipped=skipped,
        unread_keys=[],
        passed_codes=[r.check.code for r in results if r.passed],
    )
    diagnosis = diagnosis_of(run, catalogue, findings, coverage, {}, rows=0)
    if diagnosis.verdict == "healthy":
        diagnosis.verdict, diagnosis.headline = _short_of(diagnosis.headline, results, useless, adapter)
    if not snapshot.whole:
        diagnosis.notes.append(_NOT_WHOLE)
    return diagnosis


_NOT_WHOLE = (
    "The entry points reference more objects than were searched: name every model and optimizer in the adapter, "
    "because an object that was not found is not restored between probes."
)


CORE = {
    "the loss mask": ("PAD002",),
    "ratio and clip": ("RAT007",),
    "KL": ("KL003", "KL004", "KL006"),
    "padding": ("PAD001", "PAD004"),
}
"""Properties that a trainer must have, with the probes for each property. At least one probe of each property must
pass."""

NAMED = 4
"""Maximum number of unjudged properties in the verdict; the report lists all properties."""


def _short_of(headline: str, results: list[Result], useless: list[str], adapter: Adapter) -> tuple[Verdict, str]:
    """Return the verdict, and the sentence that explains it, if no defect was found. The sentence names the properties
    that could not be judged or were not probed."""
    unfinished = [r for r in results if r.why and not r.needs]
    withheld = [r for r in results if r.withheld]
    passed = f"All probed properties hold ({sum(r.passed for r in results)})."
    if useless:
        return (
            "unjudged",
            f"{len(useless)} of {len(adapter.seams)} entry points could not be used, so nothing is known about them. "
            f"{passed}",
        )
    if unfinished:
        return "unjudged", f"{counted(len(unfinished), 'probe')} could not finish. {passed}"
    codes, proven = {r.check.code: r.why for r in withheld}, {r.check.code for r in results if r.passed}
    neither = {r.check.code for r in results} - proven - codes.keys()
    unseen = ", ".join(name for name, proving in CORE.items() if {*proving} <= neither)
    left = f" Not probed: {unseen}." if unseen else ""
    open_ = {
        name: next(c for c in proving if c in codes)
        for name, proving in CORE.items()
        if codes.keys() & {*proving} and not proven & {*proving}
    }
    if open_:
        why = "; ".join(f"{name} ({code}: {codes[code]})" for name, code in open_.items())
        return "unproven", f"No defect was found, but these properties could not be judged: {why}.{left} {passed}"
    if unseen and not proven & {code for proving in CORE.values() for code in proving}:
        return "unproven", f"No defect was found, but no core property was probed: {unseen}. {passed}"
    headline += left
    if not withheld:
        return "healthy", headline
    named = ", ".join(f"{r.check.code} {r.check.name}" for r in withheld[:NAMED])
    rest = f" and {len(withheld) - NAMED} more" if len(withheld) > NAMED else ""
    return "healthy", f"{headline} Not judged: {named}{rest}."


def _without_dead_ends(results: list[Result]) -> None:
    """Remove references to probes without a finding from the reasons."""
    found = {r.check.code for r in results if r.finding is not None}
    for r in results:
        why, _, code = r.why.partition("; see ")
        if code and code not in found:
            r.why, r.needs = why, [why] if r.needs else []


def _reasons(unfinished: list[Result]) -> list[str]:
    """Return one line for each reason why probes could not finish, with the names of the affected probes."""
    alike: dict[str, list[Result]] = {}
    for r in unfinished:
        alike.setdefault(_NUMBER.sub("", r.why), []).append(r)
    return [f"{', '.join(f'{r.check.code} {r.check.name}' for r in some)}: {some[0].why}" for some in alike.values()]


def _unused(adapter: Adapter, results: list[Result], whole: bool) -> tuple[list[str], list[str]]:
    """Return one line, with the reason, for each entry point of the adapter that could not be used to judge anything.
    Also return one line for each entry point that no probe called because the adapter lacks a related object.

    If ``whole`` is true, every probe was run, so entry points that were never called are included.
    """
    useless, lacking = [], []
    for name in adapter.seams:
        tried = [r for r in results if name in r.called]
        blind = [r for r in tried if r.unseen and r.called[-1] == name]
        asked = [r for r in results if name in r.check.probe_arguments]
        if asked and all(r.needs and {*r.needs} <= {*RESOURCES} for r in asked):
            needed = ", ".join(dict.fromkeys(n for r in asked for n in r.needs))
            lacking.append(f"The entry point {name} was not probed: the adapter does not provide {needed}.")
            if not tried:
                continue
        if not tried and any(r.inapplicable for r in asked):
            continue  # such as a reference without a KL term
        why = next((r.why for r in blind or tried or asked if r.why), "no probe uses it")
        judged = any(not r.needs for r in tried) and 2 * len(blind) < len(tried)  # exceptions are reported separately
        if not judged and (tried or whole):
            useless.append(f"The entry point {name} was provided but could not be used: {why}.")
    return useless, lacking


def _counted(adapter: Adapter, called: dict[str, tuple[Any, ...]], slowest: list[float]) -> Adapter:
    """Return the adapter with entry points that record their last arguments, and the duration of the slowest call in
    seconds. The most recently called entry point comes last. A call with advantages of 0 is the baseline of another
    call, and does not replace the recorded arguments."""

    def noting(name: str, seam: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(seam)
        def noted(*args: Any, **kwargs: Any) -> Any:
            last, given = called.pop(name, args), args[-1] if args else None
            called[name] = last if isinstance(given, Tensor) and not given.any() else args
            began = time.monotonic()
            try:
                return seam(*args, **kwargs)
            finally:
                slowest.append(max(time.monotonic() - began, slowest.pop()))

        return noted

    return dataclasses.replace(adapter, seams={name: noting(name, seam) for name, seam in adapter.seams.items()})


def move_to(adapter: Adapter, device: str) -> None:
    """Move the adapter's models to a device."""
    try:
        for model in (adapter.model, adapter.reference, adapter.base):
            if model is not None:
                model.to(device)
    except RuntimeError as error:
        raise AdapterError(f"--device {device}: {str(error).splitlines()[0]}") from None


def examine(
    adapter: Adapter,
    catalogue: Catalogue,
    thresholds: Mapping[str, Mapping[str, Any]],
    time_limit: float = TIME_LIMIT,
    snapshot: Snapshot | None = None,
) -> Iterator[Result]:
    """Yield one result per probe; the adapter is restored after each, and compared as a whole at the end."""
    _refuse_unknown(catalogue)
    called: dict[str, tuple[Any, ...]] = {}
    BESIDE_PROMPTS.clear()
    as_given = adapter
    adapter = dataclasses.replace(adapter, tokenizer=readable(adapter.tokenizer, adapter.model))
    slowest = [0.0]
    seams = completed(_counted(adapter, called, slowest))
    snapshot, ways = snapshot or Snapshot(as_given), Ways()
    if adapter.prompts is None:
        adapter.prompts = ways(lambda: _prompts_for(seams.get("render"), snapshot), snapshot.restore)
    known = KnownForwards([adapter.model, adapter.reference])
    snapshot.add(ways(lambda: sampler_copies(adapter, seams, snapshot), snapshot.restore))
    try:
        for check in catalogue.checks.values():
            if check.probe is None:
                continue
            given = {n: getattr(adapter, n) if n in RESOURCES else seams.get(n) for n in check.probe_arguments}
            if missing := [n for n, required in check.probe_arguments.items() if required and given[n] is None]:
                yield Result(check, why=f"needs {', '.join(missing)}", needs=missing)
                continue
            called.clear()
            judge = functools.partial(_one, check, given, thresholds.get(check.code, {}), time_limit, slowest)
            with known.used():
                result = ways(judge, snapshot.restore)
            snapshot.restore(whole=False)
            result.called = list(called)
            if result.why.startswith("returned ") and called:
                result.why = f"{result.called[-1]} {result.why}"
            if result.finding is not None and called:
                name, last = [*called.items()][-1]
                result.finding.evidence.setdefault("crafted", as_code(name, *last))
            yield result
    finally:
        snapshot.restore()


def _prompts_for(render: Callable[..., Any] | None, snapshot: Snapshot) -> list[Prompt] | None:
    """Return the default prompts as plain texts for a trainer that fails on dialogues, and None for a trainer that
    accepts dialogues."""
    if render is None:
        return None
    texts: list[Prompt] = [dialogue[-1]["content"] for dialogue in PROMPTS if not isinstance(dialogue, str)]

    def first(prompts: list[Prompt] | None) -> list[Any]:
        return [render((prompts or PROMPTS)[0])]

    return next((p for p in (None, texts) if _tried(functools.partial(first, p), snapshot)), None)


def _tried(call: Callable[[], T], snapshot: Snapshot) -> T | None:
    """Return the result of the user's code, or None if the code raises an exception, which the probes then report. The
    state is restored afterwards."""
    try:
        return call()
    except (KeyboardInterrupt, Undrawn):
        raise
    except BaseException:  # noqa: BLE001  (user code may raise anything; the probes report it)
        return None
    finally:
        snapshot.restore()


def _refuse_unknown(catalogue: Catalogue) -> None:
    """Raise `CheckError` if a probe has a parameter that no adapter can provide."""
    for check in catalogue.checks.values():
        for name in check.probe_arguments:
            if name not in SEAMS and name not in RESOURCES:
                near = get_close_matches(name, (*SEAMS, *RESOURCES), 1)
                hint = f"did you mean {near[0]!r}?" if near else "see grpo_doctor/probes/entry_points.py"
                raise CheckError(f"{check.file}: {check.code}: {name!r} is not an entry point; {hint}")


def sampler_copies(adapter: Adapter, seams: Mapping[str, Any], snapshot: Snapshot) -> list[Any]:
    """Return the sampler's own copies of the model, which a probe may change as well. Searching for the copies has no
    side effects."""
    roll = seams.get("rollout") or seams.get("sample")
    if roll is None or adapter.model is None:
        return []
    special = special_ids(adapter.tokenizer)
    prompts = list(adapter.prompts or PROMPTS)[:1]
    given = pad_left([[special.pad]], special.pad, device_of(adapter.model))

    def sampling() -> Any:
        return roll(prompts) if "rollout" in seams else roll(*given)

    return _tried(lambda: copies_that_generate(sampling, adapter.model, special.pad), snapshot) or []


def _one(
    check: Check, given: Mapping[str, Any], thresholds: Mapping[str, Any], time_limit: float, slowest: list[float]
) -> Result:
    assert check.probe is not None
    limits = {n: thresholds.get(n, default) for n, default in check.probe_thresholds.items()}
    try:
        with _within(time_limit, lambda: CALLS * slowest[0]), one_thread() if _is_small(given) else nullcontext():
            found: Fires | None = check.probe(**given, **limits)
    except Undrawn:
        raise
    except Unjudged as reason:
        if isinstance(reason, WrongShape):
            return Result(check, why=str(reason))
        none, unseen = isinstance(reason, NotApplicable), isinstance(reason, NotObserved)
        return Result(check, None, str(reason), [str(reason)], unseen, inapplicable=none, withheld=not none)
    except TimeoutError as error:
        return Result(check, why=str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (user code may raise anything; the other probes must run)
        return Result(check, why=where(error))
    finding = _finding(check, found) if found is not None and bool(found.when) else None
    return Result(check, finding, note="" if found is None else str(found.evidence.get("note", "")))


def _finding(check: Check, fires: Fires) -> Finding:
    levels = [level for level, condition in fires.levels if condition]
    return Finding(
        code=check.code,
        name=check.name,
        kind="defect",  # a defect that is proven in the code, even if the check on records is of another kind
        severity=str(max(levels, default=check.probe_severity)),
        confidence="high",
        onset_step=0,
        detected_step=0,
        last_step=0,
        message=rendered(fires.message, fires.evidence),
        evidence=fires.evidence,
    )


def loaded(load: Callable[[], Adapter], path: Path, time_limit: float) -> Adapter:
    """Return the adapter that ``load`` builds from a user's file.

    Raises `AdapterError`, with the location, if the file raises any exception or exceeds the time limit.
    """
    try:
        with _within(time_limit):
            return load()
    except (AdapterError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  (the user's file may raise anything, or leave)
        raise AdapterError(f"{path} {where(error)}") from None


def where(error: BaseException) -> str:
    """Return the exception in one line, with the innermost location in the user's own code or, without one, in library
    code."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = (*_OURS, "<frozen", os.path.dirname(os.__file__))
    outside = [f for f in frames if not f.filename.startswith(foreign)]
    own = [f for f in outside if "site-packages" not in f.filename]
    place = (own or outside or list(frames))[-1]
    text = (words_of(error).splitlines() or [""])[0][:200]
    return f"raised {type(error).__name__} at {place.filename}:{place.lineno} in {place.name}: {text}"


SMALL = 2_000_000
"""Maximum number of parameters of a small model, whose layers finish before a second thread starts."""


def _is_small(given: Mapping[str, Any]) -> bool:
    model = given.get("model")
    return model is not None and sum(p.numel() for p in model.parameters()) <= SMALL


@contextmanager
def _within(seconds: float, allowed: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
    """Raise `TimeoutError` in the block after this many seconds, or after the extended limit, if the system has alarm
    signals."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    began = time.monotonic()

    def expire(number: int, frame: Any) -> None:
        limit = max(seconds, allowed())
        left = began + limit - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"took longer than {limit:.3g} s")
        signal.setitimer(signal.ITIMER_REAL, left)

    before = signal.signal(signal.SIGALRM, expire)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)


def holds(adapter: Adapter, code: str) -> None:
    """Raise AssertionError if the probe of this check reports a finding above info, or cannot judge."""
    result = next(examine(adapter, Catalogue([load().checks[code]]), {}))
    assert not result.why, f"{code} could not be judged: {result.why}"
    if result.finding is not None:
        assert result.finding.level <= Severity.INFO, f"{code} {result.check.name}: {result.finding.message}"


def suite(
    adapter: Adapter | Callable[[], Adapter], *, select: tuple[str, ...] = (), ignore: tuple[str, ...] = ()
) -> Any:
    """Return a pytest test with one case per probe: ``test_plumbing = grpo_doctor.probes.suite(adapter)``.

    A case fails on a finding at error or above, and if the trainer's own code raises an exception. A case is skipped if
    an entry point is missing or the probe cannot judge.
    """
    import pytest

    catalogue = load().select(select, ignore)
    codes = [code for code, check in catalogue.checks.items() if check.probe is not None]
    made: list[Adapter] = []

    @pytest.mark.parametrize("code", codes)
    def test_probe(code: str) -> None:
        if not made:
            made.append(adapter if isinstance(adapter, Adapter) else adapter())
        result = next(examine(made[0], Catalogue([load().checks[code]]), {}))
        if result.needs:
            pytest.skip(result.why)
        assert not result.why, result.why
        if result.finding is not None:
            assert result.finding.level < Severity.ERROR, f"{code} {result.check.name}: {result.finding.message}"

    return test_probe
