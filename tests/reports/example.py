"""Constructed diagnoses: one finding of each role, no finding, nothing judged, and one full of hostile text."""

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from grpo_doctor import Diagnosis, Finding, Rival, Run
from grpo_doctor.diagnosis.check import Role, Withheld
from grpo_doctor.diagnosis.remedies import shared_remedies
from grpo_doctor.diagnosis.verdict import Coverage
from grpo_doctor.record import Event
from grpo_doctor.run import Sample, Table

HOSTILE = (
    "<script>alert(1)</script>\x1b[31m\x00\u202egnitfel\u202c **bold** [x](javascript:alert(1)) |a|\n# h "
    "</style><img src=http://evil.example/x onerror=alert(1)> {{ 7*7 }} ![i](http://evil.example/i.png)"
)
KEY = "sk-proj-abcdefghij0123456789XYZ"


def coverage(**changes: Any) -> Coverage:
    known: dict[str, Any] = {
        "ran": 12,
        "fired": 4,
        "passed": 8,
        "skipped": [
            {"code": "SHP001", "needs": ["logit_gap"]},
            {"code": "SHP004", "needs": ["logit_gap"]},
            {"code": "RAT001", "needs": ["ratio_mean", "clip_fraction"]},
        ],
        "unread_keys": ["tqdm", "it/s"],
        "passed_codes": ["ENT001", "KL001"],
    }
    return Coverage(**(known | changes))


def run(steps: int = 95, source: str = "logs/training.log") -> Run:
    """Healthy for four steps, then collapsed after every second step."""
    made = Run(source, "aflow-console")
    made.steps = np.arange(1, steps + 1)
    made.lines = made.steps * 10
    broken = (made.steps > 4) & (made.steps % 2 == 0)
    made.columns = {
        "fallback_rate": np.where(broken, 1.0, 0.05),
        "reward_mean": np.where(broken, 0.1, 0.6),
        "loss": np.where(made.steps == 50, math.nan, 0.01 * made.steps),
        "grad_norm": np.abs(np.sin(made.steps)),
        "wall_time": made.steps * 60.0,
    }
    for row in np.flatnonzero(broken).tolist():
        made.events[row - 1] = [Event(kind="update", message="update", line=row * 10)]
        made.events[row] = [Event(kind="collapse", message="all responses replaced", line=row * 10 + 10)]
    made.events[steps * 2 // 3] = [Event(kind="restart", message="step goes back")]
    made.samples = {
        5: [
            Sample(step=6, response="user user user", prompt="Solve 1+1", reward=0.1, valid=False),
            Sample(step=6, response="Custom -> Review", prompt="Solve 1+1", reward=0.9, valid=True),
        ]
    }
    return made


def finding(code: str, name: str, role: Role, severity: str, **changes: Any) -> Finding:
    known: dict[str, Any] = {
        "confidence": "medium",
        "onset_step": 6,
        "kind": "risk",
        "detected_step": 8,
        "last_step": 95,
        "message": f"{name} with 0.25 of it.",
        "evidence": {"share": 0.25},
        "lines": [60, 80],
    }
    return Finding(code=code, name=name, role=role, severity=severity, **(known | changes))


def of_each() -> list[Finding]:
    return [
        finding(
            "GEN001",
            "generation-in-train-mode-with-checkpointing",
            "cause",
            "critical",
            confidence="high",
            onset_step=5,
            detected_step=5,
            message="The model generates in train mode with gradient checkpointing: 37 of 38 updates broke the next rollout.",
            evidence={"updates": 38, "odds": math.inf},
            lines=[50],
            invalidates=["rewards since step 5", "checkpoints since step 5"],
            rivals=[Rival("learning-rate-too-high", "a large step also breaks a policy", "evaluate in eval mode")],
            remedies=[replace(shared_remedies()["generate-in-eval-mode"], evidence="as the engine measured it")],
            withheld=[Withheld("lower-learning-rate", "Lower the learning rate", "GEN001: the weights are fine")],
            columns=["fallback_rate", "reward_mean"],
        ),
        finding("LEN001", "length-collapse", "outcome", "error", explained_by=["GEN001"], columns=["fallback_rate"]),
        finding("UPD001", "update-collapse-association", "symptom", "error", explained_by=["GEN001"]),
        finding("KL005", "kl-spike", "outcome", "warning", onset_step=40, detected_step=41, last_step=44, cleared=True),
        finding(
            "ADV003",
            "zero-variance-groups",
            "note",
            "error",
            remedies=[shared_remedies()["drop-zero-variance-groups"]],
            columns=["reward_mean"],
        ),
        finding("CFG001", "small-group", "note", "info", evidence={"group_size": 2}, lines=[]),
    ]


def diagnosis(findings: list[Finding] | None = None, **changes: Any) -> Diagnosis:
    findings = of_each() if findings is None else findings
    made = changes.pop("run") if "run" in changes else run()
    known: dict[str, Any] = {
        "source": made.source,
        "format": made.format,
        "run_type": made.run_type,
        "steps": len(made),
        "first_step": int(made.steps[0]) if len(made) else None,
        "last_step": int(made.steps[-1]) if len(made) else None,
        "settings": {"group_size": 2, "learning_rate": 5e-6, "model": "Qwen2.5-7B"},
        "verdict": "failing",
        "cause": findings[0].code if findings else None,
        "headline": findings[0].message if findings else "",
        "findings": findings,
        "coverage": coverage(),
        "notes": ["line 95 is torn and was left out"],
        "tables": [
            Table(title="Most frequent responses", head=["response", "count"], rows=[["Custom", "250"]], texts=True)
        ],
    }
    return Diagnosis(run=made, **(known | changes))


def healthy() -> Diagnosis:
    return diagnosis(
        [],
        verdict="healthy",
        headline="No sign of collapse, stall or broken plumbing was found in what was recorded.",
        coverage=coverage(fired=0, passed=12),
        notes=[],
        tables=[],
    )


def unjudged() -> Diagnosis:
    return diagnosis(
        [],
        run=Run("empty.log", "unknown", "none"),
        verdict="unjudged",
        headline="No training metrics were recognised, so there is no verdict.",
        coverage=coverage(ran=0, fired=0, passed=0, skipped=[], unread_keys=[]),
        settings={},
        notes=["the file is empty"],
        tables=[],
    )


def hostile() -> Diagnosis:
    """Every text that a log can reach is hostile, and one is 100 KB long."""
    made = run(source=f"logs/{HOSTILE}.log")
    made.samples = {5: [Sample(step=6, response=HOSTILE, prompt=HOSTILE, valid=False)]}
    for finding_ in (findings := of_each()):
        finding_.message = f"{HOSTILE} {KEY}"
        finding_.evidence = {"text": HOSTILE, "long": "x" * 100_000}
    return diagnosis(
        findings,
        run=made,
        settings={HOSTILE: HOSTILE, "wandb_api_key": "0123456789abcdef", "note": f"token {KEY}"},
        coverage=coverage(unread_keys=[HOSTILE]),
        notes=[HOSTILE, "y" * 100_000],
        tables=[Table(title=HOSTILE, head=[HOSTILE], rows=[[HOSTILE]], note=HOSTILE)],
    )
