"""Writes the results: all runs of a model in one Parquet file, and the numbers that pages and reports quote."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from ..config import ConfigError
from ..diagnosis.catalogue import load
from ..diagnosis.lab_results import FILE, VERDICTS, Harm, Measured, Share, Treatment
from ..diagnosis.wording import listed
from ..engine.faults import FAULTS
from ..engine.tiny import SIZES, make_model
from ..extras import install
from ..report import output
from ..report.markup import environment
from . import curves
from .arms import (
    ALONE,
    COMMON_ADVICE,
    FIXED,
    HEALTHY,
    REFERENCE,
    ROLLED_BACK,
    SCALES,
    SEEDS,
    TINY,
    Job,
    begins,
    observed,
    treatments,
)
from .calibration import calibrated, cases_of_lab, cases_of_logs
from .judge import END, WHOLE, Row

PARQUET, PAGE, PICTURE, CURVES, LOGS = "lab.parquet", "lab.md", "lab.svg", "curves.svg", "accuracy.csv"
LARGER = {"embedded-large": "large.parquet", "smollm2": "scale.parquet"}
"""The file that contains the runs of each larger model."""
Cells = Mapping[tuple[str, str], list[Row]]
"""The runs of each fault and arm."""


def write(folder: Path, model: str, rows: Sequence[Row], lab: Path) -> None:
    """Write the results of a model, and all texts that quote results. Raises `ConfigError`.

    Args:
        folder: for the Parquet file, the page and the pictures.
        model: one of `SCALES`; the pictures show the tiny model.
        rows: the results of the experiments.
        lab: the results folder, which contains the records of the runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / {TINY: PARQUET, **LARGER}[model], rows)
    if model == TINY:
        draw(folder / PICTURE, rows)
        curves.draw(folder / CURVES, lab)
    if (folder / PARQUET).is_file():
        for path, text in texts(folder).items():
            output.replace(path, text)


def texts(folder: Path) -> dict[Path, str]:
    """Generate the page and the figures that pages and reports quote, from the stored rows."""
    rows, larger = read_rows(folder / PARQUET), {model: read_rows(folder / name) for model, name in LARGER.items()}
    shares = calibration(folder)
    quoted = msgspec.json.format(msgspec.json.encode(measured_of(rows, shares)), indent=1).decode()
    return {folder / PAGE: tables(rows, shares, larger), FILE: quoted + "\n"}


