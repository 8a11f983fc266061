"""The embedded task's language and grades, and tasks of the user."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from grpo_doctor.config import ConfigError
from grpo_doctor.engine.task import (
    LONGEST,
    OPERATORS,
    TARGETS,
    Workflow,
    WorkflowTask,
    demonstration,
    grade,
    load_task,
    parse,
)  # fmt: skip


def spelled(text: str) -> str:
    return " ".join(" ".join(OPERATORS.get(word, (word,))) for word in text.split())


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("Custom -> done", True),
        ("Plan -> Programmer -> Review ? Revise : done", True),
        ("Review ? Revise : done", True),
        ("Custom ? Revise : done", False),  # only a judge branches
        ("Custom -> Custom -> done", False),  # named twice
        ("Review ? Review : done", False),
        ("Custom -> Plan -> Test -> Search -> Ensemble -> done", True),
        ("Custom -> Plan -> Test -> Search -> Ensemble -> Revise -> done", False),  # too long
        ("Custom ->", False),
        ("Custom -> done done", False),
        ("done", False),
        ("ka lo -> done", False),
        ("", False),
    ],
)
def test_grammar(text: str, valid: bool) -> None:
    assert (parse(spelled(text)) is not None) is valid


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_a_workflow_is_read_as_it_is_written_and_the_best_earns_one(target: Workflow) -> None:
    assert parse(" ".join(target.words())) == target
    assert grade(target, target).reward == 1.0


def test_grades_rise_with_what_is_right() -> None:
    target = TARGETS["code", "medium"]  # Programmer -> Test ? Revise : done
    wrong, one, tail = (parse(spelled(t)) for t in ("Search -> done", "Test -> done", "Test ? Revise : done"))
    assert wrong is not None and one is not None and tail is not None  # noqa: PT018
    assert [round(grade(w, target).reward, 3) for w in (wrong, one, tail)] == [0.1, 0.35, 0.65]


def test_text_cut_at_the_limit_is_invalid_even_where_it_parses() -> None:
    task = WorkflowTask(1)
    text = " ".join(TARGETS[task.examples[0].columns["kind"], task.examples[0].columns["level"]].words())
    assert [s.reward for s in task.score([task.examples[0]] * 2, [text, text], [True, False])] == [1.0, 0.0]


def test_demonstrations_are_valid_unless_corrupted() -> None:
    rng, target = random.Random(0), TARGETS["qa", "hard"]
    texts = [" ".join(demonstration(rng, target, hint=0.1, bias=6.0, corrupted=0.0)) for _ in range(300)]
    workflows = [parse(text) for text in texts]
    assert all(w is not None and len(w.named) <= LONGEST for w in workflows)
    assert 0.05 < sum(w == target for w in workflows) / 300 < 0.3


def test_samples_show_names() -> None:
    assert WorkflowTask(1).show(spelled("Custom -> Review ? Revise : done") + " ka") == (
        "Custom -> Review ? Revise : done ka"
    )


def test_prompts_of_a_file_with_a_reward_in_trls_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "2+2", "answer": "4"}\n\n{"prompt": "3+3", "answer": "6"}\n')
    (tmp_path / "my_reward_9f.py").write_text(
        "def right(prompts, completions, answer, **kwargs):\n"
        "    return [float(c == a) for c, a in zip(completions, answer)]\n"
    )
    monkeypatch.chdir(tmp_path)
    task = load_task("prompts.jsonl", "my_reward_9f:right")
    assert [s.reward for s in task.score(task.examples, ["4", "5"], [True, True])] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "reward", "message"),
    [
        ("none.jsonl", "math:sqrt", "No such file"),
        ("bad.jsonl", "math:sqrt", 'bad.jsonl:1: expected one JSON object per line with the key "prompt"'),
        ("bad.jsonl", None, "prompts need a reward"),
        ("nonsense", None, "expected module:function"),
        ("math:nothing", None, "no attribute 'nothing'"),
    ],
)
def test_an_unusable_task_names_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reward: str | None, message: str
) -> None:
    (tmp_path / "bad.jsonl").write_text("[1]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_task(name, reward)
