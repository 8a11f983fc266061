"""The failures that other diagnosis tools generate for their own tests, as logs that `grpo_doctor.readers` reads.

rldoctor and rlprobe each generate labelled runs: a healthy one, and one for each problem that the tool looks for. Their
authors do not know these checks, so a finding on such a run is independent evidence. Both packages are in the ``dev``
extra; none of their files are stored here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import read

SEEDS = (0, 1, 2)
AT_HAND = find_spec("rl_doctor") is not None and find_spec("rlprobe") is not None

REPORTED = {
    "rldoctor": {
        "entropy_collapse": "ENT014",
        "saturated_groups": "ADV016",
        "too_hard": "REW003",
        "reward_hacking": "REW002",
        "length_hacking": "REW017",
        "truncation": "LEN002",
        "kl_blowup": "KL001",
        "clip_saturation": "RAT001",
        "grad_spikes": "GRD002",
        "plateau": "STL009",
        "format_domination": "REW018",
    },
    "rlprobe": {
        "kl_blowup": "KL001",
        "entropy_collapse": "ENT014",
        "reward_hack_length": "REW019",
        "format_gaming": "REW018",
        "clip_saturation": "RAT001",
        "degenerate_groups": "ADV016",
        "adv_collapse": "ADV006",
        "value_divergence": "VAL001",
        "grad_pathology": "GRD002",
        "truncation_starve": "LEN003",
        "repetition_spiral": "DIV005",
        "reward_std_death": "ADV016",
    },
}
"""Tool, its scenario, and the check that reports it."""
REMARKS = frozenset(
    "saturated_groups grad_spikes plateau format_domination format_gaming degenerate_groups grad_pathology".split()
)
"""Scenarios of runs that learn all the same, on held-out prompts too where there are any: they get a remark."""
LEFT_OUT = {
    "ref_drift_asymmetry": "the KL by position in the response is logged by no trainer that is read, and its mean stays "
    "at 0.12 nats per token",
    "throughput_rot": "step time is a matter of performance; the reward goes on rising, and the length grows by 1.8",
}
"""Scenarios of rlprobe that nothing reports, and why."""


@cache
def of_rldoctor(scenario: str, seed: int) -> Diagnosis:
    """Return the diagnosis of a scenario of rldoctor: rows under TRL's names, as JSON lines."""
    from rl_doctor.simulate import simulate

    rows, _ = simulate(scenario, seed=seed)
    with TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        (run,) = read(log)
    return diagnose(run)


@cache
def of_rlprobe(pathology: str, seed: int) -> Diagnosis:
    """Return the diagnosis of a pathology of rlprobe, or of its healthy run: its own recording, with the sampled
    responses."""
    from rlprobe.testing.synth import generate_run

    with TemporaryDirectory() as folder:
        wanted = None if pathology == "healthy" else pathology
        (run,) = read(generate_run(Path(folder, "recorded"), wanted, seed=seed))
    return diagnose(run)


MADE_BY = {"rldoctor": of_rldoctor, "rlprobe": of_rlprobe}


def reported() -> Iterator[tuple[str, str, str]]:
    """Yield code, kind of evidence and scenario for each check that reports the scenario with every seed."""
    for tool, scenarios in REPORTED.items() if AT_HAND else ():
        for scenario, code in scenarios.items():
            if all(MADE_BY[tool](scenario, seed).finding(code) is not None for seed in SEEDS):
                yield code, "peers", f"{tool}: {scenario}"
