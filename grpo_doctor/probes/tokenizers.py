"""Adapts custom tokenizers to the part of the transformers interface that probes use."""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from typing import Any

from .entry_points import Ids, Unjudged


def readable(tokenizer: Any, model: Any = None) -> Any:
    """Return a transformers tokenizer itself, or a hashable wrapper for any other tokenizer."""
    if tokenizer is None or (hasattr(tokenizer, "all_special_ids") and isinstance(tokenizer, Hashable)):
        return tokenizer
    return OwnTokenizer(tokenizer, model)


class OwnTokenizer:
    """Wraps a tokenizer that has little more than `encode` and `decode`, and adds the arguments and the length of
    transformers tokenizers. All other calls are passed through to the tokenizer."""

    def __init__(self, tokenizer: Any, model: Any = None) -> None:
        vars(self).update(_own=tokenizer, _model=model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            setattr(self._own, name, value)
        except AttributeError:
            raise Unjudged(f"the tokenizer's {name} cannot be changed") from None

    def __len__(self) -> int:
        """Return the number of ids, or 0 if neither the tokenizer nor the model provides the number."""
        if hasattr(self._own, "__len__"):
            return len(self._own)
        for name in ("vocab_size", "n_vocab", "get_vocab_size"):  # as in tiktoken and tokenizers
            found = getattr(self._own, name, None)
            found = found() if callable(found) else found
            if isinstance(found, int):
                return found
        tables = [m for m in self._model.modules() if hasattr(m, "num_embeddings")] if self._model is not None else []
        return int(tables[0].num_embeddings) if tables else 0

    def convert_ids_to_tokens(self, one: int) -> str:
        """Return the text of a single id."""
        return self.decode([one]) or str(one)

    def encode(self, text: str, **how: Any) -> Ids:
        """Return the ids of a text, passing only the arguments that the tokenizer accepts."""
        found = self._own.encode(text, **_accepted(self._own.encode, how))
        return [int(i) for i in getattr(found, "ids", found)]

    def decode(self, ids: Any, **how: Any) -> str:
        """Return the text of ids, passing only the arguments that the tokenizer accepts."""
        return str(self._own.decode([int(i) for i in ids], **_accepted(self._own.decode, how)))


def _accepted(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function written in C
        return {}
    return {name: value for name, value in given.items() if name in parameters}
