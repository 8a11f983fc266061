"""A plan is traced once: untraceable code is refused with the fix; its memory belongs to one run."""

from __future__ import annotations

import math
import operator
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_doctor import LiveDoctor, StepRecord, diagnose
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import CheckError
from grpo_doctor.run import run_of
from grpo_doctor.series import Plan, columns, each, fmax, fold, maximum, previous, sqrt, total, where
from tests.test_doctor import PAGE, essence, leaf, made_up_records


def test_equal_computations_are_made_once() -> None:
    plan = Plan.of(lambda x: (total(x) + 1, 2 * total(x), total(previous(x))), 1)
    assert len(plan.cells) == 3
    assert plan.row(plan.begin(), [np.float64(3.0)])[1] == (4.0, 6.0, 0.0)


def test_evidence_is_computed_only_if_a_condition_holds() -> None:
    calls = []

    def noted(x: float) -> float:
        calls.append(x)
        return x

    (x,) = columns(range(1))
    plan = Plan([x > 0], [each(noted, x)])
    memory = plan.begin()
    assert [plan.row(memory, [np.float64(x)])[1] for x in (0, 1)] == [None, ((True,), (1.0,))]
    assert plan.block(memory, [np.zeros(3)], 3) == ((3,), None)
    assert calls == [1.0]


def test_an_unchanged_setting_is_computed_once_but_a_list_on_every_row() -> None:
    calls: list[object] = []

    def length(x: object) -> float:
        calls.append(x)
        return float(len(str(x)))

    plan = Plan.of(lambda x: each(length, x), 1)
    word, known = "adamw", [1]
    for value in (word, word, known, known, word):
        assert plan.row(plan.begin(), [value])[1] == (float(len(str(value))),)
    assert calls == [word, known, known, word]


def test_late_values_are_read_only_where_they_decide() -> None:
    asked = []

    class Late:
        @property
        def dear(self) -> float:
            asked.append(True)
            return 2.0

    late = Late()
    x, dear = columns(range(2), late={1: "dear"})
    plan = Plan([where(x > 9, x, 0) > 9, (x > 2) | ((dear > 1) & (x > 0))], [])
    found = [plan.row(plan.begin(), [x, late])[1] for x in (-1.0, 3.0)]
    assert (found, asked) == ([None, ((False, True), ())], [])
    assert plan.row(plan.begin(), [1.0, late])[1] == ((False, True), ())
    assert asked == [True]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "    if valid_rate < low:\n        low = 0\n    flags = valid_rate < low\n",
            "where(condition, a, b) for an `if`",
        ),
        ("    flags = 0 < valid_rate < low\n", "(low < x) & (x < high) for a chain"),
        ("    flags = valid_rate < low and low > 0\n", "`&`, `|` and `~`"),
        ("    flags = max(valid_rate, 0.1) < low\n", "not true or false as a whole"),
        ("    flags = valid_rate[-1] < low\n", "write previous(x, n) for an earlier row"),
        ("    flags = ['a', 'b'][valid_rate] == 'a'\n", "write words(lambda n: TEXTS[int(n)], x)"),
        ("    flags = sum(valid_rate) < low\n", "a column is not a sequence"),
        ("    flags = float(valid_rate) < low\n", "write each(function, x)"),
        ("    flags = valid_rate.mean() < low\n", "AttributeError"),
        ("    flags = (valid_rate < low, f'{valid_rate:.2f}')[0]\n", "name it in the message as {name}"),
        ("    flags = numpy.median(valid_rate) < low\n", "a column is not an array"),
        ("    flags = (valid_rate < low) + (valid_rate < 0.1) > 1\n", "write where(condition, 1, 0)"),
    ],
)
def test_untraceable_code_is_refused_with_file_line_and_fix(tmp_path: Path, body: str, said: str) -> None:
    folder = leaf(
        tmp_path / f"traced{abs(hash(body))}",
        f'import numpy\n\n\n@check("OWN020")\ndef rate_too_low(valid_rate, *, low=0.5):\n    {PAGE}\n{body}'
        '    return fires(flags, "Valid is {valid:.2f}.", valid=valid_rate)\n',
    )
    with pytest.raises(CheckError) as failed:
        load((folder,))
    first = (folder / "rate_too_low.py").read_text(encoding="utf-8").splitlines().index(body.splitlines()[0]) + 1
    assert f"rate_too_low.py:{first}: OWN020: " in str(failed.value)
    assert said in str(failed.value)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (
            '    return fires(valid_rate < low, "Valid is {rate:.2f}.", valid=valid_rate)\n',
            "its message contains {rate}",
        ),
        ("    return valid_rate < low\n", "a @check must return fires(...)"),
    ],
)
def test_the_return_value_of_a_check_is_validated_at_load_time(tmp_path: Path, rest: str, said: str) -> None:
    folder = leaf(
        tmp_path / f"returns{abs(hash(rest))}",
        f'@check("OWN021")\ndef rate_too_low(valid_rate, *, low=0.5):\n    {PAGE}\n{rest}',
    )
    with pytest.raises(CheckError) as failed:
        load((folder,))
    assert said in str(failed.value)


