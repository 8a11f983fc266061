"""Logit statistics, step time, share of records: ``python -m benchmarks.engine [logits|step|records|records-smollm2]``.

Every figure is next to its baseline of the same run: one read of the tensor, the naive formulation and TRL's helpers
for the statistics; TRL's trainer on the same model, task and batch for the step. Times are CPU time of one thread,
medians over rounds that interleave the variants.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SAMPLED = {"record_every": 10, "record_tokens": 256}
SHAPES = ((512, 32_000), (512, 151_936))


def medians(variants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the CPU seconds of each variant, measured alternately, round by round."""
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds + 1):
        for name, function in variants.items():
            began = time.process_time()
            function()
            taken[name].append(time.process_time() - began)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}  # the first round warms up


def naive(logits: Tensor) -> tuple[Tensor, ...]:
    """Softmax, log-softmax and top-k of the whole tensor."""
    probs, logprobs = logits.softmax(-1), logits.log_softmax(-1)
    top = logits.topk(5, -1)
    return -(probs * logprobs).sum(-1), top.values, probs.gather(1, top.indices)


def of_trl(logits: Tensor) -> tuple[Tensor, ...]:
    """Compute TRL's entropy, and the other statistics without it."""
    from trl.trainer.utils import entropy_from_logits

    top = logits.topk(5, -1).values
    return entropy_from_logits(logits), top, (top - logits.logsumexp(-1, keepdim=True)).exp()


