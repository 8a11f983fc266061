from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.record import Event
from grpo_doctor.series import Column, row, seen, words


@check(
    "END003",
    kind="risk",
    severity="warning",
    confidence="high",
    run_types=("rl", "supervised", "preference"),
    rivals=(
        Rival(
            "one rank has crashed",
            "the others wait for it until the time-out",
            "the first error of any rank, above the time-out",
        ),
        Rival(
            "ranks have different work",
            "one has no sample left, or takes a branch that the others do not",
            "the number of micro-batches of each rank at that step",
        ),
        Rival(
            "the network or a GPU has failed",
            "links flap, Xid errors",
            "dmesg, nvidia-smi -q and the NCCL log of that node",
        ),
    ),
    remedies=(
        remedy(
            "find-the-rank-that-waits",
            "Find the rank that is not in the collective, and give all ranks the same number of steps",
            by_hand="TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 NCCL_DEBUG=WARN; py-spy dump "
            "--pid PID on every rank",
            trl="ddp_timeout=7200 only where generation alone takes longer than 30 minutes",
            evidence="the flight recorder lists, for each rank, the last collective that it entered",
            source="PyTorch, flight recorder tutorial",
        ),
    ),
)
def hung_in_a_collective(step: Column, events: Column, *, rows: int = 8) -> Fires:
    """The run hung: a collective operation timed out.

    ## What it sees
    The last lines of the log, after the last row of metrics: the watchdog of NCCL, or of another backend, reports a
    collective operation that timed out.

    ## Thresholds
    - `rows`: rows of metrics below which the end is an info: the run ended before its training could be judged.

    ## Why it matters
    The run is incomplete, and it waited for the whole time-out before it ended: every GPU was idle meanwhile.

    ## Known false alarms
    A long evaluation or checkpoint on one rank while the others wait.

    ## Remedy
    Read the first error of any rank: the time-out of the others follows from it. Give all ranks the same number of
    micro-batches.

    ## Sources
    PyTorch, `Watchdog caught collective operation timeout`.
    """
    ended = seen(events, "end", "a hang of a collective") > 0
    return fires(
        ended & (row(step) >= rows),
        "The run hung after step {step:.0f}: {what}.",
        info=ended,
        hold=(1, 1),
        step=step,
        what=words(_what, events),
    )


def _what(events: list[Event]) -> str:
    return next(event.message for event in events if event.kind == "end").rstrip(".")
