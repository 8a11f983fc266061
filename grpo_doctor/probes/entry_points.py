"""The seams of a GRPO trainer: one vocabulary for the project's engine, its faults, the probes and users' adapters.

A seam is one plain function of the trainer. The fine seams are its parts; a trainer that renders, samples and
extracts in one function, or folds mask, log-probabilities and loss into another, gives the composite seams
`rollout` and `loss` instead. An adapter provides as many as it can, and a probe whose seam is missing is skipped.

Words: N samples, G groups of K, P the width of the padded prompts, R that of the responses, T of both, V the
vocabulary. A *prompt* is what the trainer's own data holds (a string, or a list of chat messages); ids are lists
of int without padding, unless they are said to be a tensor. Tensors are torch tensors on the model's device.
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
    """What the loss is computed on; a plain tuple of three will do, or a mapping with these names."""

    input_ids: Tensor
    """(N, T) int64: prompt and response, padded on whichever side the trainer pads."""
    attention_mask: Tensor
    """(N, T) 1 on real tokens, 0 on padding."""
    mask: Tensor
    """1 where a response token is trained, of bool, int or float. (N, T) marks the tokens themselves, (N, T-1) the
    positions that predict them (one to the left), (N, R) the last R tokens."""


class Seams(Protocol):
    """Every seam, as a plain function would have it. Methods only to carry the words: adapters hold functions."""

    # fine ------------------------------------------------------------------------------------------------------

    def render(self, prompt: Prompt, /) -> Ids:
        """Ids of a prompt as RL sees it, generation header included."""

    def render_sft(self, prompt: Prompt, answer: str, /) -> Ids:
        """Ids of a supervised example: prompt, answer, and what closes the turn."""

    def collate_sft(self, prompts: Sequence[Prompt], answers: Sequence[str], /) -> tuple[Tensor, Tensor]:
        """A batch of supervised examples: input_ids (N, T) and labels (N, T), -100 where not trained."""

    def sample(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor | tuple[Tensor, Tensor]:
        """Generates as training does, with its settings and processors, in whatever mode the model happens to be.

        From prompts (N, P) and their attention mask (N, P) to tokens (N, P + R), prompt included; with them, where
        the generator has them, the log-probabilities (N, R) under which it drew its tokens (after processors).
        """

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor, /) -> Sequence[Ids] | Tensor:
        """The responses, from what `sample` returned (N, P + R) and what it was given (N, P), (N, P).

        Ids of each response without padding, its EOS included; or (N, R) padded.
        """

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids], /) -> Batch:
        """Pads prompts and responses into the batch that the loss sees, with the mask of what is trained.

        A response that ended by itself carries its EOS as last id; one that was cut at the limit does not.
        """

    def logprobs(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor:
        """The policy's log-probabilities as the loss uses them, temperature included, with gradient.

        From (N, T), (N, T) to (N, T-1): entry t is the log-probability of token t+1. (N, R) means the last R tokens.
        """

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor:
        """The same under the reference policy."""

    def old_logprobs(self, input_ids: Tensor, attention_mask: Tensor, /) -> Tensor:
        """The same as taken at rollout time, for the denominator of the ratio."""

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int, /) -> Tensor:
        """Penalties and other logits processors at one step of generation.

        From tokens so far (N, T), of which the first ``prompt_length`` are the padded prompt, and logits (N, V) to
        logits (N, V). None of the arguments is changed.
        """

    def advantages(self, rewards: Tensor, /) -> Tensor:
        """Advantages (G, K) of rewards (G, K), one row a group."""

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
        """The scalar to minimise, from (N, T-1) tensors (entropy in nats per position) and advantages (N,)."""

    def sync(self) -> None:
        """What the trainer does after an update so that the next rollout uses the new weights."""

    def env_mask(self, prompts: Sequence[Prompt], /) -> Sequence[tuple[Ids, Sequence[int]]]:
        """A rollout in turns: for each prompt the ids after it, and 1 where the policy generated them, 0 where a tool,
        the environment or the template did.

        A probe calls it with a scripted model, as `rollout`.
        """

    def tool_mask(self, prompts: Sequence[Prompt], /) -> Sequence[tuple[Ids, Sequence[int]]]:
        """The same where the trainer calls it so."""

    def reward(self, prompts: Sequence[Prompt], responses: Sequence[str], answers: Sequence[Any], /) -> Any:
        """The rewards (N,) of response texts to prompts with these gold answers; None where one is left out.

        Called with the prompts and answers of `graded`. A function of TRL's form, ``reward(prompts, completions,
        <gold>, **kwargs)``, is taken as it is.
        """

    # composite -------------------------------------------------------------------------------------------------

    def rollout(self, prompts: Sequence[Prompt], /) -> Sequence[Ids] | Sequence[str] | Tensor:
        """Renders, samples and extracts: one response a prompt, as the reward function gets it, ids or text.

        A probe calls it with a scripted model: ``model.generate`` then returns tokens that the probe chose.
        """

    def loss(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor, /) -> Tensor:
        """The trainer's whole loss on these samples, with advantages (N,), as the scalar that it logs."""

    def backward(
        self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor, /, micro_batches: int = 1
    ) -> Any:
        """Leaves in ``p.grad`` what the optimizer would be given: accumulation and gradient surgery included.

        Adds to what is in ``p.grad``; no clipping, no optimizer step. ``micro_batches`` only where the trainer
        accumulates: into how many equal parts the samples are split.
        """

    def step(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor, /) -> Any:
        """One whole update: backward, clipping, optimizer step, and whatever mode changes belong to it."""

    def update(self, prompts: Sequence[Prompt], verify: Callable[[Prompt, Any], float], /) -> Any:
        """One whole step of the loop: samples groups for these prompts, scores them, and updates.

        The reward of a response (ids or text) is ``verify(prompt, response)``, in place of the trainer's own.
        """