def calibration(folder: Path) -> dict[str, Share]:
    """Return how often the named causes are correct, over the stored runs and the labelled logs."""
    of_lab = (case for name in (PARQUET, *LARGER.values()) for case in cases_of_lab(read_rows(folder / name)))
    return calibrated([*of_lab, *cases_of_logs(_labelled(folder / LOGS))])


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Store the rows. Raises `ConfigError` if pyarrow is not installed."""
    arrow, parquet = _arrow()
    table = arrow.Table.from_pylist([msgspec.structs.asdict(row) for row in rows])
    parquet.write_table(table, path, compression="zstd")


def read_rows(path: Path) -> list[Row]:
    """Return the stored rows, or an empty list if the file is missing. Raises `ConfigError` if pyarrow is not
    installed."""
    _, parquet = _arrow()
    if not path.is_file():
        return []
    return msgspec.convert(parquet.read_table(path).to_pylist(), list[Row])


def _labelled(path: Path) -> list[dict[str, str]]:
    """Return the rows of labelled logs that `tests.corpus` stored, or an empty list if the file is missing."""
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(f"the evidence is Parquet; {install('parquet')}") from None
    return pyarrow, pyarrow.parquet


# -- what pages and reports quote ------------------------------------------------------------------------------


def measured_of(rows: Sequence[Row], calibration: dict[str, Share]) -> Measured:
    """Compute the quoted results from these rows."""
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
    """Return the id of the remedy that an arm tries, or "" if the arm tries no remedy."""
    if arm == FIXED:
        return FAULTS[fault].fixed_by
    return "roll-back" if arm == ROLLED_BACK else arm if arm in COMMON_ADVICE else ""


def harm(fault: str, runs: Sequence[Row]) -> Harm:
    """Summarise the runs with a fault and no remedy. If a run had no such finding, the step after its end is used."""
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
    )


def _mean(values: Iterable[float]) -> float:
    return round(statistics.fmean(values), 3)


# -- the page -------------------------------------------------------------------------------------------------------

SHORT = {
    **{ALONE: "no remedy", FIXED: "fixed in place", ROLLED_BACK: "rolled back", "raise-group-size": "K x 2"},
    **{"lower-learning-rate": "rate / 10", "raise-kl-coefficient": "KL x 10", "entropy-bonus": "entropy bonus"},
    **{"clip-harder": "clip harder", "temperature-one": "T = 1"},
}
"""Short column names of the arms."""


def tables(
    rows: Sequence[Row], calibration: Mapping[str, Share], larger: Mapping[str, Sequence[Row]] = MappingProxyType({})
) -> str:
    """Generate the page of the site from the rows of the tiny and of the larger models."""
    cells = _cells(rows)
    faults = [name for name in FAULTS if (name, ALONE) in cells]
    return (
        environment(Path(__file__).parent, html=False)
        .get_template("page.md.j2")
        .render(
            seeds=1 + max(row.seed for row in rows),
            end=f"{END:.0%}",
            whole=f"{WHOLE:.0%}",
            picture=PICTURE,
            treatments=_table(*_treatments(cells, faults)),
            brought_back=_brought_back(cells),
            named=_table(*_named(cells, faults)),
            larger={model: _at_scale(model, those) for model, those in larger.items() if those},
            calibration=_table(*_calibration(calibration)),
            versions="; ".join(sorted({row.versions for row in rows})),
            dates=" and ".join(sorted({row.date for row in rows})),
        )
    )


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def _treatments(cells: Cells, faults: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    """Tabulate the final mean score of each arm, the verdict on the arm, and the number of steps until recovery."""
    head = ["fault", "reference", *SHORT.values(), "command"]
    lines = []
    for fault in faults:
        alone = cells[fault, ALONE]
        line = [f"`{fault}`", f"{statistics.fmean(run.twin for run in alone):.2f}"]
        line += [_cell(cells.get((fault, arm), [])) for arm in SHORT]
        lines.append([*line, f"`{alone[0].command}`"])
    return head, lines


def _brought_back(cells: Cells) -> str:
    """State how many faults the correct remedy fixed, and why it did not fix the other faults."""
    fixed = [fault for fault, arm in cells if arm == FIXED]
    lost = [fault for fault in fixed if cells[fault, FIXED][0].verdict != "recovers"]
    back = [fault for fault in lost if any(row.verdict == "recovers" for row in cells.get((fault, ROLLED_BACK), []))]
    never = [fault for fault in lost if fault not in back]
    told = [f"A fix in place restores the run for {len(fixed) - len(lost)} of {len(fixed)} harmful faults."]
    if back:
        told.append(f"If the weights stay damaged, only a rollback restores the run: {_listed(back)}.")
    if never:
        named = listed([f"`{fault}`" for fault in never])
        told.append(f"For {named}, neither a fix nor a rollback restores the run before its end.")
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
    verdict = VERDICTS.get(runs[0].verdict, "")
    return f"{statistics.fmean(ends):.2f}{band} {verdict}{speed}".strip()


NAMES = ["named by", "probe", "at step", "reward alone", "lead", "cause at the end", "other causes"]


def _named(cells: Cells, faults: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    return ["fault", *NAMES], [[f"`{fault}`", *_names(fault, cells[fault, ALONE])] for fault in faults]


def _names(fault: str, runs: Sequence[Row]) -> list[str]:
    """Tabulate, under the column heads `NAMES`, the check that found a fault, the step at which the check found it, and
    other named causes."""
    checks, found = load().checks, harm(fault, runs)
    ahead = "" if found.lead is None else f"{found.lead:.0f} ({found.lead / found.steps:.0%})"
    named = _joined(run.named for run in runs if run.named)
    probes = _joined(code for code in found.codes if checks[code].probe is not None)
    return [named, probes, _step(found.named), _step(found.reward), ahead, *_causes(runs)]


def _causes(runs: Sequence[Row]) -> list[str]:
    """Return the named causes: those in the headlines, and those that do not belong to the fault."""
    heads = (f"{run.cause} {run.confidence}" for run in runs if run.cause)
    return [_joined(heads), _joined(code for run in runs for code in run.wrong)]


def _joined(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def _at_scale(model: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the section of the page on a larger model, with the runs that are missing."""
    steps, seeds = max(row.steps for row in rows), 1 + max(row.seed for row in rows if row.arm == ALONE)
    scale, weights = SCALES[model], max(row.weights or 0 for row in rows)
    responses, last = scale.settings["generation_batch_size"], round(END * steps)
    missing: dict[str, list[str]] = defaultdict(list)
    for job in _not_run(model, rows):
        missing[f"{SHORT.get(job.arm, 'reference')}, seed {job.seed}"].append(job.fault)
    cells = (f"{run}: {_listed(of) if len(of) < len(scale.faults) else 'all faults'}" for run, of in missing.items())
    return {
        "all": len(scale.faults),
        "done": len({row.fault for row in rows if row.arm == ALONE}.intersection(scale.faults)),
        "weights": f"{weights / 1e6:.0f}",
        "times": f"{weights / sum(p.numel() for p in make_model(**SIZES[TINY]).parameters()):.0f}",
        "steps": steps,
        "seeds": f"{seeds} seed{'s' * (seeds > 1)}",
        "responses": responses,
        "last": last,
        "drawn": last * responses,
        "error": f"{max(row.error for row in rows):.2f}",
        "device": rows[0].device,
        "date": " and ".join(sorted({row.date for row in rows})),
        "missing": "; ".join(cells),
        "table": _table(*_larger(_cells(rows))),
    }