def logits() -> None:
    """Measure time and extra memory of the statistics, and the error of the entropy."""
    from grpo_doctor.engine.logits import logit_statistics

    error = "entropy error naive / TRL / ours"
    print(f"| shape | type | read | naive | TRL | ours | ours, 1 of 8 tokens | extra memory | {error} |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rows, width in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            x = (3 * torch.randn(rows, width)).to(dtype)
            eighth = x[::8].contiguous()
            found = medians(
                {
                    "read": lambda x=x: x.sum(),
                    "naive": lambda x=x: naive(x),
                    "trl": lambda x=x: of_trl(x),
                    "ours": lambda x=x: logit_statistics(x),
                    "eighth": lambda x=eighth: logit_statistics(x),
                },
                7,
            )
            extra = extra_memory(lambda x=x: logit_statistics(x)) / (x.numel() * x.element_size())
            some = x[:64]
            exact = some.double().log_softmax(-1)
            entropy = -(exact.exp() * exact).sum(-1)
            off = [
                float((value.double() - entropy).abs().max())
                for value in (naive(some)[0], of_trl(some)[0], logit_statistics(some).entropy)
            ]
            times = [f"{found[name] / found['read']:.1f}x" for name in ("naive", "trl", "ours", "eighth")]
            name = str(dtype).removeprefix("torch.")
            print(
                f"| {rows}x{width} | {name} | {1e3 * found['read']:.1f} ms | {' | '.join(times)} "
                f"| {extra:.1%} | {' / '.join(f'{e:.0e}' for e in off)} |"
            )


def extra_memory(function: Callable[[], Any]) -> int:
    """Return the largest number of bytes that are allocated at the same time, by torch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        function()
    held = most = 0
    for event in sorted(trace.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def engine_of(**changes: Any) -> Any:
    from grpo_doctor.engine.engine import Engine
    from grpo_doctor.engine.model import load_model
    from grpo_doctor.engine.settings import settings_of
    from grpo_doctor.engine.task import WorkflowTask

    settings = settings_of(changes, "benchmark")
    return Engine(settings, *load_model(settings), WorkflowTask())


def step(steps: int = 30) -> None:
    """Measure the CPU seconds of a step of the engine and of TRL, alternating, on the same model, prompts, batch and
    loss."""
    from grpo_doctor.engine.trainer import Trainer

    variants = {"exact records": {"record_every": 1}, "sampled": SAMPLED, "no statistics": {"record_every": 10**6}}
    own = {name: Trainer(engine_of(max_steps=10**6, beta=0.0, **changes)).step for name, changes in variants.items()}
    times: dict[str, list[float]] = {name: [] for name in own}

    def ours() -> None:
        for name, function in own.items():
            torch.manual_seed(len(times[name]))  # the same responses for each
            began = time.process_time()
            function()
            times[name].append(time.process_time() - began)

    times["TRL"] = trl_steps(steps, ours)
    found = {name: statistics.median(taken[2:]) for name, taken in times.items()}
    print("; ".join(f"{name} {1e3 * value:.0f} ms" for name, value in found.items()))
    print("TRL / own: " + ", ".join(f"{name} {found['TRL'] / found[name]:.2f}" for name in own))


def trl_steps(steps: int, between: Callable[[], None]) -> list[float]:
    """Return the CPU seconds of each step of TRL's trainer; ``between`` is called after each step and does not
    count."""
    import datasets
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from grpo_doctor.engine.task import WorkflowTask
    from grpo_doctor.engine.tiny import embedded

    task, (model, tokenizer) = WorkflowTask(), embedded()
    began, times = [0.0], []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            began[0] = time.process_time()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.process_time() - began[0])
            between()

    def reward(completions: list[Any], place: list[int], **_: Any) -> list[float]:
        texts = [completion[0]["content"] for completion in completions]
        scores = task.score([task.examples[i] for i in place], texts, [True] * len(texts))
        return [score.reward for score in scores]

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, report_to=[], use_cpu=True, max_steps=steps, per_device_train_batch_size=64,
            num_generations=8, max_completion_length=32, beta=0.0, learning_rate=4e-4, lr_scheduler_type="constant",
            loss_type="dapo", logging_steps=10**6, save_strategy="no", gradient_checkpointing=False, bf16=False,
            disable_tqdm=True, temperature=1.0, max_grad_norm=1.0,
        )  # fmt: skip
        rows = [{"prompt": e.dialogue, "place": i} for i, e in enumerate(task.examples)]
        GRPOTrainer(
            model=model, reward_funcs=reward, args=config, train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer, callbacks=[Clock()],
        ).train()  # fmt: skip
    return times


def records(steps: int = 98, **model: Any) -> None:
    """Measure the share of a step that is spent on records and checks, exact and sampled, and its parts."""
    import msgspec

    from grpo_doctor import LiveDoctor
    from grpo_doctor.engine import measure
    from grpo_doctor.engine.trainer import Trainer
    from grpo_doctor.record import encode

    spent: dict[str, float] = {}
    inside: list[str] = []

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            inside.append(name)
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                inside.pop()
                if not inside:  # nested calls count for the outer function
                    spent[name] = spent.get(name, 0.0) + time.process_time() - began

        return call

    for field in [n for n in vars(measure) if n.endswith("_fields") and not n.startswith("_")]:
        setattr(measure, field, timed("fields", getattr(measure, field)))
    torch.autograd.grad = timed("KL term's gradient", torch.autograd.grad)
    for words, changes in (("exact", {}), ("sampled (every 10th step, 256 tokens)", SAMPLED)):
        trainer = Trainer(engine_of(max_steps=10**6, **model, **changes))
        for name, owner in (
            *(("movement", trainer), ("kl_gradient_share", trainer), ("samples", trainer)),
            *(("_scores", trainer.engine),),
        ):
            setattr(owner, name, timed(name.strip("_"), getattr(owner, name)))
        doctor = LiveDoctor(trainer.settings.declared())
        encoded = timed("encode", lambda record, samples: (encode(record), [*map(msgspec.json.encode, samples)]))
        pushed = timed("checks", doctor.push)
        for number in range(steps + 2):
            if number == 2:
                spent.clear()
                began = time.process_time()
            record, samples = trainer.step()
            encoded(record, samples)
            pushed(record, samples)
        whole = time.process_time() - began
        parts = ", ".join(f"{name} {taken / whole:.1%}" for name, taken in sorted(spent.items(), key=lambda x: -x[1]))
        print(f"{words}: {sum(spent.values()) / whole:.1%} of a step on records and checks ({parts})")


def main() -> None:
    """Run the named benchmarks, or the benchmarks of the embedded model if none is named."""
    torch.set_num_threads(1)
    all_of_them: dict[str, Callable[[], None]] = {
        "logits": logits,
        "step": step,
        "records": records,
        "records-smollm2": lambda: records(10, model="smollm2"),
    }
    for name in sys.argv[1:] or ("logits", "step", "records"):
        print(f"\n## {name}\n")
        all_of_them[name]()
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()