SEAMS = tuple(name for name in vars(Seams) if not name.startswith("_"))
"""Names of all seams."""


class Unjudged(Exception):  # noqa: N818  (not an error: a probe's way to say why it cannot tell)
    """Raised by a probe that cannot tell; the message says what would be needed."""


class NotApplicable(Unjudged):
    """Raised where a trainer has nothing that the probe is about, or the adapter names nothing of it."""


class NotFinite(Unjudged):
    """Raised where the gradient of a loss is NaN or infinite."""


class WrongShape(Unjudged):
    """Raised where an entry point returned something else than it should; the message begins behind its name."""


class Unseen(Unjudged):
    """Raised where a seam makes no use of the adapter's model that a probe can see."""


class AdapterError(ValueError):
    """An adapter that cannot be used; the message names the file and the mend."""


@dataclass(kw_only=True)
class Adapter:
    """A trainer as the probes see it: its seams, and the objects that they close over. Everything is optional.

    ``model`` is the module that the seams call, so that a probe can watch or script its ``forward`` and
    ``generate``; ``processors`` are logits processors by name; ``settings`` have the record's names (temperature,
    entropy_coef, kl_coef, …); ``supervised`` are pairs of prompt and answer; ``graded`` are for the reward: a prompt,
    its gold answer, a right response and a wrong one, as the policy writes them. ``turns`` are answers of the policy,
    in order, to which the environment replies (a tool call, then a final answer).
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
                raise AdapterError(f"{self.name}: there is no seam {name!r}" + (f"; {near[0]!r}?" if near else ""))
            if not callable(function):
                raise AdapterError(f"{self.name}: seam {name!r} is {type(function).__name__}, not a function")
        for name, needed in _NEEDED.items():
            held = getattr(self, name)
            if held is not None and (isinstance(held, str | type) or not hasattr(held, needed)):
                raise AdapterError(f"{self.name}: {name} is {type(held).__name__}, which has no {needed}")
            if held is not None and needed == "__getitem__":
                try:
                    setattr(self, name, list(held))  # a column of a table and a tensor have no truth value
                except TypeError:
                    raise AdapterError(f"{self.name}: {name} is {type(held).__name__}, not a sequence") from None
        if not isinstance(self.settings, MutableMapping):  # None, or a view: what a probe changes is put back in place
            self.settings = dict(self.settings or {})


_NEEDED = {
    **dict.fromkeys(("model", "reference", "base"), "modules"),
    "optimizer": "param_groups",
    **dict.fromkeys(("processors", "settings"), "items"),
    **dict.fromkeys(("prompts", "supervised", "graded", "turns"), "__getitem__"),
}
"""What an object of an adapter must have; scripts call other things by these names too."""
RESOURCES = tuple(name for name in Adapter.__dataclass_fields__ if name not in ("name", "seams"))
"""Names of the objects that an adapter may hold beside its seams."""


def load_adapter(path: Path) -> Adapter:
    """Executes a user's adapter file and takes ``adapter`` (an `Adapter`, or a function that makes one), or else
    every top-level function named like a seam and every object named like a field of `Adapter`.

    Raises `AdapterError` where the file is missing or holds none of them; what the file itself raises is passed on.
    """
    if not path.is_file():
        raise AdapterError(f"{path}: no such file; `grpo-doctor probe --init {path}` writes one to fill in")
    spec = importlib.util.spec_from_file_location(f"grpo_doctor_adapter_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise AdapterError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))  # it imports what lies beside it, as `python adapter.py` would
    spec.loader.exec_module(module)
    made = getattr(module, "adapter", None)
    made = made() if callable(made) and not isinstance(made, Adapter) else made
    if made is not None:
        if not isinstance(made, Adapter):
            raise AdapterError(f"{path}: adapter is {type(made).__name__}, not grpo_doctor.probes.Adapter")
        return made
    found = {name: value for name, value in vars(module).items() if name in RESOURCES and value is not None}
    called = {name: value for name, value in vars(module).items() if name in SEAMS and callable(value)}
    # a trainer's loss may be a module that the adapter's own functions call: it takes other arguments than a seam
    seams = {name: value for name, value in called.items() if not hasattr(value, "named_parameters")}
    if not seams and "model" not in found and "tokenizer" not in found:
        raise AdapterError(f"{path}: defines no entry point, model or tokenizer; entry points are {', '.join(SEAMS)}")
    return Adapter(name=str(path), seams=seams, **found)