def _not_run(model: str, rows: Sequence[Row]) -> list[Job]:
    """Return the planned runs of a model that are not stored."""
    scale, done = SCALES[model], {(row.fault, row.arm, row.seed) for row in rows}
    jobs: list[Job] = []
    for seed in range(SEEDS):
        harmed = [row.fault for row in rows if row.arm == ALONE and row.seed == seed and row.share < WHOLE]
        jobs += [*observed(scale.faults, seed, model), *treatments(harmed, seed, model)]
    return [job for job in jobs if (job.fault, job.arm, job.seed) not in done]


def _larger(cells: Cells) -> tuple[list[str], list[list[str]]]:
    """Tabulate the effect of faults on a larger model, and the results of the diagnosis. The reference run comes first.

    Empty columns are omitted.
    """
    arms = (ALONE, FIXED, ROLLED_BACK)
    head = ["fault", "start", "reference", *map(SHORT.__getitem__, arms), "died", *NAMES, *ENDS, "command"]
    twin = cells[HEALTHY, REFERENCE]
    none = [""] * (len(arms) + len(NAMES) - 1)
    lines = [[f"`{HEALTHY}`", _start(twin), _cell(twin), *none, *_causes(twin), *_ends(twin), f"`{twin[0].command}`"]]
    for fault in (name for name in FAULTS if (name, ALONE) in cells):
        runs = cells[fault, ALONE]
        scores = [f"{statistics.fmean(run.twin for run in runs):.2f}"]
        scores += [_cell(cells.get((fault, arm), [])) for arm in arms]
        names = [runs[0].died or "", *_names(fault, runs), *_ends(runs)]
        lines.append([f"`{fault}`", _start(runs), *scores, *names, f"`{runs[0].command}`"])
    kept = [any(column) for column in zip(*lines, strict=True)]
    return list(compress(head, kept)), [list(compress(line, kept)) for line in lines]


ENDS = ["verdict", "first sentence (first seed)"]


def _ends(runs: Sequence[Row]) -> list[str]:
    return [_joined(run.judged for run in runs if run.judged), runs[0].sentence or ""]


def _start(runs: Sequence[Row]) -> str:
    starts = [run.start for run in runs if run.start is not None]
    return f"{statistics.fmean(starts):.2f}" if starts else ""


def _step(step: float | None) -> str:
    return "never" if step is None else f"{step:.0f}"


def _calibration(found: Mapping[str, Share]) -> tuple[list[str], list[list[str]]]:
    lines = [[kind, f"{s.right} of {s.of}", f"{s.low:.0%} to {s.high:.0%}"] for kind, s in found.items()]
    return ["confidence", "correct", "95% interval (Wilson)"], lines


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw the scores of each fault with bands over seeds as SVG. Raises `ConfigError` without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(f"the picture needs matplotlib; {install('figures')}") from None
    cells = _cells(rows)
    faults = [name for name in FAULTS if (name, ALONE) in cells]
    with matplotlib.rc_context({"svg.hashsalt": "grpo-doctor", "font.size": 8}):
        drawn = Figure(figsize=(8, 0.22 * len(faults) + 1), layout="constrained")
        axes = drawn.add_subplot()
        for arm, color, shift in ((ALONE, "#b91c1c", 0.2), (ROLLED_BACK, "#6b7280", 0.0), (FIXED, "#1d4ed8", -0.2)):
            for place, fault in enumerate(faults):
                shares = [run.share for run in cells.get((fault, arm), [])]
                if shares:
                    name = SHORT[arm] if not place else None
                    axes.plot([min(shares), max(shares)], [place + shift] * 2, linewidth=1, color=color)
                    axes.plot(statistics.fmean(shares), place + shift, ".", markersize=6, color=color, label=name)
        axes.axvline(WHOLE, color="#9ca3af", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(faults)), faults)
        axes.invert_yaxis()
        axes.set_xlabel("score at the end as a share of the reference run's; line: lowest to highest seed")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.06), ncols=3, frameon=False)
        drawn.savefig(path, metadata={"Date": None})
