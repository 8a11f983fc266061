from pathlib import Path

import pytest

import grpo_doctor
from grpo_doctor.testing import find

SCRIPT = (
    "from trl import GRPOConfig, GRPOTrainer\n"
    "def score(prompts, completions, answer, **kwargs):\n{body}"
    "GRPOTrainer(reward_funcs={rewards}, args=GRPOConfig(num_generations=8){more})\n"
)


def test_message() -> None:
    found = find("CFG068", {"constant_rewards": "score", "group_size": 8}, loss="0")
    message = "All responses to a prompt get the same reward, because score does not read the completions."
    assert (found.severity, found.message) == ("warning", message)


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("    return answer\n", "error"),
        ("    return [1.0] * len(completions)\n", "error"),
        ("    return [len(p) for p, c in zip(prompts, completions)]\n", "error"),
        (
            "    out = []\n    for i, c in enumerate(completions):\n        out.append(answer[i])\n    return out\n",
            "error",
        ),
        ("    return [len(c) for p, c in zip(prompts, completions)]\n", None),
        ("    return [length(c) for c in completions]\n", None),
        ("    return [answer[hash(completions[i])] for i in range(8)]\n", None),
        ("    return [len(i) for i in kwargs['completion_ids']]\n", None),
        ("    return scores_of_this_step\n", None),
        ("    global step\n    step += 1\n    return answer\n", None),
    ],
)
def test_boundary(tmp_path: Path, body: str, severity: str | None) -> None:
    (path := tmp_path / "train.py").write_text(SCRIPT.format(body=body, rewards="score", more=""))
    found = grpo_doctor.preflight(path).finding("CFG068")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("rewards", "more", "severity"),
    [("[score, other]", "", "warning"), ("score", ", rollout_func=roll", None), ("score", ", **given", None)],
)
def test_other_sources_of_rewards(tmp_path: Path, rewards: str, more: str, severity: str | None) -> None:
    script = SCRIPT.format(body="    return answer\n", rewards=rewards, more=more)
    (path := tmp_path / "train.py").write_text(script)
    found = grpo_doctor.preflight(path).finding("CFG068")
    assert (found.severity if found else None) == severity
