"""The HTML page as text, and the charts: the same run gives the same bytes; decimation; unique anchors."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Step
from grpo_doctor.diagnosis.remedies import shared_remedies
from grpo_doctor.report import chart_layout, charts, figures
from grpo_doctor.report.markup import prose
from grpo_doctor.report.model import Options, about, is_prose, render, sure
from grpo_doctor.series.derived import DERIVED, MEANINGS
from grpo_doctor.testing import make_run
from tests.reports import example


class Tags(HTMLParser):
    """The names of all tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def page(*names: str) -> str:
    return render("html", [getattr(example, name)() for name in names], Options())


def test_every_finding_has_a_unique_anchor() -> None:
    text = page("diagnosis", "healthy", "diagnosis")
    anchors = re.findall(r' id="([^"]+)"', text)
    assert len(anchors) == len(set(anchors))
    assert {"GEN001", "GEN001-3", "ADV003", "ADV003-3"} <= set(anchors)


def test_nothing_of_a_hostile_log_becomes_markup() -> None:
    text = page("hostile")
    parser = Tags()
    parser.feed(text)
    assert not parser.tags & {"iframe", "object", "link", "base", "form"}
    assert text.count("<script") == 2  # the page's own, and the numbers of the curves
    assert not {name for name in parser.attributes if name.startswith("on") or name == "style"}
    assert "abcdefghij0123456789" not in text
    assert "49 }}" not in text
    assert "\u202e" not in text


def test_the_same_run_gives_the_same_page() -> None:
    assert page("diagnosis") == page("diagnosis")


def test_a_hundred_thousand_steps_stay_under_500_kb() -> None:
    made = example.run(100_000)
    text = render("html", [example.diagnosis(run=made)], Options())
    assert len(text.encode()) < 500_000


def test_style_and_page_leave_no_outside_address() -> None:
    text = re.sub(r"data:[^\" ]+", "", page("diagnosis"))
    assert "http:" not in text
    assert "https:" not in text


def test_decimated_keeps_the_extremes_and_the_gaps() -> None:
    y = np.zeros(10_000)
    y[5_000], y[7_777], y[2_000:2_500] = 9.0, -9.0, np.nan
    x, kept = charts.decimated(np.arange(10_000), y)
    assert len(x) <= 2 * charts.BINS
    assert np.nanmax(kept) == 9.0
    assert np.nanmin(kept) == -9.0
    assert np.isnan(kept).any()
    assert (np.diff(x) > 0).all()


def test_panels_are_of_the_series_that_the_findings_name() -> None:
    assert [p.field for p in charts.panels(example.diagnosis())] == ["timeline", "reward_mean", "fallback_rate"]
    assert [p.field for p in charts.panels(example.healthy())] == [
        "timeline", "reward_mean", "invalid_rate", "grad_norm", "loss",
    ]  # fmt: skip
    assert charts.panels(example.unjudged()) == []


def test_ranges_and_vitals_are_fields() -> None:
    assert {*charts.RANGES, *charts.VITALS} <= MEANINGS.keys()


@pytest.mark.parametrize("field", charts.RANGES)
def test_a_healthy_range_ends_where_its_check_begins_to_warn(field: str) -> None:
    code, *ends = charts.RANGES[field]
    check = load().checks[code]
    known = [DERIVED[name][0] for names in check.arguments for name in names if name in DERIVED]
    assert any(field in names for names in (*check.arguments, *known))
    limits = [check.thresholds[end] if isinstance(end, str) else end for end in ends]
    assert charts.healthy()[field] == tuple(limits)
    assert limits[0] < limits[1]


def test_the_legend_names_what_occurs() -> None:
    assert charts.legend(charts.panels(example.diagnosis()), shaded=True, green=False) == (
        "Dashed: GEN001 begins. Shaded: a finding holds. Ticks: updates below, collapses above, restarts over the full height."
    )
    shown = charts.panels(example.diagnosis([], run=make_run(kl="0.01x9")))
    assert charts.legend(shown, shaded=False, green=True) == "Green: range in which its check is silent."
    assert charts.legend(shown, shaded=False, green=False) == ""
    assert charts.legend([], shaded=True, green=True) == ""
    assert charts.colours(shaded=True, green=True) == (
        "Shaded: a finding holds. Green: range in which its check is silent."
    )


