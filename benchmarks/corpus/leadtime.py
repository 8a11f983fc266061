"""``python -m benchmarks.corpus.leadtime``: how early the live checks report a failing run, by family of its cause.

Every run of the manifest whose label accepts failing and not healthy is pushed row by row into a `LiveDoctor`, as
``watch`` does. Three rows are compared: the first with a finding at error or above that still holds at the end of the
run; the first at which the reward alone shows a fall (`shown_by_reward`); and the last. The page gives the share of
the rows that would have been saved, with a 95% interval from resampling repositories.
"""

from __future__ import annotations

import datetime
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from grpo_doctor import LiveDoctor, Run, __version__
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.readers import ReadError, read
from tests.corpus_path import CORPUS

from . import tables
from .fetch import wanted

HERE = Path(__file__).parent
STORED, PAGE = HERE / "leadtime.csv", HERE.parents[1] / "docs" / "evidence" / "lead-time.md"
COLUMNS = ("date", "version", "id", "repo", "rows", "reported", "reward_alone", "codes")
FEWEST, MOST = 20, 5000
"""Rows of the runs that are taken: shorter ones have no lead, longer ones take minutes."""
RESAMPLED = 2000
HEAD = """# How early a failing run is reported

`python -m benchmarks.corpus.leadtime` generated this page on {date} with version {version}. Do not edit the page.

The tables cover {runs} runs of {repos} repositories that are labelled failing. The rules were written with knowledge of
these logs. A run counts as reported at the first row with an error or critical finding that is still active at the end
of the run. *The reward alone* shows a failure at the first row at which the mean reward has lost half of its gain. The
mean is the mean over the last tenth of the rows so far. If the reward never rose, the reward alone shows no failure
before the end.

"""


def shown_by_reward(rewards: np.ndarray) -> int:
    """First row (from 1) at which the reward alone has lost half of its gain, or the last row.

    The window is a tenth of the rows so far, at least 5; a gain counts from three standard errors of the first window.
    """
    for end in range(10, len(rewards) + 1):
        width = max(5, end // 10)
        means = np.convolve(rewards[:end], np.full(width, 1 / width), "valid")
        first, best, last = means[0], means.max(), means[-1]
        noise = rewards[:width].std() / np.sqrt(width)
        if best - first > 3 * noise and best - first > 0 and last < (best + first) / 2:
            return end
    return len(rewards)


def reported(run: Run) -> tuple[int | None, str]:
    """The first row (from 1) with an error that still holds at the end, and the codes that hold."""
    doctor = LiveDoctor(run.settings, run_type=run.run_type)
    since: dict[str, int] = {}
    for row, record in enumerate(run.records(), 1):
        for finding in doctor.push(record, run.samples.get(row - 1)):
            if finding.level >= Severity.ERROR:
                since.setdefault(finding.code, row)
    held = {f.code for f in doctor.findings() if f.level >= Severity.ERROR and not f.cleared}
    kept = {code: row for code, row in since.items() if code in held}
    return min(kept.values(), default=None), " ".join(sorted(kept))


def measured() -> Iterator[dict[str, str]]:
    """One row for each failing run that has a reward and enough rows."""
    for label in wanted():
        accepted = set(label["expect"].split("|"))
        if "failing" not in accepted or accepted & {"healthy", "unproven"} or label["label_confidence"] == "low":
            continue
        try:
            run = read(CORPUS / label["file"])[-1]
        except ReadError:
            continue
        rewards = run.columns.get("reward_mean")
        if rewards is None or not FEWEST <= len(run) <= MOST:
            continue
        row, codes = reported(run)
        alone = shown_by_reward(rewards[np.isfinite(rewards)])
        yield {
            "date": datetime.date.today().isoformat(), "version": __version__, "id": label["id"], "repo": label["repo"],
            "rows": str(len(run)), "reported": "" if row is None else str(row), "reward_alone": str(alone),
            "codes": codes,
        }  # fmt: skip


def saved(rows: list[dict[str, str]], since: str) -> float:
    """The mean share of a run's rows that lie after its ``since``; a run that is never reported saves nothing."""
    shares = [1 - int(row[since] or row["rows"]) / int(row["rows"]) for row in rows]
    return statistics.fmean(shares) if shares else 0.0


def interval(rows: list[dict[str, str]], since: str) -> tuple[float, float]:
    """95% of the means over repositories drawn with replacement."""
    by_repo: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        by_repo[row["repo"]].append(row)
    drawn, names = random.Random(0), list(by_repo)
    means = sorted(
        saved([row for name in drawn.choices(names, k=len(names)) for row in by_repo[name]], since)
        for _ in range(RESAMPLED)
    )
    return means[RESAMPLED // 40], means[-RESAMPLED // 40]


def page(rows: list[dict[str, str]]) -> str:
    """The table of shares, and how many runs were reported before their reward showed it."""
    caught = [row for row in rows if row["reported"]]
    earlier = sum(int(row["reported"]) < int(row["reward_alone"]) for row in caught)
    lines = [
        f"Of {len(rows)} runs, {sum(int(row['reported']) < int(row['rows']) for row in caught)} were reported before "
        f"the end, and {earlier} were reported before the reward alone showed the failure.",
        "",
        "| stopped at | share of the rows saved | 95% interval |",
        "|---|---|---|",
    ]
    for words, since in (("the first error that stays active", "reported"), ("the reward alone", "reward_alone")):
        low, high = interval(rows, since)
        lines.append(f"| {words} | {saved(rows, since):.0%} | {low:.0%} to {high:.0%} |")
    lines += ["", "| check | runs with an error of this check | median share saved |", "|---|---|---|"]
    by_code: dict[str, list[float]] = defaultdict(list)
    for row in caught:
        for code in row["codes"].split():
            by_code[code].append(1 - int(row["reported"]) / int(row["rows"]))
    for code, shares in sorted(by_code.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        lines.append(f"| {code} | {len(shares)} | {statistics.median(shares):.0%} |")
    repos = len({row["repo"] for row in rows})
    return HEAD.format(**rows[0], runs=len(rows), repos=repos) + "\n".join(lines) + "\n"


def main() -> None:
    """Measures every run, stores the rows and writes the page."""
    tables.write(STORED, COLUMNS, measured())
    PAGE.write_text(page(tables.read(STORED)), encoding="utf-8")


if __name__ == "__main__":
    main()
