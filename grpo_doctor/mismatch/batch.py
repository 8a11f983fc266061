"""A token batch: some responses of one step, with the log-probabilities of their tokens under the trainer and the
rollout engine.

The Parquet file has one row per response, and one column per field of `Response`. The schema metadata of the file has
the key ``grpo_doctor``, whose value is a JSON object with ``schema`` (1), ``step``, ``weight_version`` and
``settings``. Log-probabilities are float32, so that the rounding of a trainer or an engine that computes in bf16 stays
visible. An unknown log-probability is NaN, and an unknown column is null.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..extras import install
from ..record import portable

SCHEMA = 1
KEY = b"grpo_doctor"
MOST_RESPONSES = 64
MOST_BYTES = 2_000_000


class BatchError(ValueError):
    """A token batch that cannot be written or read; the message names the file and the fix."""


class Response(msgspec.Struct, kw_only=True):
    """One response. Every list except ``token_ids`` and the experts has one entry per response token. Every field
    except ``token_ids`` and ``prompt_length`` may be unknown.

    Attributes:
        token_ids: ids of prompt and response, without padding.
        prompt_length: number of prompt tokens.
        mask: whether each response token is in the loss; if unknown, all tokens count as in the loss.
        engine_logprobs: log-probability in nats that the rollout engine recorded when it sampled the token.
        old_logprobs: the trainer's log-probability before the first update on this response.
        new_logprobs: the trainer's log-probability in the loss of the recorded step.
        reference_logprobs: log-probability under the reference model.
        entropy: entropy of the trainer's distribution, in nats.
        engine_experts: experts that the engine chose, token by token; the layers of a token are listed in order.
        trainer_experts: experts that the trainer chose, in the same layout.
        advantage: advantage of the response.
        weight_version: number of updates that the engine's weights had received when it sampled the response.
    """

    token_ids: list[int]
    prompt_length: int
    mask: list[bool] | None = None
    engine_logprobs: list[float] | None = None
    old_logprobs: list[float] | None = None
    new_logprobs: list[float] | None = None
    reference_logprobs: list[float] | None = None
    entropy: list[float] | None = None
    engine_experts: list[int] | None = None
    trainer_experts: list[int] | None = None
    advantage: float | None = None
    weight_version: int | None = None

    @property
    def length(self) -> int:
        """The number of response tokens."""
        return len(self.token_ids) - self.prompt_length


class TokenBatch(msgspec.Struct, kw_only=True):
    """Some responses of one step.

    Attributes:
        step: the trainer's step.
        responses: the responses; at most 64 responses are written to a file.
        weight_version: number of updates that the trainer's weights have received.
        settings: declared settings of the trainer and the engine, such as ``temperature``, ``top_p``, ``top_k``,
            ``min_p``, and the engine's ``quantization``.
    """

    step: int
    responses: list[Response] = []
    weight_version: int | None = None
    settings: dict[str, Any] = {}


_PER_TOKEN = (
    "mask", "engine_logprobs", "old_logprobs", "new_logprobs", "reference_logprobs", "entropy"
)  # fmt: skip
_EXPERTS = ("engine_experts", "trainer_experts")


def responses_of(prompts: Iterable[Any], tokens: Iterable[Any], **columns: Iterable[Any] | None) -> list[Response]:
    """Create the first 64 responses from the token ids of prompts and responses, and from columns named as in
    `Response`.

    Each argument has one row per response, which is a list, an array or a tensor. A column may be None. Values after
    the end of a response are padding and are dropped. A response with fewer values than tokens is omitted.
    """
    known = {name: rows for name, rows in columns.items() if rows is not None}
    found: list[Response] = []
    for prompt, response, *row in zip(map(_plain, prompts), map(_plain, tokens), *known.values(), strict=True):
        length, values = len(response), dict(zip(known, map(_plain, row), strict=True))
        lists = {name: value[:length] for name, value in values.items() if name in _PER_TOKEN}
        if all(len(value) == length for value in lists.values()):
            found.append(Response(token_ids=prompt + response, prompt_length=len(prompt), **values | lists))
        if len(found) == MOST_RESPONSES:
            break
    return found


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def checked(batch: TokenBatch, where: str = "token batch") -> TokenBatch:
    """Return the batch after checking that all lists have the length of their response. Raises `BatchError`."""
    for number, response in enumerate(batch.responses, 1):
        if not 0 <= response.prompt_length <= len(response.token_ids):
            raise BatchError(f"{where}: response {number}: prompt_length {response.prompt_length} is not in its tokens")
        for name in _PER_TOKEN:
            values = getattr(response, name)
            if values is not None and len(values) != response.length:
                raise BatchError(
                    f"{where}: response {number}: {name} has {len(values)} values for {response.length} tokens"
                )
        for name in _EXPERTS:
            chosen = getattr(response, name)
            if chosen is not None and len(chosen) % max(1, response.length):
                raise BatchError(
                    f"{where}: response {number}: {name} has {len(chosen)} values, which is not a multiple of its "
                    f"{response.length} tokens"
                )
    return batch


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise BatchError(f"token batches need pyarrow; {install('parquet')}") from None
    return pyarrow


def _schema(arrow: Any) -> Any:
    reals, ids = arrow.list_(arrow.float32()), arrow.list_(arrow.int32())
    kinds = {
        "token_ids": ids,
        "prompt_length": arrow.int32(),
        "mask": arrow.list_(arrow.bool_()),
        **dict.fromkeys(_PER_TOKEN[1:], reals),
        **dict.fromkeys(_EXPERTS, arrow.list_(arrow.int16())),
        "advantage": arrow.float32(),
        "weight_version": arrow.int64(),
    }
    return arrow.schema(list(kinds.items()))


def _table(arrow: Any, responses: Sequence[Response], schema: Any) -> Any:
    """Return the responses as a table. Lists are converted through numpy, which is ten times as fast as converting
    Python objects."""
    columns = []
    for field in schema:
        values = [getattr(response, field.name) for response in responses]
        if not arrow.types.is_list(field.type):
            columns.append(arrow.array(values, field.type))
            continue
        ends = np.cumsum([len(value or ()) for value in values])
        starts = [None if value is None else int(end) - len(value) for value, end in zip(values, ends, strict=True)]
        offsets = arrow.array([*starts, int(ends[-1]) if len(ends) else 0], arrow.int32())
        known = _joined([value for value in values if value])
        flat = arrow.array(known.astype(field.type.value_type.to_pandas_dtype()), field.type.value_type)
        columns.append(arrow.ListArray.from_arrays(offsets, flat))
    return arrow.Table.from_arrays(columns, schema=schema)


def write_batch(path: Path, batch: TokenBatch) -> int:
    """Write at most 64 responses, or fewer if the file would exceed 2 MB. Return the number of written responses.

    Raises:
        BatchError: pyarrow is missing, or a list does not have the length of its response.
        OSError: the file cannot be written.
    """
    arrow = _pyarrow()
    rows = checked(batch).responses[:MOST_RESPONSES]
    head = {"schema": SCHEMA, "step": batch.step, "weight_version": batch.weight_version}
    about = json.dumps({**head, "settings": portable(batch.settings)}, default=str)
    schema = _schema(arrow).with_metadata({KEY: about.encode()})
    while True:
        file = io.BytesIO()
        arrow.parquet.write_table(_table(arrow, rows, schema), file, compression="zstd")
        if file.tell() <= MOST_BYTES or not rows:
            break
        rows = rows[: len(rows) // 2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.getvalue())
    return len(rows)


def read_batch(path: Path) -> TokenBatch:
    """Read a batch from a file that `write_batch` wrote, or that has the same schema. Raises `BatchError`."""
    arrow = _pyarrow()
    try:
        table = arrow.parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise BatchError(f"{path}: not a complete Parquet file: {str(error).splitlines()[0]}") from None
    try:
        batch = msgspec.json.decode((table.schema.metadata or {}).get(KEY, b'{"step": 0}'), type=TokenBatch)
        known = [name for name in table.column_names if name in Response.__struct_fields__]
        batch.responses = msgspec.convert(table.select(known).to_pylist(), list[Response], strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BatchError(f"{path}: not a token batch: {error}") from None
    return checked(batch, str(path))


def is_token_batch(columns: Sequence[str]) -> bool:
    """Return whether a table with these columns is a token batch."""
    return {"token_ids", "prompt_length"} <= {*columns}


class Tokens:
    """The response tokens of a batch that are in the loss, as arrays of length N. Unknown values are NaN.

    Attributes:
        engine, trainer: log-probabilities (N,). For the trainer, the old log-probabilities are used, or the new
            log-probabilities if the old ones are unknown.
        new, reference, entropy: as in `Response`.
        response, position: index of the response, and position of the token in the response.
        age: number of updates by which the engine's weights are older than the trainer's weights.
        rerouted: 1 for tokens for which the trainer and the engine chose different experts.
    """

    def __init__(self, batch: TokenBatch) -> None:
        given = [r for r in checked(batch).responses if r.length]
        kept = [r for r in given if r.engine_logprobs and (r.old_logprobs or r.new_logprobs)]
        lengths = [r.length for r in kept]
        trained = _joined([r.mask or [True] * r.length for r in kept]).astype(bool)

        def column(values: Sequence[Sequence[Any] | None]) -> np.ndarray:
            known = [v or [math.nan] * n for v, n in zip(values, lengths, strict=True)]
            return np.asarray(_joined(known).astype(float)[trained])

        self.engine = column([r.engine_logprobs for r in kept])
        self.new = column([r.new_logprobs for r in kept])
        old = column([r.old_logprobs for r in kept])
        self.trainer = np.where(np.isnan(old), self.new, old)
        self.reference = column([r.reference_logprobs for r in kept])
        self.entropy = column([r.entropy for r in kept])
        self.response = np.repeat(np.arange(len(kept)), lengths)[trained]
        self.position = _joined([np.arange(n) for n in lengths]).astype(int)[trained]
        self.rerouted = column([_rerouted(r) for r in kept])
        version = math.nan if batch.weight_version is None else float(batch.weight_version)
        versions = [math.nan if r.weight_version is None else float(r.weight_version) for r in kept]
        self.age = np.repeat(version - np.array(versions, float), lengths)[trained]

    def __len__(self) -> int:
        return len(self.engine)

    def keep(self, wanted: np.ndarray) -> None:
        """Keep only the tokens selected by the mask ``wanted`` (N,), and renumber the responses."""
        for name, values in vars(self).items():
            setattr(self, name, values[wanted])
        self.response = np.unique(self.response, return_inverse=True)[1]


def _joined(parts: Sequence[Any]) -> np.ndarray:
    return np.concatenate([np.asarray(part) for part in parts]) if parts else np.empty(0)


def _rerouted(response: Response) -> list[float] | None:
    """Return 1 for each token for which the trainer and the engine chose different experts, otherwise 0; None if either
    choice is unknown."""
    one, other = response.engine_experts, response.trainer_experts
    if not one or not other or len(one) != len(other):
        return None
    differ = (np.array(one) != np.array(other)).reshape(response.length, -1)
    return [float(rerouted) for rerouted in differ.any(1)]