def test_the_sentence_about_green_stands_with_the_charts_that_have_it() -> None:
    page = render(
        "html",
        [diagnose(make_run(reward_mean=[0.1 + 0.02 * n for n in range(40)], kl=[0.001 * n for n in range(40)]))],
        Options(),
    )
    above, below = page.split(">Charts<", 1)
    assert ("Green: range" in above, "Green: range" in below) == (False, True)


def drawn(diagnosis: Diagnosis) -> list[chart_layout.Drawing]:
    return chart_layout.drawings(charts.panels(diagnosis))[0]


def test_a_log_that_restarts_is_drawn_over_rows() -> None:
    made = example.run(20)
    made.steps = np.concatenate((np.arange(1, 11), np.arange(5, 15)))
    diagnosis = example.diagnosis(run=made)
    assert "row (the log restarts)" in figures.svg(charts.panels(diagnosis)[1])
    assert drawn(diagnosis)[0].view == "-0.19 0 19.38 1000"


def test_printed_figures_keep_their_digits() -> None:
    run = make_run(loss="0.0063 0.0062x9")
    assert "0.0062" in [tick.label for tick in drawn(example.diagnosis([], run=run))[-1].up]


def test_series_over_decades_use_a_log_scale() -> None:
    chart = drawn(example.diagnosis([], run=make_run(grad_norm="1x20 1e5x20")))[-1]
    assert chart.notes == ["log scale"]
    assert [tick.label for tick in chart.up] == ["1", "10", "100", "1,000", "10,000", "100,000"]


def test_a_series_of_two_values_is_drawn_as_it_is() -> None:
    (chart,) = [c for c in drawn(example.diagnosis([], run=make_run(loss=" ".join(["0 1"] * 150)))) if c.line]
    ups = {part.split()[1] for part in re.split("[ML]", chart.line) if part}
    assert (len(ups), chart.points, list(chart.legend)) == (2, "", [])


def test_a_long_noisy_series_is_drawn_raw_under_its_mean_with_a_legend() -> None:
    values = np.random.default_rng(0).normal(0, 1, 400)
    (chart,) = [c for c in drawn(example.diagnosis([], run=make_run(loss=" ".join(map(str, values))))) if c.line]
    assert chart.legend == [("raw", "every value"), ("curve", "mean of 11 rows")]
    assert chart.points.count("L") > chart_layout.BINS


def test_a_range_that_would_be_a_sliver_is_not_drawn() -> None:
    wide = drawn(example.diagnosis([], run=make_run(kl="0x5 900x5")))[-1]
    narrow = drawn(example.diagnosis([], run=make_run(kl="0x5 2x5")))[-1]
    assert (wide.normal, narrow.normal is not None) == (None, True)


def test_reward_and_held_out_score_share_a_chart_where_their_scales_are_alike() -> None:
    run = make_run(reward_mean="0.1x10 0.9x10", eval_score="0.2x10 0.6x10")
    (chart,) = drawn(example.diagnosis([], run=run))
    assert chart.legend == [("curve", "reward mean"), ("second", "eval score")]
    assert chart.second.startswith("M")
    run = make_run(reward_mean="0.1x10 90x10", eval_score="0.2x10 0.6x10")
    assert [p.also for p in charts.panels(example.diagnosis([], run=run))][:1] == [""]


def test_the_timeline_names_its_findings() -> None:
    (timeline, *_) = drawn(example.diagnosis())
    assert timeline.names[0].label == "generation-in-train-mode-with-checkpointing"


def test_the_name_of_a_finding_ends_above_its_bar() -> None:
    (timeline, *_) = drawn(example.diagnosis())
    assert len(timeline.names) == len(timeline.spans)
    for name, bar in zip(timeline.names, timeline.spans, strict=True):
        line = 8 / timeline.pixels  # half of a line of 11 pixels with its descenders
        assert float(name.at) / 100 + line <= float(bar.y) / chart_layout.HEIGHT


def test_code_and_strong_words_of_a_sentence_are_marked_and_all_else_is_escaped() -> None:
    shown = prose("a `b<c` is **not** <i>, 2 * 3 * 4, *some* and a ` alone")
    assert shown == ("a <code>b&lt;c</code> is <strong>not</strong> &lt;i&gt;, 2 * 3 * 4, <em>some</em> and a ` alone")


