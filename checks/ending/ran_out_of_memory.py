from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.record import Event
from grpo_doctor.series import Column, row, seen, words


@check(
    "END002",
    kind="risk",
    severity="warning",
    confidence="high",
    run_types=("rl", "supervised", "preference"),
    rivals=(
        Rival(
            "responses have grown",
            "the longest response of a batch decides the peak",
            "the largest response length of the last rows",
        ),
        Rival(
            "rollout engine and trainer share the GPU",
            "the engine keeps its KV cache while the trainer updates",
            "gpu_memory_utilization, and whether the engine sleeps during updates",
        ),
        Rival(
            "memory leaks",
            "the peak rises from step to step",
            "the peak memory of each step",
        ),
    ),
    remedies=(
        remedy(
            "lower-peak-memory",
            "Halve the micro-batch, and give the rollout engine less of the GPU",
            trl="per_device_train_batch_size / 2 with gradient_accumulation_steps * 2; "
            "vllm_gpu_memory_utilization=0.3; vllm_enable_sleep_mode=True; max_completion_length / 2",
            verl="actor.ppo_micro_batch_size_per_gpu / 2; rollout.gpu_memory_utilization=0.4; "
            "actor.use_dynamic_bsz=True",
            openrlhf="--train.micro_batch_size / 2; --vllm.gpu_memory_utilization 0.4; --vllm.enable_sleep",
            by_hand="micro_batch / 2, accumulation * 2; model.gradient_checkpointing_enable()",
            evidence="the same batch in two halves has the same gradient and half of the activations",
            source="TRL, docs/source/reducing_memory_usage.md",
        ),
    ),
)
def ran_out_of_memory(step: Column, events: Column, *, rows: int = 8) -> Fires:
    """The run ran out of memory.

    ## What it sees
    The last lines of the log, after the last row of metrics: a GPU out of memory, or a process that the system killed
    because the memory of the machine was used up.

    ## Thresholds
    - `rows`: rows of metrics below which the end is an info: the run ended before its training could be judged.

    ## Why it matters
    The run is incomplete. Where responses grow, the same settings crash again at the same length.

    ## Known false alarms
    An error that was caught and retried, in a log that ends there for another reason.

    ## Remedy
    Halve the micro-batch and double the accumulation. Lower the share of the GPU that the rollout engine holds. Limit
    the response length if it grew.

    ## Sources
    PyTorch, `torch.OutOfMemoryError`; the Linux kernel's `Out of memory: Killed process`.
    """
    ended = (seen(events, "end", "a GPU out of memory") > 0) | (seen(events, "end", "memory of the machine") > 0)
    return fires(
        ended & (row(step) >= rows),
        "The run ran out of memory after step {step:.0f}: {what}.",
        info=ended,
        hold=(1, 1),
        step=step,
        what=words(_what, events),
    )


def _what(events: list[Event]) -> str:
    return next(event.message for event in events if event.kind == "end").rstrip(".")
