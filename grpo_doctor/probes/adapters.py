"""Ready-made adapters: for a plain transformers model, and for TRL's GRPOTrainer."""

from __future__ import annotations

import copy
import difflib
import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .crafted_inputs import flat_ids, pad_left, pad_right, special_ids
from .entry_points import SEAMS, Adapter, AdapterError, Batch, Ids, Prompt
from .generations import scripted_generate
from .intercept import replaced

if TYPE_CHECKING:
    from ..engine.engine import Engine


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def _rendering(tokenizer: Any) -> dict[str, Callable[..., Any]]:
    """Return the entry points that a tokenizer with a chat template provides."""
    if not getattr(tokenizer, "chat_template", None):
        raise AdapterError("the tokenizer has no chat template; provide render in your own adapter file")

    def render(prompt: Prompt) -> Ids:
        ids = tokenizer.apply_chat_template(_messages(prompt), tokenize=True, add_generation_prompt=True)
        return flat_ids(ids)

    def render_sft(prompt: Prompt, answer: str) -> Ids:
        turns = [*_messages(prompt), {"role": "assistant", "content": answer}]
        return flat_ids(tokenizer.apply_chat_template(turns, tokenize=True))

    return {"render": render, "render_sft": render_sft}


def transformers_adapter(
    model: torch.nn.Module,
    tokenizer: Any,
    *,
    reference: torch.nn.Module | None = None,
    base: torch.nn.Module | None = None,
    settings: Mapping[str, Any] | None = None,
    prompts: Sequence[Prompt] | None = None,
    supervised: Sequence[tuple[Prompt, str]] | None = None,
    **generation: Any,
) -> Adapter:
    """Return an adapter for a causal language model from transformers: its template, generation and log-probabilities.

    With this adapter, probes test whether the model and tokenizer are suitable for RL (special tokens, padding,
    generation mode, temperature). The adapter does not cover the trainer's code. To test the extraction, the mask, the
    advantages and the loss, write your own adapter file.
    """
    temperature = float(generation.get("temperature", 1.0))
    generation = {"do_sample": True, "max_new_tokens": 32, "top_k": 0, **generation}
    pad = special_ids(tokenizer).pad

    def sample(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "pad_token_id": pad}
        generate: Any = model.generate
        out: Tensor = generate(**given, **generation)
        return out

    def scored(scorer: torch.nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        def logprobs(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            position = (attention_mask.cumsum(-1) - 1).clamp(min=0)
            found = scorer(input_ids=input_ids, attention_mask=attention_mask, position_ids=position)
            table = (found.logits[:, :-1].float() / temperature).log_softmax(-1)
            out: Tensor = table.gather(-1, input_ids[:, 1:, None]).squeeze(-1)
            return out

        return logprobs

    def mask(rows: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        whole = [[*p, *r] for p, r in zip(rows, responses, strict=True)]
        ids, real = pad_left(whole, pad, next(model.parameters()).device)
        lengths = torch.tensor([[len(r)] for r in responses], device=ids.device)
        return Batch(ids, real, torch.arange(ids.shape[1], device=ids.device)[None] >= ids.shape[1] - lengths)

    seams: dict[str, Callable[..., Any]] = {
        **_rendering(tokenizer),
        "sample": sample,
        "logprobs": scored(model),
        "mask": mask,
    }
    if reference is not None:
        seams["reference_logprobs"] = scored(reference)
    return Adapter(
        name=f"transformers {getattr(model, 'name_or_path', '') or type(model).__name__}",
        model=model, tokenizer=tokenizer, reference=reference, base=base, prompts=prompts, supervised=supervised,
        settings={"temperature": temperature, **(settings or {})}, seams=seams,
    )  # fmt: skip


def engine_adapter(engine: Engine, prompts: Sequence[Prompt]) -> Adapter:
    """Return an adapter for the project's own engine, whose methods are the entry points. Probing changes the engine's
    counters, so pass a fresh engine."""
    settings = engine.settings
    seams = {name: getattr(engine, name) for name in SEAMS if hasattr(engine, name) and name != "reward"}
    if engine.tools is not None:  # probes of the sampler expect the policy to write the whole response
        engine.next_logits = engine.penalize  # type: ignore[method-assign]
    graded = _graded(engine)
    if graded is not None:
        seams["reward"] = _reward_of(engine)
    return Adapter(
        name="grpo-doctor engine",
        model=engine.model,
        tokenizer=engine.tokenizer,
        reference=None if engine.adapted else engine.base,
        optimizer=engine.optimizer,
        prompts=prompts,
        settings={
            "temperature": settings.temperature,
            "entropy_coef": settings.entropy_coef,
            "kl_coef": settings.beta,
            "group_size": settings.num_generations,
            "epsilon": settings.epsilon,
            "epsilon_high": settings.epsilon_high,
        },
        graded=graded,
        seams=seams,
    )


def _graded(engine: Engine) -> list[tuple[Prompt, str, str, str]] | None:
    """Return graded responses of the embedded task, or None for a user's task."""
    graded = getattr(engine.task, "graded", None)
    return None if graded is None else [(example.dialogue, *rest) for example, *rest in graded()]


def _reward_of(engine: Engine) -> Callable[..., list[float]]:
    """Return the engine's reward function in the form that probes call: it takes prompts instead of examples."""
    examples = {str(example.dialogue): example for example in engine.task.examples}

    def reward(prompts: Sequence[Prompt], responses: Sequence[str], answers: Sequence[Any]) -> list[float]:
        asked = [examples[str(prompt)] for prompt in prompts]
        return [score.reward for score in engine.reward(asked, responses, [True] * len(responses))]

    return reward


def trl_adapter(trainer: Any, *, prompts: Sequence[Prompt] | None = None) -> Adapter:
    """Return an adapter for a TRL GRPOTrainer (1.x): its generation, batch, advantages, loss and backward pass.

    The entry points call the trainer's own functions (`_generate_and_score_completions`, `compute_loss`), and restore
    the trainer's logging buffers and counters after each call.
    """
    return _Trl(trainer, prompts).adapter()


def trl_adapter_from(config: Path, model: str, *, device: str = "cpu") -> Adapter:
    """Return the adapter of `trl_adapter`, built from a JSON or YAML file of GRPOConfig arguments and a model path or
    hub id."""
    import json

    trl: Any = import_module("trl")
    text = config.read_text(encoding="utf-8")
    reads = import_module("yaml").safe_load if config.suffix in (".yaml", ".yml") else json.loads
    values = reads(text)
    if not isinstance(values, dict):
        raise AdapterError(f"{config}: not a table of GRPOConfig arguments")
    of_model = _arguments(values, trl.ModelConfig, trl.GRPOConfig)
    _refuse_unknown(config, values, trl.GRPOConfig, trl.ModelConfig, trl.ScriptArguments)
    values = _arguments(values, trl.GRPOConfig)
    folder = tempfile.TemporaryDirectory(prefix="grpo-doctor-")  # nothing is trained, so nothing is saved
    values |= {"use_vllm": False, "report_to": "none", "use_cpu": device == "cpu", "push_to_hub": False}
    values |= {"output_dir": folder.name}
    tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(model)
    data = import_module("datasets").Dataset.from_dict(
        {"prompt": [[{"role": "user", "content": "What is 7 plus 5?"}]] * 8}
    )
    trainer = trl.GRPOTrainer(
        model, reward_funcs=_zero, args=trl.GRPOConfig(**values), train_dataset=data, processing_class=tokenizer,
        peft_config=trl.get_peft_config(trl.ModelConfig(**of_model)),
    )  # fmt: skip
    trainer.grpo_doctor_folder = folder  # deleted together with the trainer
    return trl_adapter(trainer)


def _arguments(values: Mapping[str, Any], kind: Any, *but: Any) -> dict[str, Any]:
    """Return the values of arguments that are fields of this dataclass and not of the other."""
    taken = {name for other in but for name in other.__dataclass_fields__}
    return {k: v for k, v in values.items() if k in kind.__dataclass_fields__ and k not in taken}


def _refuse_unknown(config: Path, values: Mapping[str, Any], *kinds: Any) -> None:
    known = [name for kind in kinds for name in kind.__dataclass_fields__]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"; {near[0]!r}?" if near else ""
            raise AdapterError(f"{config}: this version of TRL has no argument {name!r}{hint}")


def _zero(completions: Any, **kwargs: Any) -> list[float]:
    return [0.0] * len(completions)


_TRL_STATE = ("_step", "_buffered_inputs", "_metrics", "_logs", "num_generations")


class _Trl:
    """A GRPOTrainer's functions as entry points, which call the trainer's own `_generate` and
    `_generate_and_score_completions`."""

    def __init__(self, trainer: Any, prompts: Sequence[Prompt] | None) -> None:
        self.trainer, self.prompts = trainer, prompts
        self.model, self.tokenizer = trainer.model, trainer.processing_class
        self.pad = special_ids(self.tokenizer).pad

    def adapter(self) -> Adapter:
        """Return the adapter."""
        args, reference = self.trainer.args, getattr(self.trainer, "ref_model", None)
        optimizer = self.trainer.optimizer
        if optimizer is None:
            optimizer = self.trainer.create_optimizer()
            self.trainer.optimizer = None
        seams: dict[str, Callable[..., Any]] = {
            "render": self.render, "sample": self.sample, "extract": self.extract,
            "advantages": self.advantages, "loss": self.loss,
        }  # fmt: skip
        if not self._own_loss():  # otherwise, the mask and the log-probabilities are derived from the loss
            seams |= {"mask": self.mask, "logprobs": self.logprobs_of(self.model)}
            if reference is not None:
                seams["reference_logprobs"] = self.logprobs_of(reference)
            if not getattr(args, "use_liger_kernel", False):  # fuses the log-probabilities into the loss
                seams["objective"] = self.objective
        settings = {
            "temperature": float(args.temperature), "group_size": args.num_generations, "kl_coef": float(args.beta),
            "entropy_coef": float(getattr(args, "entropy_coef", 0.0) or 0.0), "top_p": args.top_p,
            "epsilon": args.epsilon, "epsilon_high": args.epsilon_high,
        }  # fmt: skip
        return Adapter(
            name="trl.GRPOTrainer", model=self.model, tokenizer=self.tokenizer, reference=reference,
            optimizer=optimizer, prompts=self.prompts, settings=settings, seams=seams,
        )  # fmt: skip

    def _own_loss(self) -> bool:
        """Return whether a subclass overrides the loss."""
        methods = (getattr(self.trainer, name, None) for name in ("compute_loss", "_compute_loss"))
        return any(m is not None and not m.__module__.startswith("trl.trainer.") for m in methods)

    @contextmanager
    def _untouched(self) -> Iterator[None]:
        """Restore the trainer's logs and counters after the block."""
        kept = {n: copy.deepcopy(getattr(self.trainer, n)) for n in _TRL_STATE if hasattr(self.trainer, n)}
        state = copy.copy(vars(self.trainer.state))
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(self.trainer, name, value)
            vars(self.trainer.state).update(state)

    def _tokenized(self, rows: Sequence[Ids]) -> Any:
        """Make the trainer use these ids as its rendered prompts inside the block."""
        return replaced(self.trainer, "_tokenize_prompts", lambda prompts: (list(map(list, rows)), None, {}))

    def _rollout_of(
        self, rows: Sequence[Ids] | None, responses: Sequence[Ids], prompts: Sequence[Prompt] = (), *, raw: bool = False
    ) -> dict[str, Any]:
        """Run the trainer on these responses, with the rows repeated until they fill whole groups.

        With ``raw``, responses are padded, in the form that ``generate`` returns. Without ``raw``, responses have the
        form in which the trainer extracts them.
        """
        trainer = self.trainer
        count = len(rows) if rows is not None else len(prompts)
        size = trainer.num_generations if self.model.training else trainer.num_generations_eval
        filled = [n % count for n in range(-(-count // size) * size)]
        texts = [{"prompt": _messages(prompts[n]) if prompts else "x"} for n in filled]
        given = self._tokenized([rows[n] for n in filled]) if rows is not None else nullcontext()
        answers = [list(responses[n]) for n in filled]
        scripted = (
            scripted_generate(self.model, answers, self.pad)
            if raw
            else replaced(trainer, "_generate_single_turn", lambda *_, **__: (answers, None))
        )
        rewarded: list[Ids] = []
        rewards = self._rewards(filled, rewarded)
        with self._untouched(), scripted, given, replaced(trainer, "_calculate_rewards", rewards):
            found: dict[str, Any] = trainer._generate_and_score_completions(texts)
        found["rewarded"] = rewarded
        return {k: v[:count] if isinstance(v, Tensor) and v.ndim else v for k, v in found.items()}

    def _rewards(self, filled: Sequence[int], rewarded: list[Ids]) -> Callable[..., Tensor]:
        shape = (len(filled), len(self.trainer.reward_funcs))

        def rewards(inputs: Any, prompts: Any, completions: Any, completion_ids: Any) -> Tensor:
            rewarded.extend([int(i) for i in ids] for ids in completion_ids)
            return torch.zeros(shape, device=self.trainer.accelerator.device)

        return rewards

    def render(self, prompt: Prompt) -> Ids:
        """Return the trainer's own rendering."""
        found = self._rollout_of(None, [[self.pad]], [prompt])
        return [int(i) for i in found["prompt_ids"][0][found["prompt_mask"][0] > 0]]

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Call `GRPOTrainer._generate` in the mode that the trainer uses for generation."""
        rows = [r[m > 0].tolist() for r, m in zip(input_ids, attention_mask, strict=True)]
        with self._untouched(), self._tokenized(rows):
            found = self.trainer._generate(["x"] * len(rows))
        return torch.cat([input_ids, pad_right([list(r) for r in found[1]], self.pad, input_ids.device)], 1)

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> list[Ids]:
        """Return the responses that the trainer's reward functions receive when ``generate`` returns these tokens."""
        rows = [r[m > 0].tolist() for r, m in zip(input_ids, attention_mask, strict=True)]
        found = self._rollout_of(rows, tokens[:, input_ids.shape[1] :].tolist(), raw=True)
        rewarded: list[Ids] = found["rewarded"]
        return rewarded[: len(rows)]

    def mask(self, rows: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        """Return the batch in the form that the trainer's loss receives."""
        found = self._rollout_of(rows, responses)
        ids = torch.cat([found["prompt_ids"], found["completion_ids"]], 1)
        real = torch.cat([found["prompt_mask"], found["completion_mask"]], 1)
        return Batch(ids, real, found["completion_mask"])

    def logprobs_of(self, model: torch.nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the trainer's per-token log-probabilities under one of its models."""

        def logprobs(input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            found = self.trainer._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, input_ids.shape[1] - 1
            )
            out: Tensor = found[0]
            return out

        return logprobs

    def advantages(self, rewards: Tensor) -> Tensor:
        """Return the trainer's advantages for these rewards, as if the first reward function had returned them."""
        groups, size = rewards.shape
        count, device = groups * size, self.trainer.accelerator.device
        table = torch.full((count, len(self.trainer.reward_funcs)), torch.nan, device=device)
        table[:, 0] = rewards.flatten().to(table)
        scripted = scripted_generate(self.model, [[self.pad]], self.pad)
        given = self._tokenized([[self.pad, self.pad]] * count)
        self.model.train()
        with self._untouched(), scripted, given, replaced(self.trainer, "_calculate_rewards", lambda *_: table):
            self.trainer.num_generations = size
            found = self.trainer._generate_and_score_completions([{"prompt": "x"}] * count)
        out: Tensor = found["advantages"].reshape(groups, size)
        return out

    def loss(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> Tensor:
        """Call `GRPOTrainer.compute_loss` in train mode, on the trainer's batch of these responses."""
        self.model.train()
        inputs = self._rollout_of(None, responses, prompts)
        inputs |= {"advantages": advantages, "num_items_in_batch": inputs["completion_mask"].sum()}
        with self._untouched(), replaced(self.trainer, "current_gradient_accumulation_steps", 1):
            out: Tensor = self.trainer.compute_loss(self.model, inputs)
        return out

    def objective(
        self, logprobs: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        """Call `GRPOTrainer.compute_loss` on these log-probabilities instead of the model's."""
        scoring = self.trainer._get_per_token_logps_and_entropies
        extra = (None,) if "compute_aux_loss" in inspect.signature(scoring).parameters else ()
        ids = torch.full(logprobs.shape, self.pad, device=logprobs.device)
        inputs = {
            "prompt_ids": ids[:, :1], "prompt_mask": torch.ones_like(ids[:, :1]), "completion_ids": ids,
            "completion_mask": mask.long(), "advantages": advantages, "old_per_token_logps": old,
            "ref_per_token_logps": reference, "num_items_in_batch": mask.sum(),
        }  # fmt: skip
        given = replaced(self.trainer, scoring.__name__, lambda *_, **__: (logprobs, entropy, *extra))
        self.model.train()
        with self._untouched(), given, replaced(self.trainer, "current_gradient_accumulation_steps", 1):
            out: Tensor = self.trainer.compute_loss(self.model, inputs)
        return out