def test_the_evidence_holds_no_markdown() -> None:
    for code in load().checks:
        shown = about(code)
        assert shown is not None
        assert "**" not in re.sub("<code>.*?</code>", "", "".join(map(prose, shown))), code


def test_the_decisive_chart_comes_before_the_actions_and_the_others_after() -> None:
    text = page("diagnosis")
    assert text.index("<figure") < text.index("What to change") < text.index("<strong>timeline")


def test_the_decisive_chart_shows_the_series_of_the_first_sentence() -> None:
    run = make_run(reward_mean=" ".join(["0"] * 20), response_length_mean=" ".join(["8"] * 20), entropy_mean="1 " * 20)
    truncated = example.finding("LEN003", "truncation-excess", "outcome", "error", message="All are truncated.")
    constant = example.finding("REW001", "reward-constant", "outcome", "error", message="The reward is 0.")
    found = [replace(truncated, columns=["response_length_mean"]), replace(constant, columns=["reward_mean"])]
    for these, headline, field in (
        (found, "The reward is 0. Likely cause (LEN003): All are truncated.", "reward_mean"),
        (found, "All are truncated. The reward is 0.", "response_length_mean"),
        ([], "entropy_mean is NaN.", "entropy_mean"),
    ):
        diagnosis = example.diagnosis(these, run=run)
        diagnosis.headline = headline
        shown = charts.decisive(diagnosis, charts.panels(diagnosis))
        assert shown is not None
        assert shown.field == field


def test_only_healthy_and_unjudged_pages_explain_the_numbers() -> None:
    answers = ["A reward of 0.5 is the mean over the batch."]
    pages = [
        render("html", [replace(made, answers=answers)], Options()) for made in (example.healthy(), example.diagnosis())
    ]
    assert ["What the numbers mean" in text for text in pages] == [True, False]


def test_timeline_names_align_with_their_bars() -> None:
    late = example.diagnosis()
    late.findings[0].onset_step = 90
    timeline = chart_layout.drawings(charts.panels(late))[0][0]
    names = {name.label: name for name in timeline.names}
    assert names[late.findings[0].name].share > 90
    assert [name.begin for name in timeline.names] == [span.x for span in timeline.spans]
    page = render("html", [late], Options(static=True))
    assert f'class="ends" data-x="89" x="{names[late.findings[0].name].share:.4g}%" dx="-6"' in page


def test_a_configuration_has_no_charts_and_no_confidence_of_a_run() -> None:
    configured = example.healthy()
    configured.format = "configuration"
    configured.run.steps, configured.run.columns = np.zeros(1, int), {"learning_rate": np.ones(1)}
    page = render("html", [configured], Options(static=True))
    assert "<svg" not in page
    assert "Hover" not in page
    assert "settings not used" in page
    assert sure(example.finding("CFG001", "small-group", "note", "info")) == "medium: based on a rule of thumb"


@pytest.mark.parametrize(
    ("do", "prose"),
    [
        ("max_completion_length=2x", True),
        ("warm-up steps = total steps / 20", True),
        ('set loss_type="dr_grpo" or "dapo" instead of "grpo"', True),
        ("learning_rate=1e-6 (full) or 1e-5 (LoRA)", True),
        ("learning_rate=1e-6", False),
        ("epsilon=0.2, epsilon_high=0.28", False),
        ("actor_rollout_ref.rollout.n=8", False),
        ("algorithm.kl_ctrl.type=fixed algorithm.kl_ctrl.kl_coef=0.001", False),
        ("--actor.entropy_coef 0.001", False),
        ("loss.backward()   # once", False),
        ("try:\n    train()", False),
    ],
)
def test_only_what_can_be_copied_as_it_is_counts_as_code(do: str, prose: bool) -> None:
    assert is_prose(Step(who="trl", do=do)) is prose


def test_prose_has_no_copy_button() -> None:
    remedy = shared_remedies()["fail-invalid-responses"]
    assert [is_prose(step) for step in remedy.steps if step.who == "verl"] == [True]
    assert not is_prose(Step("trl", "learning_rate=1e-6"))
    assert not is_prose(Step("openrlhf", "--rollout.temperature 1.0"))


