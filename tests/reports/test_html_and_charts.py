"""The HTML page as text, and the charts: same run, same bytes; decimated; every field of an anchor unique."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from grpo_doctor import charts
from grpo_doctor.catalogue import load
from grpo_doctor.report import Options, render
from grpo_doctor.run import DERIVED, MEANINGS
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


def test_every_finding_can_be_linked_and_no_anchor_stands_twice() -> None:
    text = page("diagnosis", "healthy", "diagnosis")
    anchors = re.findall(r' id="([^"]+)"', text)
    assert len(anchors) == len(set(anchors))
    assert {"GEN001", "GEN001-3", "ADV003", "ADV003-3"} <= set(anchors)


def test_nothing_of_a_hostile_log_becomes_markup() -> None:
    text = page("hostile")
    parser = Tags()
    parser.feed(text)
    assert not parser.tags & {"script", "iframe", "object", "link", "base", "form"}
    assert not {name for name in parser.attributes if name.startswith("on") or name == "style"}
    assert "abcdefghij0123456789" not in text
    assert "49 }}" not in text
    assert "\u202e" not in text


def test_the_same_run_gives_the_same_page() -> None:
    assert page("diagnosis") == page("diagnosis")


def test_a_million_steps_stay_under_500_kb() -> None:
    made = example.run(1_000_000)
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
    assert [p.field for p in charts.panels(example.diagnosis())] == ["timeline", "fallback_rate", "reward_mean"]
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
    assert charts.legend(charts.panels(example.diagnosis())) == (
        "Dashed: GEN001 begins. Ticks: updates below, collapses above, restarts over the full height."
    )
    assert charts.legend(charts.panels(example.diagnosis([], run=make_run(kl="0.01x9")))) == (
        "Green: range in which its check is silent."
    )
    assert charts.legend([]) == ""


def test_every_colour_has_its_dark_twin() -> None:
    diagnosis = example.diagnosis()
    for panel in charts.panels(diagnosis):
        light = charts.svg(panel, text_as_paths=False)
        assert set(re.findall("#[0-9a-f]{6}", light)) <= charts.LIGHT_TO_DARK.keys()
        assert not set(re.findall("#[0-9a-f]{6}", charts.dark(light))) & charts.LIGHT_TO_DARK.keys()


def test_a_log_that_restarts_is_drawn_over_rows() -> None:
    made = example.run(20)
    made.steps = np.concatenate((np.arange(1, 11), np.arange(5, 15)))
    diagnosis = example.diagnosis(run=made)
    assert "row (the log restarts)" in charts.svg(charts.panels(diagnosis)[1], text_as_paths=False)


def test_printed_figures_keep_their_digits() -> None:
    run = make_run(loss="0.0063 0.0062x9")
    drawn = charts.svg(charts.panels(example.diagnosis([], run=run))[-1], text_as_paths=False)
    assert ">0.0062" in drawn


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_figures_for_papers_and_the_markdown_that_embeds_them(tmp_path: Path, ending: str) -> None:
    diagnosis = example.diagnosis()
    files = [path for path in charts.save([diagnosis], tmp_path) if path.suffix == ending]
    assert [path.name for path in files] == [f"run1-{n}{ending}" for n in ("timeline", "fallback-rate", "reward-mean")]
    assert all(path.stat().st_size > 1000 for path in files)
    report = render("markdown", [diagnosis], Options(figures=Path("figs")))
    assert "](figs/run1-fallback-rate.svg)" in report


def test_in_a_notebook_it_is_a_frame_without_scripts() -> None:
    frame = example.hostile()._repr_html_()
    assert frame.startswith('<iframe sandbox title="grpo-doctor"')
    assert frame.count("<") == 2
    assert "abcdefghij0123456789" not in frame
