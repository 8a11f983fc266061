"""Defines the entry points of a GRPO trainer: common names for the functions of the project's engine, its faults, the
probes and users' adapters.

An entry point is one function of the trainer. Fine-grained entry points are individual parts of the trainer. A trainer
that renders, samples and extracts in one function has the composite entry point `rollout` instead. A trainer that
computes the mask, the log-probabilities and the loss in one function has `loss`. An adapter provides as many entry
points as possible; probes whose entry points are missing are skipped.

Dimensions: N samples, G groups of K, P width of the padded prompts, R width of the responses, T width of
both, V vocabulary. A *prompt* is an item of the trainer's own data (a string, or a list of chat messages). Ids are
lists of int without padding, unless described as a tensor. Tensors are torch tensors on the model's device.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Ids: TypeAlias = list[int]
Prompt: TypeAlias = "str | list[dict[str, str]]"


class Batch(NamedTuple):
    """The batch on which the loss is computed. A tuple of the three fields, or a mapping with their names, is also
    accepted."""

    input_ids: Tensor
    """(N, T) int64: prompt and response, padded on the left or right."""
    attention_mask: Tensor
    """(N, T): 1 for real tokens, 0 for padding."""
    mask: Tensor
    """1 for trained response tokens, as bool, int or float. A mask (N, T) marks the tokens themselves, (N, T-1) the
    positions that predict them (one to the left), and (N, R) the last R tokens."""


class Seams(Protocol):
    """All entry points, as plain functions. The entry points are written as methods only for documentation: adapters
    contain functions."""

    # fine ------------------------------------------------------------------------------------------------------

    def render(self, prompt: Prompt, /) -> Ids:
        """Return the ids of a prompt as rendered in RL, including the generation header."""

    def render_sft(self, prompt: Prompt, answer: str, /) -> Ids:
        """Return the ids of a supervised example: prompt, answer and end of turn."""

    def collate_sft(self, prompts: Sequence[Prompt], answers: Sequence[str], /) -> tuple[Tensor, Tensor]:
        """Return a batch of supervised examples: input_ids (N, T), and labels (N, T) with -100 for untrained tokens."""

    def sample(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor | tuple[Tensor, Tensor]:
        """Generate as in training, with the trainer's settings and processors, in the model's current mode.

        Takes prompts (N, P) and their attention mask (N, P). Returns tokens (N, P + R), including the prompt, and, if
        available, the log-probabilities (N, R) of the sampled tokens (after processors).
        """

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor, /) -> Sequence[Ids] | Tensor:
        """Return the responses from the output of `sample` (N, P + R) and its inputs (N, P), (N, P).

        The result contains the ids of each response without padding, including EOS. A padded result (N, R) is accepted
        too.
        """

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids], /) -> Batch:
        """Pad prompts and responses to the batch of the loss, with the mask of trained tokens.

        The last id of a complete response is EOS; a truncated response has no EOS.
        """

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor:
        """Return the policy's log-probabilities as used in the loss, including temperature, with gradient.

        Maps ids (N, T) and their attention mask (N, T) to (N, T-1): entry t is the log-probability of token t+1. An
        output of (N, R) refers to the last R tokens.
        """

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor:
        """Return the log-probabilities of `logprobs` under the reference policy."""

    def old_logprobs(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor:
        """Return the log-probabilities from rollout time, for the denominator of the ratio."""

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int, /) -> Tensor:
        """Apply penalties and other logits processors at one step of generation.

        Takes the tokens so far (N, T), of which the first ``prompt_length`` are the padded prompt, and logits (N, V);
        returns logits (N, V). The arguments must not be changed.
        """

    def advantages(self, rewards: Tensor, /) -> Tensor:
        """Return advantages (G, K) for rewards (G, K), one row per group."""

    def objective(
        self,
        logprobs: Tensor,
        old_logprobs: Tensor,
        reference_logprobs: Tensor,
        advantages: Tensor,
        mask: Tensor,
        entropy: Tensor,
        /,
    ) -> Tensor:
        """Return the scalar to minimise, from (N, T-1) tensors (entropy in nats per position) and advantages (N,)."""

    def sync(self) -> None:
        """Make the next rollout use the new weights, as the trainer does after an update."""

    def env_mask(self, prompts: Sequence[Prompt], /) -> Sequence[tuple[Ids, Sequence[int]]]:
        """Run a multi-turn rollout. Return, for each prompt, the ids after the prompt and a mask. The mask is 1 for ids
        that the policy generated, and 0 for ids of a tool, the environment or the template.

        Probes call the function with a scripted model, like `rollout`.
        """

    def tool_mask(self, prompts: Sequence[Prompt], /) -> Sequence[tuple[Ids, Sequence[int]]]:
        """Return the result of `env_mask`, under another common name."""

    def reward(self, prompts: Sequence[Prompt], responses: Sequence[str], answers: Sequence[Any], /) -> Any:
        """Return the rewards (N,) of response texts, given their prompts and gold answers, with None for omitted
        responses.

        Probes call the function with the prompts and answers of `graded`. A function in TRL's form, ``reward(prompts,
        completions, <gold>, **kwargs)``, can be used unchanged.
        """

    # composite -------------------------------------------------------------------------------------------------

    def rollout(self, prompts: Sequence[Prompt], /) -> Sequence[Ids] | Sequence[str] | Tensor:
        """Render, sample and extract: return one response per prompt in the form that the reward function receives, as
        ids or text.

        Probes call the function with a scripted model, whose ``model.generate`` returns tokens that the probe selects.
        """

    def loss(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor, /) -> Tensor:
        """Return the trainer's whole loss on these samples, with advantages (N,), as the scalar that it logs."""

    def backward(
        self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor, /, micro_batches: int = 1
    ) -> Any:
        """Add the gradient that the optimizer uses to ``p.grad``, including accumulation and gradient surgery, but
        without clipping or an optimizer step. ``micro_batches`` is the number of equal parts into which the samples are
        split, if the trainer accumulates.
        """

    def step(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor, /) -> Any:
        """Run one whole update, including the backward pass, clipping, the optimizer step and mode changes."""

    def update(self, prompts: Sequence[Prompt], verify: Callable[[Prompt, Any], float], /) -> Any:
        """Run one whole step of the loop: sample groups for these prompts, score them, and update.

        The reward of a response (ids or text) is ``verify(prompt, response)``, which replaces the trainer's own reward
        function.
        """


