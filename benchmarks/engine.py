"""Logit statistics, step time and the share of records: ``python -m benchmarks.engine [logits|step|records]``.

Every figure stands beside its baseline of the same run: one read of the tensor, the naive formulation and TRL's
helpers for the statistics; TRL's trainer on the same model, task and batch for the step. Times are CPU time of one
thread, medians over rounds that interleave the variants.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SHAPES = ((512, 32_000), (512, 151_936))


def medians(variants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """CPU seconds of each variant, measured in turn, round by round."""
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
    """TRL's entropy, and what is left to compute by hand."""
    from trl.trainer.utils import entropy_from_logits

    top = logits.topk(5, -1).values
    return entropy_from_logits(logits), top, (top - logits.logsumexp(-1, keepdim=True)).exp()


def logits() -> None:
    """Time and extra memory of the statistics, and the error of the entropy."""
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
                3,
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
    """Bytes of every allocation that lives at once at most, by torch's profiler."""
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


def step(steps: int = 12) -> None:
    """CPU seconds of a step, ours and TRL's, on the same model, prompts, batch and loss."""
    own = own_steps(steps, beta=0.0, record_every=1)
    bare = own_steps(steps, beta=0.0, record_every=10**6)
    trl = trl_steps(steps)
    print(
        f"own engine, exact records {1e3 * own:.0f} ms; without statistics {1e3 * bare:.0f} ms; TRL {1e3 * trl:.0f} ms"
    )
    print(f"TRL / own: {trl / own:.2f} with exact records, {trl / bare:.2f} without statistics")


def own_steps(steps: int, **changes: Any) -> float:
    from grpo_doctor.engine.trainer import Trainer

    trainer = Trainer(engine_of(max_steps=10**6, **changes))
    times = []
    for _ in range(steps):
        began = time.process_time()
        trainer.step()
        times.append(time.process_time() - began)
    return statistics.median(times[2:])


def trl_steps(steps: int) -> float:
    import datasets
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from grpo_doctor.engine.task import WorkflowTask
    from grpo_doctor.engine.tiny import embedded

    task, (model, tokenizer) = WorkflowTask(), embedded()
    times = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            times.append(time.process_time())

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
    return statistics.median(b - a for a, b in itertools.pairwise(times[2:]))


def records(steps: int = 12) -> None:
    """Share of a step that goes into records and checks, exact and sampled."""
    import msgspec

    from grpo_doctor import LiveDoctor
    from grpo_doctor.engine import engine as engine_module
    from grpo_doctor.engine import measure
    from grpo_doctor.engine.trainer import Trainer
    from grpo_doctor.record import encode

    spent = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[0] += time.process_time() - began

        return call

    for name in [n for n in vars(measure) if n.endswith("_fields") and not n.startswith("_")]:
        setattr(measure, name, timed(getattr(measure, name)))
    engine_module.logit_statistics = timed(engine_module.logit_statistics)
    for words, changes in (
        ("exact", {}),
        ("sampled (every 10th step, 256 tokens)", {"record_every": 10, "record_tokens": 256}),
    ):
        trainer = Trainer(engine_of(max_steps=10**6, **changes))
        trainer.movement = timed(trainer.movement)  # type: ignore[method-assign]
        trainer.kl_gradient_share = timed(trainer.kl_gradient_share)  # type: ignore[method-assign]
        doctor = LiveDoctor(trainer.settings.declared())

        @timed
        def examine(record: Any, samples: Any, doctor: Any = doctor) -> None:
            encode(record)
            [msgspec.json.encode(sample) for sample in samples]
            doctor.push(record, samples)

        examine(*trainer.step())
        spent[0], began = 0.0, time.process_time()
        for _ in range(steps):
            examine(*trainer.step())
        print(f"{words}: {spent[0] / (time.process_time() - began):.1%} of a step on records and checks")


def main() -> None:
    """Runs the benchmarks that are named, or all."""
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ("logits", "step", "records"):
        print(f"\n## {name}\n")
        {"logits": logits, "step": step, "records": records}[name]()
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()
