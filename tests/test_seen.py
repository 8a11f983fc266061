"""Evidence for each check: the stored counts are those of the tests, and a preview is a remark."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from grpo_doctor.diagnosis.catalogue import Catalogue, home, load
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.testing import make_run

from .seen import planted


def test_the_stored_counts_are_those_of_what_is_planted() -> None:
    stored = json.loads((home("checks") / "seen.json").read_text(encoding="utf-8"))
    assert stored.keys() == load().checks.keys(), "run `make seen`"
    counted = Counter((code, kind) for code, kind, _ in set(planted()))
    kept = {(code, kind): n for code, kinds in stored.items() for kind, n in kinds.items()}
    assert {at: n for at, n in kept.items() if at[1] not in ("logs", "peers", "threads")} == counted, "run `make seen`"


def test_a_check_that_was_never_seen_on_anything_real_is_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    check = load().checks["KL002"]
    run = make_run(kl_grad_share="0.62 ?x9 0.62 ?x9 0.62 ?x3")
    assert diagnose(run, catalogue=Catalogue([check])).findings[0].severity != "info"
    monkeypatch.setattr(check, "seen", {})
    (finding,) = diagnose(run, catalogue=Catalogue([check])).findings
    assert (finding.severity, finding.preview) == ("info", True)
    (counted,) = diagnose(run, catalogue=Catalogue([check], preview=True)).findings
    assert (counted.severity != "info", counted.preview) == (True, False)
