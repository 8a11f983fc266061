"""Writes the results: every run into one Parquet file, and from it the figures that pages and reports quote."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..config import ConfigError
from ..diagnosis.catalogue import load
from ..diagnosis.lab_results import FILE, Harm, Measured, Share, Treatment
from ..engine.faults import FAULTS
from ..report import output
from . import curves
from .arms import ALONE, FOLK, GRAVEST, HEALTHY, MENDED, ROLLED_BACK, SCALE, TWIN, begins
from .calibration import Case, calibrated, cases_of_lab, cases_of_logs
from .judge import END, WHOLE, Row

PARQUET, PAGE, PICTURE, CURVES, CASES = "lab.parquet", "lab.md", "lab.svg", "curves.svg", "cases.csv"
REAL = "scale.parquet"
"""The runs of the real model."""
Cells = Mapping[tuple[str, str], list[Row]]
"""The runs of each fault and arm."""


def write(folder: Path, rows: Sequence[Row], logs: Path | None, lab: Path) -> None:
    """Writes all of it, and ``measured.json`` of this package.

    Args:
        folder: of the Parquet file, the page, the pictures and the cases of labelled logs. rows: the results of the
        experiments. logs: the labelled logs; None keeps the stored cases. Raises `ConfigError`. lab: the results folder
        with the records of the runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / PARQUET, rows)
    if logs is not None:
        _write_cases(folder / CASES, sorted(cases_of_logs(logs)))
    draw(folder / PICTURE, rows)
    curves.draw(folder / CURVES, lab)
    _write_texts(folder)


def write_real(folder: Path, rows: Sequence[Row]) -> None:
    """Store the results of the real model, and rewrite the texts that quote them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / REAL, [row for row in rows if row.arm in (TWIN, ALONE)])  # its faults are not treated
    if (folder / PARQUET).is_file():
        _write_texts(folder)


def _write_texts(folder: Path) -> None:
    for path, text in texts(folder).items():
        output.replace(path, text)


def texts(folder: Path) -> dict[Path, str]:
    """Generate the page and the figures that pages and reports quote, from the stored rows and cases."""
    rows, real = read_rows(folder / PARQUET), read_rows(folder / REAL)
    calibration = calibrated([*cases_of_lab(rows), *cases_of_lab(real), *read_cases(folder / CASES)])
    quoted = msgspec.json.format(msgspec.json.encode(measured_of(rows, calibration)), indent=1).decode()
    return {folder / PAGE: tables(rows, calibration, real), FILE: quoted + "\n"}


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Store the rows. Raises `ConfigError` if pyarrow is not installed."""
    arrow, parquet = _arrow()
    table = arrow.Table.from_pylist([msgspec.structs.asdict(row) for row in rows])
    parquet.write_table(table, path, compression="zstd")


def read_rows(path: Path) -> list[Row]:
    """Return the stored rows; none if the file is missing. Raises `ConfigError` if pyarrow is not installed."""
    _, parquet = _arrow()
    if not path.is_file():
        return []
    return msgspec.convert(parquet.read_table(path).to_pylist(), list[Row])


def _write_cases(path: Path, cases: Iterable[Case]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([Case._fields, *cases])


def read_cases(path: Path) -> list[Case]:
    """Return the stored cases of labelled logs; none if the file is missing."""
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return [Case(row["of"], row["confidence"], row["right"] == "True") for row in csv.DictReader(file)]


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("the evidence is Parquet: pip install 'grpo-doctor[parquet]'") from None
    return pyarrow, pyarrow.parquet


# -- what pages and reports quote ------------------------------------------------------------------------------


def measured_of(rows: Sequence[Row], calibration: dict[str, Share]) -> Measured:
    """Compute the figures from these rows."""
    cells = _cells(rows)
    return Measured(
        calibration=calibration,
        faults={fault: harm(fault, runs) for (fault, arm), runs in cells.items() if arm == ALONE},
        treatments=[
            _treatment(cells[fault, ALONE], runs, remedy)
            for (fault, arm), runs in cells.items()
            if (remedy := _remedy(fault, arm))
        ],
    )


def _cells(rows: Iterable[Row]) -> Cells:
    cells: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.fault, row.arm, row.seed)):
        cells[row.fault, row.arm].append(row)
    return dict(cells)


