"""``python -m tests.mutants [CODE...]``: inverts the boundary of every comparison of a check. Not part of the suite.

Each comparison is replaced by its neighbour (``>`` by ``>=``, ``==`` by ``!=`` and vice versa), and the check's own
tests must fail. Prints the survivors; the exit code is 1 if there are any. Those that no test can distinguish are
listed in `EQUIVALENT`. Without codes, all checks of records are tested, which takes some minutes.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Check
from grpo_doctor.diagnosis.entries import HIGHER, LOWER
from tests.messages import row_of

NOISE = "a mean meets a standard error by rounding only"
BINARY = "no binary number lies exactly so far from 1"
EQUIVALENT: dict[str, dict[str, str]] = {
    "ADV004": {"dead_share < 1": "a row whose groups are all dead is not judged"},
    "ADV003": {"dead - whole_run > chance_of": NOISE},
    "ADV005": {"abs(advantage_max - 1) < 0.001": BINARY, "abs(advantage_min + 1) < 0.001": BINARY},
    "CFG038": {"parallel > 1": "a size of 1 divides by 1"},
    "ENT004": {"abs(entropy_coef - 1) > 0.1": BINARY},
    "EWS001": {"reward < 1": NOISE},
    "GRD005": {"len(set(units)) > others + 1": "one more kind of token leaves none with more than the share"},
    "GRD008": {"dead < 1": "a share of 1 has been answered before"},
    "KL003": {"kl_coef > 0": "a coefficient of 0 is not judged"},
    "LEN001": {"reward_lean > 0.5": NOISE, "at_best < first": "where they are equal, either is the other"},
    "LEN002": {"now > first * np.exp(chance)": NOISE, "reward_lean > 0.5": NOISE},
    "GEN009": {"n < 5": "the mean of so many values is that of the last so many"},
    "LEN003": {"known < rows": "the mean of so many values is that of the last so many"},
    "RAT002": {"abs(ratio_mean - 1) > 0.001": BINARY},
    "RAT006": {"age > limit": "of the two, that of the message: it is asked only where the age is beyond the limit"},
    "REW006": {"abs(mean - previous(mean, rows)) > 3 * noise(reward_mean)": NOISE},
    "REW007": {
        "series.recent > HALF * series.high > 0": "of its two, the second: no mean is above a highest value of 0"
    },
    "REW015": {"eval_first - eval_now > eval_shown": NOISE},
    "REW017": {
        "held_first + followed * gain <= top": NOISE,
        "possible < followed * gain": NOISE,
        "gain >= least_gain": NOISE,
    },
    "REW018": {"meant + meant_shown < share * gain": NOISE},
    "STL001": {"reward_now - reward_first > reward_shown / 2": NOISE, "gain < spread": NOISE},
    "SUP001": {
        "level - low > sigmas * scatter * math.sqrt(2 / rows)": NOISE,
        "lasting - deep > sigmas * scatter * math.sqrt(1 / mean_rows)": NOISE,
    },
    "UPD001": {"p < p_value": "it is asked twice: for the test by shifts, and in the end"},
}
"""Code: comparison as in the file: why its neighbour finds the same."""

NEIGHBOUR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


RECORDS = ("check(", "conclude(")
"""How the decorator of a function begins that judges records."""


RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
"""The neighbour of each comparison in a table of rules."""


def judged(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the code of a file that judges records: the check and everything that it uses; its probe has separate
    mutants."""
    parts = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found = [part for part in parts.values() if any(ast.unparse(d).startswith(RECORDS) for d in part.decorator_list)]
    for part in found:
        named = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
        found += [parts[name] for name in parts if name in named and parts[name] not in found]
    return found


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Return the code objects of all functions and methods in the code of a module or class."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from codes_in(inner)


def functions_of(leaf: dict[str, Any]) -> dict[str, FunctionType]:
    """Return the functions of a check's file and the methods of its classes by qualified name."""
    classes = [vars(part).values() for part in leaf.values() if isinstance(part, type)]
    parts = (getattr(part, "__func__", part) for part in chain(leaf.values(), *classes))
    return {part.__qualname__: part for part in parts if isinstance(part, FunctionType) and part.__globals__ is leaf}


