"""Confusion matrix of the causes of a mismatch: ``python -m benchmarks.mismatch`` prints the tables of mismatch.md.

It covers every kind alone at three strengths, and pairs at one strength each. The seeds differ from those of the tests.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from grpo_doctor.integrations.trl_batch import token_batch
from grpo_doctor.mismatch import TokenBatch, causes_of, examined, write_batch
from grpo_doctor.record import StepRecord
from tests.mismatch.toy import STRENGTHS, TOLD_AS, made

EXCLUSIVE = ({"stale", "initial-weights", "reference"}, {"routing", "routing-unrecorded"}, {"healthy"})
"""Kinds of which an engine has at most one; a healthy engine has no other kind."""
NOTHING = "none"


def told(faults: Mapping[str, float], seed: int) -> list[str]:
    """Return the reported causes, the largest first."""
    return [cause.name for cause in causes_of(made(faults, seed))]


def expected(kind: str) -> str:
    """Return the cause that a kind should be reported as."""
    return TOLD_AS.get(kind, kind)


def alone(seeds: int) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Return the first reported cause of each kind, and the further causes."""
    first: dict[str, Counter[str]] = {kind: Counter() for kind in STRENGTHS}
    further: dict[str, Counter[str]] = {kind: Counter() for kind in STRENGTHS}
    for kind, strengths in STRENGTHS.items():
        for strength, seed in itertools.product(strengths, range(seeds)):
            names = told({} if kind == "healthy" else {kind: strength}, 100 + seed)
            first[kind][names[0] if names else NOTHING] += 1
            further[kind].update(names[1:])
    return first, further


def pairs() -> Iterator[tuple[str, str]]:
    """Return kinds that can occur together."""
    for pair in itertools.combinations(STRENGTHS, 2):
        if "healthy" not in pair and not any(set(pair) <= group for group in EXCLUSIVE):
            yield pair


def paired(levels: int) -> tuple[Counter[str], Counter[str]]:
    """Return the results over all pairs and strengths, and the pairs whose first cause is neither of the two."""
    outcome: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for seed, (one, other) in enumerate(pairs()):
        for level in range(seed % 3, seed % 3 + levels):
            level %= 3
            names = told({one: STRENGTHS[one][level], other: STRENGTHS[other][level]}, 200 + seed)
            right = {expected(one), expected(other)}
            outcome["all pairs"] += 1
            outcome["both causes reported"] += right <= set(names)
            outcome["first cause is one of the two"] += bool(names) and names[0] in right
            outcome["one of the two is reported"] += bool(right & set(names))
            outcome["a third cause is reported too"] += bool(set(names) - right)
            if not right & set(names[:1]):
                wrong[f"{one} + {other}: {', '.join(names) or NOTHING}"] += 1
    return outcome, wrong


def written(first: dict[str, Counter[str]], further: dict[str, Counter[str]]) -> Iterator[str]:
    """Yield the confusion matrix in Markdown."""
    columns = sorted({name for row in first.values() for name in row})
    yield "| generated | batches | right | " + " | ".join(columns) + " | also reported |"
    yield "|---" * (len(columns) + 4) + "|"
    for kind, row in first.items():
        total = row.total()
        right = row[expected(kind) or NOTHING] / total
        cells = " | ".join(str(row[name] or "") for name in columns)
        also = ", ".join(f"{name} {count}" for name, count in further[kind].items())
        yield f"| {kind} | {total} | {right:.0%} | {cells} | {also} |"


def cost(responses: int = 64, length: int = 1024) -> Iterator[str]:
    """Measure the CPU milliseconds of one token batch in `attach`, by part."""
    shape = responses, length
    logprobs = -torch.rand(shape)
    inputs = {
        "prompt_ids": torch.ones(responses, 128, dtype=torch.long),
        "prompt_mask": torch.ones(responses, 128),
        "completion_ids": torch.randint(32000, shape),
        "completion_mask": torch.ones(shape),
        "advantages": torch.randn(responses),
        "sampling_per_token_logps": logprobs + 0.02 * torch.randn(shape),
        "old_per_token_logps": logprobs,
    }
    began = time.process_time()
    batch = TokenBatch(step=1, responses=token_batch(inputs, logprobs, torch.rand(shape)))
    taken = time.process_time()
    record = examined(StepRecord(step=1), batch)
    judged = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        kept = write_batch(Path(folder) / "batch.parquet", batch)
        size = (Path(folder) / "batch.parquet").stat().st_size
    written = time.process_time()
    yield f"taking {1000 * (taken - began):.0f} ms, judging {1000 * (judged - taken):.0f} ms, "
    yield f"writing {1000 * (written - judged):.0f} ms: {kept} responses, {size / 1e6:.2f} MB, {record.mismatch_causes}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="batches per kind and strength")
    parser.add_argument("--levels", type=int, default=3, help="strengths per pair; 1 takes another one for each pair")
    parser.add_argument("--cost", action="store_true", help="time one batch of 64 responses of 1,024 tokens instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.cost:
        list(cost(4, 64))  # pyarrow is imported once per run
        print("".join(cost()))
        return
    first, further = alone(options.seeds)
    print("\n".join(["## Single causes", "", *written(first, further)]), flush=True)
    outcome, wrong = paired(options.levels)
    print("\n## Pairs\n\n| pairs | batches | share |\n|---|---|---|")
    for name, count in outcome.items():
        print(f"| {name} | {count} | {count / outcome['all pairs']:.1%} |")
    print("\nPairs whose first cause is neither of the two:\n")
    for pair, count in wrong.items():
        print(f"- {pair} ({count})")


if __name__ == "__main__":
    main()