def _remedy(fault: str, arm: str) -> str:
    """Return the id of the remedy that an arm tries; "" if it has none."""
    if arm == MENDED:
        return FAULTS[fault].mended_by
    return "roll-back" if arm == ROLLED_BACK else arm if arm in FOLK else ""


def harm(fault: str, runs: Sequence[Row]) -> Harm:
    """Summarise an untreated fault. A step that a run did not reach counts as after its end."""
    steps = runs[0].steps
    named = statistics.median(run.named_step or steps + 1 for run in runs)
    reward = statistics.median(run.reward_step or steps + 1 for run in runs)
    by = [run.named for run in runs if run.named is not None]
    return Harm(
        codes=list(FAULTS[fault].named_by),
        seeds=len(runs),
        begins=begins(fault, steps),
        steps=steps,
        alone=_mean(run.end for run in runs),
        twin=_mean(run.twin for run in runs),
        by=statistics.mode(by) if by else None,
        named=None if named > steps else named,
        reward=None if reward > steps else reward,
        command=runs[0].command,
    )


def _treatment(alone: Sequence[Row], runs: Sequence[Row], remedy: str) -> Treatment:
    seeds = {run.seed for run in runs}
    reached = [run.recovered for run in runs if run.recovered is not None]
    return Treatment(
        fault=runs[0].fault,
        arm=runs[0].arm,
        remedy=remedy,
        seeds=len(runs),
        alone=_mean(row.end for row in alone if row.seed in seeds),
        end=_mean(run.end for run in runs),
        twin=_mean(run.twin for run in runs),
        recovered=statistics.median(reached) if len(reached) == len(runs) else None,
        verdict=runs[0].verdict,
        command=runs[0].command,
    )


def _mean(values: Iterable[float]) -> float:
    return round(statistics.fmean(values), 3)


# -- the page -------------------------------------------------------------------------------------------------------

ABOUT = """# What the faults do, and what helps

Every fault of the engine on {seeds} seeds: left alone, mended in place from a step on, mended at the checkpoint before
the fault (a roll-back), and treated from that step on with what people try first. A score is what the task itself gives
to what was drawn, the mean of the last {end:.0%} of the steps; the healthy twin is the same run without the fault.

A treatment **recovers** if the run ends at {whole:.0%} of its twin's score or more and above the fault left alone by
more than two standard errors; it **helps** if above by as much and not so far, **harms** if below by as much, and
otherwise **does nothing**. A fault that reaches {whole:.0%} when left alone leaves nothing to mend, and is not treated:
the runs are short and the model tiny, and what does no harm here may do so later or elsewhere. A roll-back throws the
sick steps away: from its checkpoint on it is the twin's run to the last bit, as many steps late, and has not yet
reached where the twin ends. So it is read off the twin's run and not trained again.

The command of a row repeats it in some minutes, `make lab` everything. Every run stands in `docs/evidence/lab.parquet`
of the repository, from which this page, its picture and every figure of the lab in pages and reports are made. What was
tried, and what failed, tells the [log](log.md).
"""
SHORT = {
    **{ALONE: "left alone", MENDED: "mended in place", ROLLED_BACK: "rolled back", "raise-group-size": "K x 2"},
    **{"lower-learning-rate": "rate / 10", "raise-kl-coefficient": "KL x 10", "entropy-bonus": "entropy bonus"},
    **{"clip-harder": "clip harder", "temperature-one": "T = 1"},
}
"""Short column names of the arms."""