SEAMS = tuple(name for name in vars(Seams) if not name.startswith("_"))
"""Names of all entry points."""


class Unjudged(Exception):  # noqa: N818  (not an error: a probe's way to say why it cannot tell)
    """Raised by a probe that cannot decide whether the trainer has the tested property; the message names what is
    missing."""


class NotApplicable(Unjudged):
    """Raised if the trainer has no part that the probe tests, or if the adapter does not provide it."""


class NotFinite(Unjudged):
    """Raised if the gradient of a loss is NaN or infinite."""


class WrongShape(Unjudged):
    """Raised if an entry point returned a wrong type or shape. The message continues a sentence that begins with the
    name of the entry point."""


class NotObserved(Unjudged):
    """Raised if an entry point does not appear to use the adapter's model."""


class AdapterError(ValueError):
    """An unusable adapter; the message names the file and the fix."""


@dataclass(kw_only=True)
class Adapter:
    """A trainer's entry points, and the objects that they use.

    Everything is optional. ``model`` is the module that the entry points call, so that a probe can record or script its
    ``forward`` and ``generate``. ``processors`` are logits processors by name. ``settings`` have the names of the
    record (temperature, entropy_coef, kl_coef, …). ``supervised`` are pairs of prompt and answer. ``graded`` are inputs
    of the reward: a prompt, its gold answer, a correct response and a wrong response, as the policy writes them.
    ``turns`` are answers of the policy, in order, to which the environment replies (a tool call, then a final answer).
    """

    name: str = "adapter"
    model: torch.nn.Module | None = None
    tokenizer: Any = None
    reference: torch.nn.Module | None = None
    base: torch.nn.Module | None = None
    optimizer: torch.optim.Optimizer | None = None
    processors: Mapping[str, Callable[[Tensor, Tensor], Tensor]] | None = None
    prompts: Sequence[Prompt] | None = None
    supervised: Sequence[tuple[Prompt, str]] | None = None
    graded: Sequence[tuple[Prompt, Any, str, str]] | None = None
    turns: Sequence[str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seams: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, function in self.seams.items():
            if name not in SEAMS:
                near = difflib.get_close_matches(name, SEAMS, 1)
                raise AdapterError(
                    f"{self.name}: unknown entry point {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
                )
            if not callable(function):
                raise AdapterError(f"{self.name}: entry point {name!r} is {type(function).__name__}, not a function")
        for name, needed in _NEEDED.items():
            held = getattr(self, name)
            if held is not None and (isinstance(held, str | type) or not hasattr(held, needed)):
                raise AdapterError(f"{self.name}: {name} is {type(held).__name__}, which has no {needed}")
            if held is not None and needed == "__getitem__":
                try:
                    setattr(self, name, list(held))  # table columns and tensors have no truth value
                except TypeError:
                    raise AdapterError(f"{self.name}: {name} is {type(held).__name__}, not a sequence") from None
        if not isinstance(self.settings, MutableMapping):  # None, or a view: a probe's changes are undone in place
            self.settings = dict(self.settings or {})


_NEEDED = {
    **dict.fromkeys(("model", "reference", "base"), "modules"),
    "optimizer": "param_groups",
    **dict.fromkeys(("processors", "settings"), "items"),
    **dict.fromkeys(("prompts", "supervised", "graded", "turns"), "__getitem__"),
}
"""Attributes that an adapter's objects must have, because scripts also use the names of objects for unrelated
variables."""
RESOURCES = tuple(name for name in Adapter.__dataclass_fields__ if name not in ("name", "seams"))
"""Names of the objects that an adapter may contain in addition to its entry points."""


def load_adapter(path: Path) -> Adapter:
    """Execute a user's adapter file and return its ``adapter`` (an `Adapter`, or a function that returns one). Without
    an ``adapter``, build one from every top-level function named like an entry point and every object named like a
    field of `Adapter`.

    Raises `AdapterError` if the file does not exist or defines no such function or object; exceptions raised by the
    file propagate.
    """
    if not path.is_file():
        raise AdapterError(f"{path}: no such file; `grpo-doctor probe --init {path}` writes one to fill in")
    spec = importlib.util.spec_from_file_location(f"grpo_doctor_adapter_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise AdapterError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))  # the adapter's own folder comes first, as with `python adapter.py`
    spec.loader.exec_module(module)
    made = getattr(module, "adapter", None)
    made = made() if callable(made) and not isinstance(made, Adapter) else made
    if made is not None:
        if not isinstance(made, Adapter):
            raise AdapterError(f"{path}: adapter is {type(made).__name__}, not grpo_doctor.probes.Adapter")
        return made
    found = {name: value for name, value in vars(module).items() if name in RESOURCES and value is not None}
    called = {name: value for name, value in vars(module).items() if name in SEAMS and callable(value)}
    # a loss that is a module has other arguments than an entry point: the adapter's functions call it
    seams = {name: value for name, value in called.items() if not hasattr(value, "named_parameters")}
    if not seams and "model" not in found and "tokenizer" not in found:
        raise AdapterError(f"{path}: defines no entry point, model or tokenizer; entry points are {', '.join(SEAMS)}")
    return Adapter(name=str(path), seams=seams, **found)
