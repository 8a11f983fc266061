"""Runs a trainer's own training loop on prompts, responses and advantages that a probe chooses.

Most trainers have no function that takes samples and advantages: one function samples, scores and normalises, and
another one computes the loss. The functions of such a trainer can be called only through the loop as a whole.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from .crafted_inputs import complete, plain_ids, special_ids
from .discover import is_prompt, resource
from .entry_points import Ids, NotObserved, Prompt
from .forced_draws import Ways
from .generations import Call, in_copies, recorded_generate, scripted_generate
from .intercept import Forward, forwards, replaced
from .loop_hooks import HOOKS, Finished, Hooks, Pass
from .script import Script, execute
from .tokenizers import readable
from .trainer_objects import of_library, reachable_objects

Replacement = tuple[Any, str, Any]
"""An object, the name of one of its attributes, and the value of the attribute during a pass."""


class TrainerLoop:
    """A trainer's objects and its training loop.

    Attributes:
        parts: the module in which the script's statements were executed.
        rollout: the entry point `rollout`, or None if the loop could not be run.
        step: the entry point `step`, or None if the loop could not be run.
    """

    def __init__(self, path: str | Path, *names: str, **given: Any) -> None:
        script = Script(Path(path))
        if not script.loops:
            raise NotObserved(f"{path}: no training loop was found")
        self.hooks = Hooks(script)
        made = {HOOKS: self.hooks, **given}
        for loop in script.loops:  # the outermost loop that does not create its own optimizer
            with self.hooks.importing():
                self.parts = execute(script, script.preceding(loop, names, made), made, self.hooks.added)
            self._pass, made = self.hooks.compiled(script, loop), vars(self.parts)
            self._find_objects()
            if self.optimizers:
                break
        for group in (g for optimizer in self.optimizers for g in optimizer.param_groups):
            group["lr"] = group["lr"] or group.get("initial_lr", 0.0)  # a warm-up from 0 would change no weight
        self.copies, self.whole = 1, False
        self.prompts: list[str] | None = None
        self.rollout: Callable[..., Any] | None = None
        self.step: Callable[..., Any] | None = None
        if (reason := self._unusable(False)) and (other := self._unusable(True)):
            both = "; ".join(dict.fromkeys((reason, other)))
            warnings.warn(f"the training loop cannot be run by itself: {both}", stacklevel=2)
        else:
            self.rollout, self.step = self._rollout, self._step

    def _find_objects(self) -> None:
        """Find the model, its tokenizer, the optimizer and the reference by name or, if the name is unknown, by
        type."""
        parts = self.parts
        found = reachable_objects([lambda: parts])
        modules = [m for outer in found.modules for m in outer.modules() if not of_library(type(m))]
        inside = [vars(self.parts), *(vars(o) for o in found.own), *({**vars(m), **m._modules} for m in modules)]
        named = [(name, value) for scope in inside for name, value in scope.items()]
        self.optimizers = found.optimizers

        def first(kind: str, fits: Callable[[Any], bool]) -> Any:
            by_name = (v for n, v in named if resource(n) == kind and fits(v))
            return next(by_name, next((v for _, v in named if fits(v)), None))

        trained = {id(p) for o in self.optimizers for group in o.param_groups for p in group["params"]}

        def is_policy(value: Any) -> bool:
            parameters = value.parameters() if isinstance(value, torch.nn.Module) and hasattr(value, "generate") else ()
            return any(id(p) in trained for p in parameters)

        own = first("model", is_policy)
        self.model = own if own is not None else first("model", lambda v: isinstance(v, torch.nn.Module))
        known = set(self.model.modules()) if self.model is not None else set()
        self.optimizer = first("optimizer", lambda v: any(v is o for o in self.optimizers))
        self.tokenizer = first("tokenizer", lambda v: hasattr(v, "decode") and hasattr(v, "eos_token_id"))
        kinds = (type(self.model), type(next(iter(known - {self.model}), None)))
        self.reference = next(
            (v for n, v in named if resource(n) == "reference" and isinstance(v, kinds) and v not in known), None
        )

    def _find_prompts(self, answers: Sequence[Ids]) -> list[str]:
        """Find the training data, and return prompts of unequal length from it. If the loop reads no data, return the
        prompt for which it samples."""
        special = special_ids(self.tokenizer)

        def found(loader: Any) -> Iterator[Any]:
            self.hooks.source = loader.dataset
            raise Finished

        def trains(*args: Any, **kwargs: Any) -> None:
            raise Finished

        readers = [(kind, name, found) for kind, name, _ in _readers(None)]
        changes = [*readers, (Tensor, "backward", trains), *((o, "step", trains) for o in self.optimizers)]
        try:
            with scripted_generate(self.model, answers, special.pad, special.eos) as calls, _replaced(changes):
                self.hooks.searching = lambda: not calls  # rows that are read after sampling are results
                self._execute()
        except Finished:
            pass
        finally:
            self.hooks.searching = bool
        if self.hooks.source is None:
            return self._own_prompt(_sampled(calls))
        rows = [self.hooks.source[n] for n in range(min(64, len(self.hooks.source)))]
        self.rows = {_label(row): row for row in rows}
        if len(self.rows) < 2:
            raise NotObserved("the training data has fewer than two different rows")
        labels = sorted(self.rows, key=len)
        return [labels[n * (len(labels) - 1) // 3] for n in range(4)]

    def _own_prompt(self, sampled: Sequence[tuple[int, ...]]) -> list[str]:
        """Return the only prompt for which the loop samples."""
        if len(set(sampled)) != 1:
            raise NotObserved("the loop reads no dataset or list of rows")
        prompt = str(self.tokenizer.decode(list(sampled[0])))
        self.rows = {prompt: None}
        return [prompt]

    def _execute(self) -> None:
        """Execute the statements of one pass."""
        for code in self._pass:
            exec(code, vars(self.parts))

    def _unusable(self, whole: bool) -> str | None:
        """Run the loop, with its own batch size if ``whole``, otherwise with at most as many rows as samples. Return
        the reason if the loop cannot be run."""
        try:
            plain = plain_ids(readable(self.tokenizer, self.model), self.model)
            answers = complete(plain, [4], special_ids(self.tokenizer).eos) * 2
            ways = Ways()
            self.prompts = self.prompts or ways(functools.partial(self._find_prompts, answers), _nothing)
            self.whole = whole or self.hooks.source is None
            with _replaced([(optimizer, "step", lambda *args, **kwargs: None) for optimizer in self.optimizers]):
                two = (self.prompts * 2)[:2]
                (calls, trained), (again, also) = (
                    ways(functools.partial(self._step, some, answers, torch.tensor([1.0, -1.0])), _nothing)
                    for some in (two, two[::-1])
                )
            rows, swapped = _sampled(calls), _sampled(again)
            if [*dict.fromkeys(rows)][:2] != [*dict.fromkeys(swapped)][1::-1]:
                raise NotObserved("the loop samples prompts that are not in its data")
            if sorted(itertools.chain(*trained)) != sorted(itertools.chain(*also)):
                raise NotObserved("the loop samples prompts that it does not train on; switch its evaluation off")
            self.copies = 1 if len(self.rows) == 1 else len([*itertools.takewhile(rows[0].__eq__, rows)])
        except TimeoutError:  # the time limit ended the run: a second run would have no limit
            raise
        except Exception as error:  # noqa: BLE001  (the trainer's own code may raise anything)
            return f"{type(error).__name__}: {error}"
        return None

    def _run(self, now: Pass, done: Callable[[], bool]) -> None:
        """Run the loop until ``done`` is true after an update of the model. Without advantages, nothing is trained."""

        policy = set(self.model.parameters())
        others = Counter[int]()

        def updated(optimizer: Any, step: Any, *args: Any, **kwargs: Any) -> Any:
            if not any(p in policy for group in optimizer.param_groups for p in group["params"]):
                others[id(optimizer)] += 1
                if done() and others[id(optimizer)] > 1:
                    raise NotObserved("the first updates train another model, such as a critic, and not the policy")
                return step(*args, **kwargs)
            if now.advantages is None and not now.texts:  # the loop decodes no text before it trains
                raise Finished
            found = None if now.advantages is None else step(*args, **kwargs)
            now.done = done()
            if now.zeroed:
                now.end()
            return found

        def zeroed(zero: Any, *args: Any, **kwargs: Any) -> None:
            zero(*args, **kwargs)
            now.end()
            now.zeroed = True

        changes: list[Replacement] = [(o, "step", functools.partial(updated, o, o.step)) for o in self.optimizers]
        changes += [(o, "zero_grad", functools.partial(zeroed, o.zero_grad)) for o in (self.model, *self.optimizers)]
        if now.advantages is None:
            changes.append((Tensor, "backward", lambda *args, **kwargs: None))
        changes.append(
            (torch, "randperm", lambda n, **ignored: torch.arange(n))
        )  # data loaders draw with torch's functions
        self.hooks.now = now
        try:
            with _replaced([*_readers(now), *changes]):
                self._execute()
                while len(self._pass) > 1 and not now.done and now.progresses():  # one round of collected samples
                    self._execute()
        except Finished:
            pass
        except Exception:
            if not now.done:  # only logging and saving follow
                raise
        finally:
            self.hooks.now = None

    def _new(self, prompts: Sequence[Prompt], advantages: Tensor | None) -> Pass:
        rows = [self.rows[str(p)] for p in prompts]
        return Pass(rows, self.hooks.source, advantages, self.copies, self.whole)

    def _rollout(self, prompts: Sequence[Prompt]) -> list[str] | None:
        """Return the texts that the trainer decodes from the sampled ids, which its reward function receives, or None
        if the trainer decodes no text."""
        now = self._new(prompts, None)
        decodes = [n for n in ("decode", "batch_decode") if hasattr(self.tokenizer, n)]
        own = self.tokenizer.decode
        with in_copies(self.copies), recorded_generate(self.model, special_ids(self.tokenizer).pad) as calls:

            def noted(decode: Any, *args: Any, **kwargs: Any) -> Any:
                with replaced(self.tokenizer, "decode", own):
                    found = decode(*args, **kwargs)
                left = sum(len(call.input_ids) for call in calls) - len(now.texts)  # texts decoded earlier are prompts
                now.texts += ([found] if isinstance(found, str) else found)[:left]
                return found

            noting = [(self.tokenizer, n, functools.partial(noted, getattr(self.tokenizer, n))) for n in decodes]
            with _replaced(noting):
                self._run(now, lambda: len(now.texts) >= len(prompts) * self.copies)
        given = [row for call in calls for row in call.input_ids]
        texts = [self._without_prompt(text, row) for text, row in zip(now.texts, given, strict=False)]
        return texts[:: self.copies][: len(prompts)] or None

    def _without_prompt(self, text: str, prompt: Tensor) -> str:
        """Return the response part of a text that also contains the prompt."""
        tokenizer = readable(self.tokenizer, self.model)
        for hidden in (False, True):
            text = text.removeprefix(tokenizer.decode(prompt, skip_special_tokens=hidden))
        return text

    def _step(
        self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor
    ) -> tuple[list[Call], set[tuple[int, ...]]]:
        """Run the loop until every response was trained on. Return the generations and the trained rows."""
        now = self._new(prompts, advantages)
        special, trained = special_ids(self.tokenizer), set[tuple[int, ...]]()
        samples = {(str(p), *r) for p, r in zip(prompts, responses, strict=True)}

        def count(forward: Forward) -> None:
            now.end()
            ids, real = forward.input_ids, forward.attention_mask
            real = ids != special.pad if real is None else real > 0
            rows = zip(ids, real, strict=True) if forward.logits.requires_grad else ()
            trained.update(tuple(row[mask].tolist()) for row, mask in rows)

        with (
            in_copies(self.copies),
            scripted_generate(self.model, responses, special.pad, special.eos) as calls,
            forwards([self.model], count),
        ):
            self._run(now, lambda: len(trained) >= len(samples))
        if not now.done:
            raise NotObserved("the loop ends before every response was trained on")
        if not any(now.places.values()):
            raise NotObserved("no variable of the loop is called like advantages")
        return calls, trained


def _nothing() -> None:
    """Restore nothing, because this trial changes no weights."""


def _sampled(calls: Sequence[Call]) -> list[tuple[int, ...]]:
    """Return the prompts for which responses were sampled, in order."""
    pairs = ((ids, real) for call in calls for ids, real in zip(call.input_ids, call.attention_mask, strict=True))
    return [tuple(ids[real > 0].tolist()) for ids, real in pairs]


@contextmanager
def _replaced(replacements: Iterable[Replacement]) -> Iterator[None]:
    """Replace several attributes inside the block."""
    with ExitStack() as stack:
        for target, name, value in replacements:
            stack.enter_context(replaced(target, name, value))
        yield


def _readers(now: Pass | None) -> list[Replacement]:
    """Return replacements that make data loaders read the samples of a pass."""
    kinds: list[Any] = [k for k in [DataLoader, *DataLoader.__subclasses__()] if "__iter__" in vars(k)]
    plain = {kind: vars(kind)["__iter__"] for kind in kinds}

    def chosen(loader: Any) -> Iterator[Any]:
        assert now is not None
        own = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or len(now.rows)
        while True:
            rows = now.draw(own if now.whole else min(own, len(now.rows)))
            yield (loader.collate_fn or default_collate)([now.rows[n] for n in rows])

    def read(loader: Any) -> Iterator[Any]:
        if now is not None and loader.dataset is now.source:
            return chosen(loader)
        if hasattr(loader.batch_sampler, "drop_last"):
            loader.batch_sampler.drop_last = False  # otherwise, the loader could drop samples of the probe
        own: Callable[[Any], Iterator[Any]] = next(plain[k] for k in type(loader).__mro__ if k in plain)
        return own(loader)

    return [(kind, "__iter__", read) for kind in kinds]


def _label(row: Any) -> str:
    """Return the text that identifies a row of training data: its prompt or, without a prompt, its first text."""
    if not isinstance(row, Mapping):
        return str(row)
    texts = {n: v for n, v in row.items() if isinstance(v, str)}
    return next((v for n, v in texts.items() if is_prompt(n)), next(iter(texts.values()), str(row)))