def tables(rows: Sequence[Row], calibration: Mapping[str, Share], real: Sequence[Row] = ()) -> str:
    """Generate the page of the site from the rows of the tiny and of the real model."""
    cells = _cells(rows)
    faults = [name for name in FAULTS if (name, ALONE) in cells]
    about = ABOUT.format(seeds=1 + max(row.seed for row in rows), end=END, whole=WHOLE)
    parts = [about, f"![Scores by fault]({PICTURE})", "## What helps", _table(*_treatments(cells, faults))]
    parts.append(_brought_back(cells))
    parts += ["## Who names it, and when", NAMED, _table(*_named(cells, faults))]
    if real:
        parts += ["## At scale", _at_scale(real), _table(*_real(_cells(real)))]
    parts += ["## How often a cause is right", CALIBRATED, _table(*_calibration(calibration))]
    versions = sorted({row.versions for row in rows})
    return "\n\n".join([*parts, f"Made with {'; '.join(versions)}."]) + "\n"


ABOUT_SCALE = """Are these diseases of a tiny model? Of the {all} faults that leave next to nothing of its score,
{done} were left alone in SmolLM2-135M-Instruct too, trained with LoRA by the same engine: "animal or plant?",
{steps} steps of {responses} responses, {seeds}. The score is that of the last {last} steps, {drawn} responses, so that
it is uncertain by about a tenth. It is this project's engine and not TRL's trainer: the faults sit in the engine's
seams, which TRL's trainer does not have."""


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def _treatments(cells: Cells, faults: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    """Tabulate the final mean score of each arm, its verdict, and the steps until it matched the fixed run."""
    head = ["fault", "twin", *SHORT.values(), "again by"]
    lines = []
    for fault in faults:
        alone = cells[fault, ALONE]
        line = [f"`{fault}`", f"{statistics.fmean(run.twin for run in alone):.2f}"]
        line += [_cell(cells.get((fault, arm), [])) for arm in SHORT]
        lines.append([*line, f"`{alone[0].command}`"])
    return head, lines


def _brought_back(cells: Cells) -> str:
    """List the faults that the right remedy fixed, and the reason for the others."""
    mended = [fault for fault, arm in cells if arm == MENDED]
    lost = [fault for fault in mended if cells[fault, MENDED][0].verdict != "recovers"]
    back = [fault for fault in lost if any(row.verdict == "recovers" for row in cells.get((fault, ROLLED_BACK), []))]
    never = [fault for fault in lost if fault not in back]
    told = [f"Mended in place, {len(mended) - len(lost)} of {len(mended)} harmful faults recover."]
    if back:
        told.append(
            f"Not so {_listed(back)}: what the fault has done to the weights stays, and only a roll-back recovers."
        )
    if never:
        told.append(f"Neither brings back {_listed(never)} within the run.")
    return " ".join(told)


def _listed(faults: Iterable[str]) -> str:
    return ", ".join(f"`{fault}`" for fault in faults)


def _cell(runs: Sequence[Row]) -> str:
    if not runs:
        return ""
    ends = [run.end for run in runs]
    reached = [run.recovered for run in runs if run.recovered is not None]
    fast = runs[0].verdict == "recovers" and len(reached) == len(runs)
    speed = f" in {statistics.median(reached):.0f} steps" if fast else ""
    band = f" ({min(ends):.2f}-{max(ends):.2f})" if len(ends) > 1 else " (one seed)"
    return f"{statistics.fmean(ends):.2f}{band} {runs[0].verdict}{speed}".strip()


NAMED = """Live, one record at a time, against a doctor that is shown nothing but the reward of the same run; medians
over the seeds. *Lead* is how much earlier the fault is named, at least, and as a share of the run. Where records do not
name a fault, the probe of that column proves it on the code (`grpo-doctor probe`)."""


NAMES = ["named by", "probe", "at step", "reward alone", "lead", "cause at the end", "other causes"]


def _named(cells: Cells, faults: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    return ["fault", *NAMES], [[f"`{fault}`", *_names(fault, cells[fault, ALONE])] for fault in faults]


def _names(fault: str, runs: Sequence[Row]) -> list[str]:
    """Tabulate which check named an untreated fault, when, and what else was named, under the heads `NAMES`."""
    checks, found = load().checks, harm(fault, runs)
    ahead = "" if found.lead is None else f"{found.lead:.0f} ({found.lead / found.steps:.0%})"
    several = (
        {run.named for run in runs if run.named},
        {code for code in found.codes if checks[code].probe is not None},
        {f"{run.cause} {run.confidence}" for run in runs if run.cause},
        {code for run in runs for code in run.wrong},
    )
    named, probes, causes, wrong = (", ".join(sorted(words)) for words in several)
    return [named, probes, _step(found.named), _step(found.reward), ahead, causes, wrong]


def _at_scale(rows: Sequence[Row]) -> str:
    steps, seeds = max(row.steps for row in rows), 1 + max(row.seed for row in rows)
    done = {row.fault for row in rows if row.arm == ALONE}
    return ABOUT_SCALE.format(
        all=len(GRAVEST),
        done=len(done.intersection(GRAVEST)),
        steps=steps,
        seeds=f"{seeds} seed{'s' * (seeds > 1)}",
        responses=SCALE["generation_batch_size"],
        last=round(END * steps),
        drawn=round(END * steps) * SCALE["generation_batch_size"],
    )


def _real(cells: Cells) -> tuple[list[str], list[list[str]]]:
    """Tabulate the effect of faults on the real model, the reference run first, and the checks that named them."""
    twin = cells[HEALTHY, TWIN]
    lines = [[f"`{HEALTHY}`", _cell(twin), "", "", *[""] * 5, *_of_twin(twin), f"`{twin[0].command}`"]]
    for fault in (name for name in FAULTS if (name, ALONE) in cells):
        runs = cells[fault, ALONE]
        scores = [f"{statistics.fmean(run.twin for run in runs):.2f}", _cell(runs), runs[0].died or ""]
        lines.append([f"`{fault}`", *scores, *_names(fault, runs), f"`{runs[0].command}`"])
    return ["fault", "twin", "left alone", "died", *NAMES, "again by"], lines


def _of_twin(runs: Sequence[Row]) -> tuple[str, str]:
    """Return the causes that were named in reference runs: the one in the headline, and others."""
    heads = sorted({f"{run.cause} {run.confidence}" for run in runs if run.cause})
    return ", ".join(heads), ", ".join(sorted({code for run in runs for code in run.wrong}))


def _step(step: float | None) -> str:
    return "never" if step is None else f"{step:.0f}"


CALIBRATED = """A case is a project of the labelled logs or a fault of this lab; it is right if every cause that heads
its reports is. A cause of a log is right if its family is one that the log's label names, of a lab run if it is a check
that should name the fault, and never in a healthy run. The rules were written with these logs and faults in sight."""


def _calibration(found: Mapping[str, Share]) -> tuple[list[str], list[list[str]]]:
    lines = [[kind, f"{s.right} of {s.of}", f"{s.low:.0%} to {s.high:.0%}"] for kind, s in found.items()]
    return ["confidence", "right", "95 % interval (Wilson)"], lines


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw the scores of each fault with bands over seeds as SVG. Raises `ConfigError` without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("the picture needs matplotlib: pip install 'grpo-doctor[figures]'") from None
    cells = _cells(rows)
    faults = [name for name in FAULTS if (name, ALONE) in cells]
    with matplotlib.rc_context({"svg.hashsalt": "grpo-doctor", "font.size": 8}):
        drawn = Figure(figsize=(8, 0.22 * len(faults) + 1), layout="constrained")
        axes = drawn.add_subplot()
        for arm, color, shift in ((ALONE, "#b91c1c", 0.2), (ROLLED_BACK, "#6b7280", 0.0), (MENDED, "#1d4ed8", -0.2)):
            for place, fault in enumerate(faults):
                shares = [run.share for run in cells.get((fault, arm), [])]
                if shares:
                    name = SHORT[arm] if not place else None
                    axes.plot([min(shares), max(shares)], [place + shift] * 2, linewidth=1, color=color)
                    axes.plot(statistics.fmean(shares), place + shift, ".", markersize=6, color=color, label=name)
        axes.axvline(WHOLE, color="#9ca3af", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(faults)), faults)
        axes.invert_yaxis()
        axes.set_xlabel("score at the end as a share of the healthy twin's; line: lowest to highest seed")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.06), ncols=3, frameon=False)
        drawn.savefig(path, metadata={"Date": None})
