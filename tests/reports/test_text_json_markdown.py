"""The first three formats: text, JSON and Markdown."""

import json
import math
import re

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from grpo_doctor.diagnosis.catalogue import home
from grpo_doctor.diagnosis.framework import framework
from grpo_doctor.report.model import Options, cost, facts, fenced, markdown, render
from grpo_doctor.report.redaction import clean, redact
from grpo_doctor.report.terminal import Name, sparkline
from tests.reports import example

SCHEMA = json.loads((home("reports") / "report.schema.json").read_text(encoding="utf-8"))
CASES = ("diagnosis", "healthy", "unjudged")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["text", "markdown", "json"])
def test_snapshot(name: str, case: str, snapshot: SnapshotAssertion) -> None:
    assert render(name, [getattr(example, case)()], Options()) == snapshot


@pytest.mark.parametrize("case", CASES)
def test_snapshot_of_everything(case: str, snapshot: SnapshotAssertion) -> None:
    assert render("text", [getattr(example, case)()], Options(full=True)) == snapshot


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("train/completions/clipped_ratio", "trl"),
        ("train/rewards/equation_reward_func", "trl"),
        ("profiling/Time taken: GRPOTrainer._prepare_inputs", "trl"),
        ("objective/non_score_reward", "trl"),
        ("actor/pg_clipfrac", "verl"),
        ("train/critic/rewards/mean", "verl"),
        ("train/actor_lr", "openrlhf"),
        ("train/lr-pg_0", "slime"),
        ("mean_reward", None),
        ("rewards/format", None),
    ],
)
def test_the_framework_is_recognised_by_keys_that_no_other_writes(key: str, told: str | None) -> None:
    run = example.diagnosis().run
    run.format, run.settings, run.unread = "tensorboard", {}, {key: 1}
    assert framework(run) == told
    run.format = "trl-console"  # a mapping a row, which others print too
    assert framework(run) == (told or "trl")


def test_one_screen_is_one_screen() -> None:
    assert len(render("text", [example.diagnosis()], Options(width=80)).splitlines()) <= 40


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"), ([1, math.nan, 8], "▁ █"), ([5, 5], "▄▄"), ([math.nan], " "), ([], "")],
)
def test_a_sparkline_goes_from_the_smallest_to_the_largest(values: list[float], drawn: str) -> None:
    assert sparkline(np.array(values, float), 20) == drawn


@pytest.mark.parametrize(
    ("settings", "price", "words"),
    [
        ({}, None, "90 steps since then, 1 h 30 min"),
        ({"world_size": 8}, None, "90 steps since then, 1 h 30 min, 12.0 GPU-hours"),
        ({"world_size": 8}, 2.5, "90 steps since then, 1 h 30 min, 12.0 GPU-hours, $30.00"),
        ({}, 2.5, "90 steps since then, 1 h 30 min, $3.75 per GPU"),
    ],
)
def test_failing_run_shows_what_it_spent(settings: dict[str, float], price: float | None, words: str) -> None:
    diagnosis = example.diagnosis()
    diagnosis.settings = diagnosis.settings | settings
    assert cost(diagnosis, price) == words
    for name in ("text", "markdown", "html"):
        shown = " ".join(render(name, [diagnosis], Options(gpu_cost=price)).split())
        assert words in shown.replace(r"\$", "$")  # two dollars in Markdown are a formula


def test_a_price_without_times_in_the_log_is_answered() -> None:
    run = example.diagnosis()
    del run.run.columns["wall_time"]
    assert cost(run, 2.0).endswith("cost unknown, because the log has no times")
    assert "cost" not in cost(run)


def test_rows_that_are_not_consecutive_steps_are_called_rows() -> None:
    sparse = example.healthy()
    sparse.run.steps = sparse.run.steps * 10
    sparse.first_step, sparse.last_step = 10, 950
    assert dict(facts(sparse))["steps"] == "95 rows (steps 10 to 950)"


def test_a_finding_prints_as_one_line() -> None:
    shown = str(example.diagnosis().findings[0])
    assert shown.startswith("GEN001 generation-in-train-mode-with-checkpointing (critical, step 5): ")
    assert "\n" not in shown


def test_healthy_run_shows_no_cost() -> None:
    assert cost(example.healthy()) == ""


@pytest.mark.parametrize("case", [*CASES, "hostile"])
def test_json_keeps_its_contract(case: str) -> None:
    report = json.loads(render("json", [getattr(example, case)()], Options()))
    assert not [e.message for e in Draft202012Validator(SCHEMA).iter_errors(report)]


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_the_first_screen_answers_what_since_when_how_sure_and_what_to_do(name: str) -> None:
    first = "\n".join(render(name, [example.diagnosis()], Options()).splitlines()[:11])
    for answer in (
        "37 of 38 updates broke",
        "GEN001",
        "since step 5 (line 50)",
        "high: proven",
        "Generate in eval mode",
    ):
        assert answer in first


@pytest.mark.parametrize("name", ["text", "markdown", "json"])
def test_hostile_text_is_shown_and_does_nothing(name: str) -> None:
    report = render(name, [example.hostile()], Options())
    assert not {c for c in report if ord(c) < 32 and c not in "\n\t"}
    assert "\u202e" not in report
    assert "abcdefghij0123456789" not in report
    assert "0123456789abcdef" not in report
    assert len(report) < 100_000


def test_markdown_of_hostile_text_has_no_markup() -> None:
    report = render("markdown", [example.hostile()], Options(samples=False))
    outside_code = report.split("```")[0::2]
    assert not any("<script" in part or "<img" in part or re.search(r"(?<!\\)\]\(", part) for part in outside_code)


