"""Every report format and every chart accepts any float."""

import itertools
import json
import math
import warnings
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.catalogue import report_names
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers.input import Input
from grpo_doctor.readers.reader import read_input
from grpo_doctor.report import charts, figures
from grpo_doctor.report.chart_layout import multiples
from grpo_doctor.report.model import Options, render
from grpo_doctor.run import Run
from tests.corpus_path import SHARED, needs

REPRODUCERS = SHARED / "reproducers"
LARGEST = math.nextafter(math.inf, 0)
SERIES = {
    "largest of both signs": [LARGEST, -LARGEST],
    "smallest and 0": [5e-324, 0.0, 1e-323],
    "smallest and largest": [5e-324, LARGEST],
    "one unit in the last place": [1.0, math.nextafter(1.0, 2)],
    "not finite": [math.inf, 1.0, -math.inf, math.nan, 2.0],
    "always infinite": [math.inf],
    "constant and huge": [1e300],
    "constant and tiny": [1e-300],
    "minus 0": [-0.0, 0.0],
    "integers beyond 64 bits": [2**63, 2**64, -(2**70)],
    "around the end of the axis": [9e99, 1.1e100, -1e-101],
}
KEYS = (
    "reward", "loss", "kl", "entropy", "grad_norm", "frac_reward_zero_std", "completions/mean_length", "eval_reward",
)  # fmt: skip
STEPS = {
    "to the end of 64 bits": [-(2**63), 2**63 - 1],
    "steps of 2^53": [2**53 * i for i in range(90)],
    "of one step": [7],
    "backwards": list(range(90, 0, -1)),
}


def reported(run: Run) -> None:
    """Render all reports and charts; numpy warnings would be printed to the user, so none may occur."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        diagnosis = diagnose(run)
        for name in report_names():
            for options in (Options(verbose=True, full=True), Options(static=True, color=True)):
                assert "\x00" not in render(name, [diagnosis], options)
        json.loads(render("json", [diagnosis], Options()), parse_constant=pytest.fail)
        for panel in charts.panels(diagnosis)[:2]:
            assert "nan" not in figures.svg(panel)
        columns = [v for p in charts.panels(diagnosis) if (v := run.column(p.field)) is not None]
        multiples([(run.steps, values, None) for values in columns])


@pytest.mark.parametrize("values", SERIES.values(), ids=SERIES)
def test_reports_take_any_number(tmp_path: Path, values: list[float]) -> None:
    rows = zip(range(90), *(itertools.islice(itertools.cycle(values), n, None) for n in range(len(KEYS))), strict=False)
    lines = [json.dumps(dict(zip(("step", *KEYS), row, strict=True))) for row in rows]
    (path := tmp_path / "log.jsonl").write_text("\n".join(lines))
    (run,) = read_input(Input(path))
    reported(run)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_reports_take_any_step(tmp_path: Path, steps: list[int]) -> None:
    lines = [json.dumps({"step": s, "reward": i / 90}) for i, s in zip(range(90), itertools.cycle(steps), strict=False)]
    (path := tmp_path / "log.jsonl").write_text("\n".join(lines))
    for run in read_input(Input(path))[:3]:
        reported(run)


@needs(REPRODUCERS)
@pytest.mark.parametrize("name", ["9a938802__step_logs.json", "pm308.jsonl", "ch_loss308.jsonl", "ch_rew308.jsonl"])
def test_reports_take_the_numbers_of_public_logs(name: str) -> None:
    for run in read_input(Input(REPRODUCERS / name))[:3]:
        reported(run)
