"""Evidence for each check: ``python -m tests.seen`` (``make seen``) writes ``checks/seen.json``.

A check is a preview, shown as a remark and counted in the verdict only under ``--preview``, until something other than
its own test has triggered it correctly. Checks with a probe, and checks that the log itself proves (confidence high),
are not previews. Evidence is a public log that is labelled failing, or one on which the check reported a remark; an
issue thread whose cause it names; a fault that was planted in a configuration, injected into the engine or into a run
of a public trainer; a wrong variant of a trainer that its probe caught; or a labelled run from the generator of another
tool (`tests.other_tools`). Tests compare planted and injected faults with these counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from grpo_doctor.diagnosis.catalogue import home, load
from grpo_doctor.diagnosis.check import Finding, Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.engine.faults import FAULTS
from grpo_doctor.readers import ReadError, read

from .compare.pairs import ACROSS, said_of
from .corpus import labels
from .corpus_path import CORPUS
from .data import MADE_FAILING
from .mismatch.toy import CODES, STRENGTHS, TOLD_AS
from .other_tools import AT_HAND, reported
from .preflight import test_planted
from .probes import broken_styles, test_broken_reference, test_more_variants
from .rollouts.planted import DRIFTS
from .threads.cases import KNOWN
from .threads.configurations import SET
from .threads.others import FOUND
from .threads.thread import outcome

Seen = tuple[str, str, str]
"""Code, kind of evidence, and what it was."""


def on_logs() -> Iterator[Seen]:
    """Return the public logs on which a check fired correctly."""
    for label in labels() if CORPUS.is_dir() else ():
        try:
            runs = read(CORPUS / label["file"])
        except ReadError:
            continue
        for run in runs:
            for finding in diagnose(run).findings:
                if _right(finding, label):
                    yield finding.code, "logs", f"{label['repo']}: {label['path']}"


def on_pairs() -> Iterator[Seen]:
    """Return the pairs of public logs on which a comparison check fired correctly."""
    for code, pair in ACROSS.items() if CORPUS.is_dir() else ():
        if code in said_of(pair):
            yield code, "logs", " against ".join(pair)


def _right(finding: Finding, label: dict[str, str]) -> bool:
    if finding.level is Severity.INFO:
        return True
    return not {"healthy", "unproven", ""} & set(label["expect"].split("|"))


def on_threads() -> Iterator[Seen]:
    """Issue threads whose cause a check names."""
    for thread in (*KNOWN, *SET, *FOUND):
        got, diagnosis = outcome(thread)
        if got == "caught":
            yield from ((f.code, "threads", thread.at) for f in diagnosis.findings if f.code in thread.names)


def planted() -> Iterator[Seen]:
    """Return faults of a configuration, of the engine, of a run in TRL, of a wrong trainer and of generated
    rollouts."""
    yield from ((code, "configurations", name) for name, code, _, _ in test_planted.FAULTS)
    yield from ((code, "faults", name) for name, fault in FAULTS.items() for code in fault.named_by)
    yield from ((code, "trainers", name) for name, code in MADE_FAILING.items())
    yield from ((code, "twins", name) for code, names in test_broken_reference.CAUSES.items() for name in names.split())
    yield from ((code, "twins", name) for name, code, *_ in test_more_variants.BROKEN)
    yield from ((fault.code, "twins", fault.name) for fault in broken_styles.FAULTS)
    yield from ((code, "rollouts", f"{drift}: {task}") for drift, (code, _, tasks) in DRIFTS.items() for task in tasks)
    yield from ((CODES[told], "batches", f"{kind}") for kind in STRENGTHS if (told := TOLD_AS.get(kind, kind)))


def counts() -> dict[str, dict[str, int]]:
    """Return code to kind of evidence to its amount; the stored amounts if the logs or generators are not available."""
    file = home("checks") / "seen.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    seen: dict[str, dict[str, set[str]]] = {code: defaultdict(set) for code in load().checks}
    for kind in (on_logs, on_pairs, on_threads, planted, reported):
        for code, evidence, what in kind():
            seen[code][evidence].add(what)
    absent = {"logs": not CORPUS.is_dir(), "peers": not AT_HAND}
    kept = {code: {kind: n for kind, n in kinds.items() if absent.get(kind)} for code, kinds in stored.items()}
    return {
        code: kept.get(code, {}) | {kind: len(of) for kind, of in sorted(kinds.items())} for code, kinds in seen.items()
    }


def main() -> None:
    """Writes the file and prints what is a preview."""
    for check in load().checks.values():
        check.seen = None  # whatever was written last time, all of them count here
    seen = counts()
    lines = [f'"{code}": {json.dumps(kinds)}' for code, kinds in seen.items()]
    (home("checks") / "seen.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print("preview:", " ".join(code for code, kinds in seen.items() if not kinds))


if __name__ == "__main__":
    main()
