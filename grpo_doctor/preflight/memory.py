"""Estimates the memory that training needs per device from the model's name, the adapter and the micro-batch size. The
table states the assumptions."""

from __future__ import annotations

from ..run import Table
from .configuration import Configuration
from .model_size import billions

WEIGHT = 2
"""Bytes per weight in bfloat16."""
TRAINED = 14
"""Additional bytes per trained weight: the gradient in bfloat16, and a copy of the weight and Adam's two moments in
float32."""
VOCABULARY = 152_000
"""The assumed vocabulary size, which is the vocabulary size of Qwen2.5 and Qwen3."""
LOGIT = 4
"""Bytes per logit in float32."""
GIB = 2.0**30


def memory(found: Configuration) -> Table | None:
    """Return a table of the components that determine whether training fits in memory; None if the model's name does
    not contain its size."""
    size = billions(found.settings.get("model")) * 1e9
    if size != size:
        return None
    lora = bool(found.settings.get("use_peft"))
    known = "use_peft" in found.settings
    train = "adapter only" if lora else "all weights" + ("" if known else ", because no adapter is declared")
    rows = [
        ["weights", _gib(size * WEIGHT), f"{size / 1e9:g} billion in bfloat16, from the model's name"],
        ["gradients and optimizer", _gib(0.0 if lora else size * TRAINED), f"{train}; gradients, float32 copy, Adam"],
    ]
    if not lora and (found.number("kl_coef") or 0) > 0:
        rows.append(
            ["reference", _gib(size * WEIGHT), "a frozen copy in bfloat16, because the KL coefficient is above 0"]
        )
    batch = found.number("per_device_train_batch_size") or found.number("micro_responses")
    if batch and (length := found.number("max_new_tokens")):
        logits = batch * length * VOCABULARY * LOGIT
        said = f"{batch:g} responses x {length:g} tokens x {VOCABULARY:,} vocabulary entries in float32"
        rows.append(["logits of a micro-batch", _gib(logits), f"{said}; less with chunked or fused losses"])
    if (share := found.number("gpu_share")) is not None and share <= 1:
        rows.append(["engine", f"{share:.0%}", "of the device's memory, if it shares the device"])
    rows.append(
        [
            "not counted",
            "",
            "activations and fragmentation; ZeRO-3 and FSDP divide the first rows by the number of GPUs",
        ]
    )
    return Table(title="Memory, an estimate (GiB)", head=["what", "GiB", "assumed"], rows=rows)


def _gib(size: float) -> str:
    return f"{size / GIB:,.1f}"