def mutants(path: Path) -> Iterator[tuple[int, str, dict[str, CodeType]]]:
    """Yield line and text of each comparison, and the code of the file's functions with the comparison replaced."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for part in judged(tree):
        for node in ast.walk(part):
            for i, operator in enumerate(node.ops if isinstance(node, ast.Compare) else ()):
                if type(operator) in NEIGHBOUR:
                    assert isinstance(node, ast.Compare)
                    text = ast.unparse(node)
                    node.ops[i] = NEIGHBOUR[type(operator)]()
                    module = compile(tree, str(path), "exec")
                    node.ops[i] = operator
                    yield node.lineno, text, {code.co_qualname: code for code in codes_in(module)}


def tests_of(check: Check) -> Path:
    """Return the test file of a check."""
    path = Path(check.file)
    return Path(__file__).parent / "checks" / path.parent.name / f"test_{check.name.replace('-', '_')}.py"


def passes(path: Path) -> bool:
    """Return whether all tests of a file pass."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return pytest.main(["-x", "-q", "-p", "no:cacheprovider", str(path)]) == pytest.ExitCode.OK


def survivors(check: Check) -> Iterator[tuple[str, str]]:
    """Return place and text of the comparisons whose replacement no test detects."""
    assert check.predicate is not None
    tests, functions = tests_of(check), functions_of(check.predicate.__globals__)
    for line, text, codes in mutants(Path(check.file)):
        own = {name: code for name, code in codes.items() if name in functions}
        with contextlib.ExitStack() as restored:
            for name, code in own.items():
                restored.callback(partial(setattr, functions[name], "__code__", functions[name].__code__))
                functions[name].__code__ = code
            restored.callback(setattr, check, "_traced", None)
            check._traced = None  # what the check describes is kept, and would be that of the code before
            alive = passes(tests)
        if alive:
            yield f"{check.file}:{line}", text


def conditions(row: dict[str, Any]) -> Iterator[tuple[list[str], int, str]]:
    """Yield the place of each comparison in an entry of a table of rules, and the comparison replaced."""
    parts = [row, *(row[level] for level in LOWER + HIGHER if level in row)]
    for held in (part[group] for part in parts for group in ("when", "any", "unless") if group in part):
        for i, (setting, relation, *operand) in enumerate((*text.split(" ", 2), "") for text in held):
            if relation in RELATIONS:
                yield held, i, f"{setting} {RELATIONS[relation]} {operand[0]}"


def survivors_in_table(check: Check, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the same as `survivors` for a rule that is an entry of a table."""
    for held, i, replaced in list(conditions(row)):
        text, held[i], check._traced = held[i], replaced, None
        alive = passes(tests_of(check))
        held[i], check._traced = text, None
        if alive:
            yield check.code, text


def main(codes: list[str]) -> int:
    """Print the survivors; return 1 if one is not listed in `EQUIVALENT`, a listed one is detected, or tests fail."""
    checks, wrong = load().checks, 0
    for code in codes or [code for code, check in checks.items() if check.predicate is not None]:
        tests, known = tests_of(checks[code]), EQUIVALENT.get(code, {})
        if not passes(tests):
            print(f"{code}: {tests} does not pass as it is", flush=True)
            wrong += 1
            continue
        if row := row_of(checks[code]):
            count, found = len(list(conditions(row))), list(survivors_in_table(checks[code], row))
        else:
            count, found = sum(1 for _ in mutants(Path(checks[code].file))), list(survivors(checks[code]))
        print(f"{code}: {count - len(found)} of {count} caught", flush=True)
        for place, text in found:
            print(f"  {place}: {text}", f"  # equivalent: {known[text]}" if text in known else "", sep="", flush=True)
        caught = known.keys() - {text for _, text in found}
        for text in sorted(caught):
            print(f"  {text}: named as equivalent, and caught", flush=True)
        wrong += sum(text not in known for _, text in found) + len(caught)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
