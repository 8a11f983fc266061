"""Cost of a live step with the whole catalogue, early and late in a run, against writing the same record.

python -m benchmarks.live [STEPS]
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from grpo_doctor import LiveDoctor, StepRecord
from grpo_doctor.record import NUMBER_FIELDS, encode

AT = (1_000, 10_000, 100_000)
SPAN = 500


def records(seed: int = 0) -> list[StepRecord]:
    """A cycle of records of a healthy run in which every number is known."""
    rng = random.Random(seed)
    out = []
    for i in range(1000):
        values = {name: 0.3 + 0.1 * rng.random() for name in NUMBER_FIELDS if name != "step"}
        values |= {"group_size": 8, "groups": 32, "zero_variance_groups": 4, "live_groups": 28, "update_applied": 1.0}
        values |= {"fallback_rate": 0.02, "valid_rate": 0.98, "generation_training_mode": 0.0, "reward_mean": 0.5}
        out.append(StepRecord(step=i, **values, advantage_abs_values=[0.4, 1.1], topk_probs=[0.5, 0.2, 0.1, 0.1, 0.1]))
    return out


def main(last: int) -> None:
    doctor, cycle = LiveDoctor({"group_size": 8}), records()
    spent: list[float] = []
    written: list[float] = []
    for step in range(last):
        record = cycle[step % len(cycle)]
        record.step = step
        start = time.process_time_ns()
        doctor.push(record)
        middle = time.process_time_ns()
        encode(record)
        if any(at - SPAN <= step < at for at in AT):
            spent.append((middle - start) / 1e3)
            written.append((time.process_time_ns() - middle) / 1e3)
        if step + 1 in AT:
            per_step, per_record = statistics.median(spent), statistics.median(written)
            least = statistics.quantiles(spent, n=10)[0]
            ran = doctor.diagnosis().coverage.ran
            print(
                f"step {step + 1:>7}: {ran} checks, {per_step:.0f} us CPU a step ({least:.0f} in the fastest "
                f"tenth), {per_step / per_record:.0f}x its encoding",
                flush=True,
            )
            spent.clear()
            written.clear()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else AT[-1])