@pytest.mark.parametrize("name", ["text", "markdown", "json"])
def test_no_samples_leaves_texts_of_responses_out(name: str) -> None:
    assert "user user user" in render(name, [example.diagnosis()], Options(full=True))
    report = render(name, [example.diagnosis()], Options(samples=False, full=True))
    assert "user user user" not in report
    assert "Most frequent responses" not in report


def test_the_name_of_a_run_is_never_wrapped_and_the_name_of_its_check_gives_way() -> None:
    far = example.diagnosis()
    far.source = far.run.source = "runs/" + "a-long-name-" * 5 + ".log"
    for width, named in ((60, False), (200, True)):
        lines = render("text", [far, example.healthy()], Options(width=width)).splitlines()
        assert lines[1].endswith("a-long-name-" * 5 + ".log")
        assert ("generation-in-train-mode" in lines[1]) == named


def test_several_runs_begin_with_one_line_each_worst_first() -> None:
    runs = [example.healthy(), example.unjudged(), example.diagnosis()]
    lines = render("text", runs, Options()).splitlines()
    assert lines[0].split() == ["verdict", "finding", "since", "run"]
    assert [[line.split()[0], line.split()[-1]] for line in lines[1:4]] == [
        ["failing", "logs/training.log"],
        ["unjudged", "empty.log"],
        ["healthy", "logs/training.log"],
    ]
    assert lines[5].split()[:2] == ["FAILING", "logs/training.log"]


def test_many_runs_are_a_summary_and_the_worst_run_unless_all_is_asked_for() -> None:
    runs = [example.healthy()] * 7
    assert render("text", runs, Options()).count("HEALTHY") == 1
    assert "FAILING" in render("text", [*runs, example.diagnosis()], Options())
    assert render("text", runs, Options(rest="--full")).splitlines()[-1].startswith("--full")
    assert render("text", runs, Options(full=True)).count("HEALTHY") == 7


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sk-proj-abcdefghij0123456789", "[redacted]"),
        ("token hf_abcdefghijklmnopqrstuvwxyz", "token [redacted]"),
        ("Authorization: Bearer abcdefghijklmnop.q", "Authorization: [redacted]"),
        ("WANDB_API_KEY=0123456789abcdef0123", "WANDB_API_KEY=[redacted]"),
        ('"api_key": "abc12345"', '"api_key": "[redacted]"'),
        ("https://me:hunter2@host/x", "https://[redacted]@host/x"),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("generation-in-train-mode-with-checkpointing", "generation-in-train-mode-with-checkpointing"),
        ("skip-update-because-of-a-collapse", "skip-update-because-of-a-collapse"),
        ("max_new_tokens: 1234567890", "max_new_tokens: 1234567890"),
        ("eos_token = <|endoftext|>", "eos_token = <|endoftext|>"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_a_key_across_the_cut_is_redacted() -> None:
    assert "abcdefghij" not in clean("x" * 1985 + " sk-proj-abcdefghij0123456789XYZ " + "y" * 100_000)


def test_markdown_escapes() -> None:
    assert markdown("*a* _b_ reward_mean |c| <d> @e http://f [g](h) `i` ~j~") == (
        "\\*a\\* \\_b\\_ reward_mean \\|c\\| &lt;d&gt; &#64;e http&#58;//f \\[g\\](h) \\`i\\` \\~j\\~"
    )
    assert markdown("see www.evil.example") == "see www&#46;evil.example"
    assert markdown("# a\n- b") == "\\# a - b"
    assert fenced("a\n```\nb").startswith("````\n")


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize(("steps", "onset"), [(22, 20), (40, 18), (95, 6), (500, 400)])
def test_the_mark_is_under_the_column_of_the_onset(steps: int, onset: int, width: int) -> None:
    failing = example.diagnosis()
    failing.run = failing.run.__class__("logs/training.log", "aflow-console")
    failing.run.steps = np.arange(1, steps + 1)
    failing.run.columns = {"reward_mean": np.where(failing.run.steps < onset, 0.0, 1.0)}
    failing.findings[0].onset_step = onset
    lines = render("text", [failing], Options(width=width)).splitlines()
    drawn = next(i for i, line in enumerate(lines) if "reward_mean " in line and set(line) & set("▁█"))
    first_high = next(i for i, bar in enumerate(lines[drawn]) if bar in "▂▃▄▅▆▇█")
    assert lines[drawn + 1].index("▲") == first_high


def test_columns_of_a_sparkline_have_equally_many_rows() -> None:
    alternating = np.arange(30) % 2
    assert sparkline(alternating, 22) == "▄" * 15


def test_other_findings_are_shown_in_full() -> None:
    run = example.diagnosis()
    run.findings[1].message = message = " ".join(f"word{number}" for number in range(30))
    shown = render("text", [run], Options(width=60))
    assert set(message.split()) <= set(shown.split())
    assert "…" not in shown


def test_names_break_after_hyphens_and_slashes_and_the_sign_of_a_number_does_not() -> None:
    console = Console(width=14)
    with console.capture() as capture:
        console.print(Name("zero-variance-groups at -0.396 in a/long_run.log"))
        console.print(Name("a traceback in __call__ (base.py)"))
    assert capture.get().split("\n") == [
        *("zero-variance-", "groups at", "-0.396 in a/", "long_run.log"),
        *("a traceback in", "__call__", "(base.py)", ""),
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_at_any_width_sparklines_do_not_wrap_and_commands_are_not_cut(width: int) -> None:
    text = render("text", [example.diagnosis()], Options(width=width))
    rows = [line for line in text.splitlines() if set(line) & set("▁▂▃▄▅▆▇█")]
    assert [row.split()[0] for row in rows] == ["reward_mean", "fallback_rate"]
    assert max(map(len, text.splitlines())) <= width
    assert "    model.gradient_checkpointing_enable();" in text
    assert "custom trainer" in text