def test_one_huge_value_does_not_flatten_the_rest() -> None:
    run = make_run(grad_norm=" ".join(["0 1"] * 200 + ["1e9"]))
    chart = drawn(example.diagnosis([], run=run))[-1]
    assert chart.notes == ["1 of 401 values are beyond the axis, up to 1e+09"]
    assert [tick.label for tick in chart.up][-1] == "3"


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e-308", "0", "5"])
def test_extreme_and_constant_values_are_drawn(value: str) -> None:
    chart = drawn(example.diagnosis([], run=make_run(loss=f"{value}x40")))[-1]
    assert "nan" not in chart.points + chart.line
    assert "inf" not in chart.view + "".join(tick.label for tick in chart.up)


def test_a_series_of_zeros_is_drawn_on_an_axis_from_0_to_1() -> None:
    chart = drawn(example.diagnosis([], run=make_run(reward_mean="0x40")))[-1]
    assert [tick.label for tick in chart.up] == ["0", "0.5", "1"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (-3, 7, [-2, 0, 2, 4, 6]), (1, 95, [20, 40, 60, 80])],
)
def test_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert chart_layout.round_numbers(low, high, 5) == pytest.approx(expected)


def test_texts_cannot_end_the_script_in_which_they_stand() -> None:
    made = example.run(20)
    made.samples[5][0].response = "</script><img src=x>"
    text = render("html", [example.diagnosis(run=made)], Options())
    assert "</script><img" not in text
    assert "\\u003c/script>" in text


def log_of(path: Path) -> Diagnosis:
    """Return the diagnosis of a log whose third line contains a secret and text that must not become markup."""
    rows = [{"step": i, "loss": 0.1, "reward": 0.5 + i / 20} for i in range(1, 11)]
    lines = [json.dumps(row) for row in rows]
    lines[2] = json.dumps({**rows[2], "note": "</script><img src=x> api_key=abcdef0123456789"})
    path.write_text("\n".join(lines), encoding="utf-8")
    return diagnose(path)


def test_the_lines_of_the_log_are_in_the_page_but_for_their_secrets(tmp_path: Path) -> None:
    diagnosis = log_of(tmp_path / "train.jsonl")
    text = render("html", [diagnosis], Options())
    (block,) = re.findall(r'<script type="application/json" class="told">(.*?)</script>', text)
    log = json.loads(block)["log"]
    assert log["1"] == '{"step": 1, "loss": 0.1, "reward": 0.55}'
    assert log["3"].endswith('"note": "</script><img src=x> api_key=[redacted]"}')
    assert list(log) == [str(line) for line in range(1, 11)]
    assert "<img" not in text


def test_without_texts_or_without_the_file_there_are_no_lines(tmp_path: Path) -> None:
    diagnosis = log_of(tmp_path / "train.jsonl")
    assert '"log":{}' in render("html", [diagnosis], Options(samples=False)).replace(" ", "")
    (tmp_path / "train.jsonl").unlink()
    assert '"log":{}' in render("html", [diagnosis], Options()).replace(" ", "")
    os.mkfifo(tmp_path / "train.jsonl")  # opening it would wait for a writer
    assert '"log":{}' in render("html", [diagnosis], Options()).replace(" ", "")


def test_the_steps_of_the_detected_framework_come_first() -> None:
    diagnosis = example.diagnosis()
    diagnosis.run.format = diagnosis.format = "trl-console"
    text = render("html", [diagnosis], Options())
    assert text.index("<dt>TRL</dt>") < text.index("other frameworks, evidence") < text.index("<dt>verl</dt>")


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_figures_for_papers_and_the_markdown_that_embeds_them(tmp_path: Path, ending: str) -> None:
    diagnosis = example.diagnosis()
    files = [path for path in figures.save([diagnosis], tmp_path) if path.suffix == ending]
    assert [path.name for path in files] == [f"run1-{n}{ending}" for n in ("timeline", "reward-mean", "fallback-rate")]
    assert all(path.stat().st_size > 1000 for path in files)
    report = render("markdown", [diagnosis], Options(figures=Path("figs")))
    assert "](figs/run1-fallback-rate.svg)" in report


def test_in_a_notebook_it_is_a_frame_without_scripts() -> None:
    frame = example.hostile()._repr_html_()
    assert frame.startswith('<iframe sandbox title="grpo-doctor"')
    assert frame.count("<") == 2
    assert "abcdefghij0123456789" not in frame
