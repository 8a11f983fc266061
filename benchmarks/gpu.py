"""Logit statistics, `attach` and probes on a GPU, as ratios of one run: ``python -m benchmarks.gpu [NAME …]``.

Without CUDA, it runs the same code on the CPU with smaller sizes and prints a note; this only tests the command. Time
is wall time between two points at which the device is idle or, on a CPU, the CPU time of the process.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from .engine import naive
from .probes import embedded
from .trl import measured

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SHAPES = ((512, 32_000), (4096, 151_936)) if CUDA else ((64, 32_000),)


def now() -> float:
    """Return the time in seconds once the device is idle."""
    if not CUDA:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def medians(variants: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """Return the seconds of each variant, measured alternately, round by round; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds + 1):
        for name, function in variants.items():
            began = now()
            function()
            taken[name].append(now() - began)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def logits() -> None:
    """Compare the statistics with one read of the tensor and with the naive formulation: time, error and memory."""
    from grpo_doctor.engine.logits import logit_statistics

    print("| shape | type | read | naive | ours | entropy off by | extra memory |")
    print("|---|---|---|---|---|---|---|")
    for rows, width in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            x = (3 * torch.randn(rows, width, device=DEVICE)).to(dtype)
            found = medians(
                {"read": lambda x=x: x.sum(), "naive": lambda x=x: naive(x), "ours": lambda x=x: logit_statistics(x)}
            )
            exact = x[:32].double().log_softmax(-1)
            off = float((logit_statistics(x[:32]).entropy + (exact.exp() * exact).sum(-1)).abs().max())
            times = " | ".join(f"{found[name] / found['read']:.1f}x" for name in ("naive", "ours"))
            name = str(dtype).removeprefix("torch.")
            print(f"| {rows}x{width} | {name} | {1e3 * found['read']:.2f} ms | {times} | {off:.0e} | {extra(x)} |")


def extra(x: torch.Tensor) -> str:
    """Return the peak memory of the statistics in addition to the tensor, as a share of it."""
    from grpo_doctor.engine.logits import logit_statistics

    if not CUDA:
        return "not measured"
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    logit_statistics(x)
    return f"{(torch.cuda.max_memory_allocated() - before) / (x.numel() * x.element_size()):.1%}"


def attach() -> None:
    """Return the share of grpo-doctor in a step of TRL's trainer."""
    clock, weights = measured(30 if CUDA else 3, CUDA, now)
    whole, own = (statistics.median(column) * 1e3 for column in zip(*clock.steps, strict=True))
    shares = sorted(own / (whole - own) for whole, own in clock.steps)
    print(f"{weights / 1e6:.1f} million weights, {len(shares)} steps of {whole:.0f} ms, of it the doctor {own:.1f} ms:")
    print(f"{statistics.median(shares):.2%} over the training alone, single steps {shares[0]:.2%} to {shares[-1]:.2%}")


def probes() -> None:
    """Compare the results and the time of the probes on the embedded engine, on this device and on the CPU."""
    from grpo_doctor.probes import run_probes

    told = {}
    for device in dict.fromkeys(("cpu", DEVICE)):
        adapter, began = embedded(device), now()
        diagnosis = run_probes(adapter, time_limit=600)
        told[device] = (
            diagnosis.verdict,
            sorted(f.code for f in diagnosis.findings),
            sorted(diagnosis.coverage.passed_codes),
        )
        print(f"{device}: {diagnosis.verdict}, {len(told[device][2])} properties hold, {now() - began:.1f} s")
    if CUDA:
        print("the same on both" if told["cpu"] == told[DEVICE] else f"OTHERWISE: {told}")


def main(names: list[str]) -> None:
    """Measure the named parts, or all parts if none is named."""
    torch.set_num_threads(1)
    print(
        torch.cuda.get_device_name()
        if CUDA
        else f"No GPU was there: a trial on {platform.processor() or platform.machine()}."
    )
    print(f"torch {torch.__version__}, {'wall time, synchronised' if CUDA else 'CPU time'}")
    for name in names or ["logits", "attach", "probes"]:
        print(f"\n## {name}\n")
        {"logits": logits, "attach": attach, "probes": probes}[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