def test_a_state_that_cannot_be_copied_is_refused() -> None:
    class Counter:
        n = 0

    with pytest.raises(TypeError, match=r"needs a copy\(\)"):
        fold(lambda state, x: (state, x), Counter, *columns(range(1)))


def test_a_transform_on_either_side_of_a_setting_keeps_its_own_state() -> None:
    """A part that a threshold switches off does not change the states of the others."""

    def rule(x: Any, *, twice: bool) -> Any:
        before = maximum(previous(x, 2), 0) if twice else 0.0
        return where(x > 1, total(x), before)

    for twice in (False, True):
        plan = Plan.of(lambda x, twice=twice: rule(x, twice=twice), 1)
        memory, x = plan.begin(), np.array([3.0, 0.5, 4.0, 0.25])
        rows = []
        for v in x:
            memory, (value,) = plan.row(memory, [v])
            rows.append(float(value))
        np.testing.assert_array_equal(rows, plan.block(plan.begin(), [x], 4)[1][0])


ODD = [0.0, -0.0, 1.0, -2.0, 0.5, 3.0, 1e308, -1e-320, math.inf, -math.inf, math.nan]
OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.lt,
             operator.le, operator.gt, operator.ge, operator.eq, operator.ne, maximum, fmax)  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS, ids=lambda function: function.__name__)
def test_an_operator_makes_the_same_of_odd_numbers_by_row_and_by_block(function: Any) -> None:
    plan, pairs = Plan.of(function, 2), list(product(ODD, ODD))
    with np.errstate(all="ignore"):
        _, (whole,) = plan.block(plan.begin(), list(np.array(pairs).T), len(pairs))
        rows = [plan.row(plan.begin(), pair)[1][0] for pair in pairs]
    np.testing.assert_array_equal(rows, whole)
    assert {type(value) for value in rows} <= {bool, float}


@pytest.mark.parametrize(
    "function", [sqrt, abs, operator.neg, np.log1p, np.exp], ids=lambda function: function.__name__
)
def test_a_function_makes_the_same_of_odd_numbers_by_row_and_by_block(function: Any) -> None:
    plan = Plan.of(function, 1)
    with np.errstate(all="ignore"):
        _, (whole,) = plan.block(plan.begin(), [np.array(ODD)], len(ODD))
        rows = [plan.row(plan.begin(), (x,))[1][0] for x in ODD]
    np.testing.assert_array_equal(rows, whole)


def test_a_function_of_a_row_may_divide_by_zero() -> None:
    plan = Plan.of(lambda x: each(lambda value: 1 / value, x), 1)
    with np.errstate(all="ignore"):
        assert plan.row(plan.begin(), (0.0,))[1] == (math.inf,)


def one_at_a_time(records: list[StepRecord]) -> Any:
    live = LiveDoctor()
    for record in records:
        live.push(record)
    return essence(live.findings())


def test_forty_runs_in_four_threads_are_those_of_one_thread() -> None:
    runs = [made_up_records(seed, 12 + seed) for seed in range(5)]
    work = [(seed, way) for seed in range(5) for way in ("live", "whole")] * 4
    alone = {
        **{(seed, "live"): one_at_a_time(run) for seed, run in enumerate(runs)},
        **{(seed, "whole"): essence(diagnose(run_of(run)).findings) for seed, run in enumerate(runs)},
    }
    random.Random(0).shuffle(work)

    def judged(job: tuple[int, str]) -> Any:
        records = runs[job[0]]
        return one_at_a_time(records) if job[1] == "live" else essence(diagnose(run_of(records)).findings)

    with ThreadPoolExecutor(4) as pool:
        assert [job for job, found in zip(work, pool.map(judged, work), strict=True) if found != alone[job]] == []


def test_doctors_that_are_fed_in_turns_are_those_fed_one_after_the_other() -> None:
    runs = [made_up_records(seed, 40) for seed in range(4)]
    doctors = [LiveDoctor() for _ in runs]
    for step in zip(*runs, strict=True):
        for doctor, record in zip(doctors, step, strict=True):
            doctor.push(record)
    for doctor, run in zip(doctors, runs, strict=True):
        assert essence(doctor.findings()) == one_at_a_time(run)
