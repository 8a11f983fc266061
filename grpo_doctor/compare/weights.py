"""Measures how much two safetensors checkpoints differ, tensor by tensor. Adapters are compared by the weight changes
that they represent.

Files are read according to the specification (https://huggingface.co/docs/safetensors): eight bytes with the length of
a JSON header, the header, and raw little-endian numbers. The numbers are memory-mapped, and no code in a file is
executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_HEADER = 100_000_000
"""Maximum size of a header in bytes, as in the reference implementation."""
_LORA = re.compile(r"^(.*)\.lora_(A|B)(\.[^.]+)?\.weight$")


class WeightsError(ValueError):
    """A checkpoint that cannot be read; the message names the file and the reason."""


class WeightChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change in one tensor: the norm of the change divided by the norm of the tensor in BASE, and the norm in
    BASE."""

    name: str
    change: float
    norm: float


class _Stored(NamedTuple):
    file: Path
    kind: str
    shape: tuple[int, ...]
    begin: int

    def load(self) -> np.ndarray:
        """Return the numbers as float32."""
        if 0 in self.shape:
            return np.zeros(self.shape, np.float32)
        raw = np.memmap(self.file, _KINDS[self.kind], "r", self.begin, self.shape or (1,))
        if self.kind == "BF16":
            return np.asarray((raw.astype(np.uint32) << 16).view(np.float32))
        return np.asarray(raw, np.float32)


def compare_weights(base: Path, new: Path) -> list[WeightChange]:
    """Compare every floating-point tensor that both checkpoints (files or folders) contain, in the order of BASE.

    The factors of a LoRA adapter are multiplied first, because many pairs of factors give the same change. Raises
    `WeightsError` if a checkpoint cannot be read.
    """
    one, other = _stored(base), _stored(new)
    found = [_weight_change(name, *pair) for name, pair in _pairs(one, other)]
    if not found:
        raise WeightsError(f"{base} and {new} contain no tensor of the same name and shape")
    return found


def _pairs(
    one: Mapping[str, _Stored], other: Mapping[str, _Stored]
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    for name, stored in one.items():
        twin = other.get(name)
        lora = _LORA.match(name)
        if twin is None or (lora is None and twin.shape != stored.shape):
            continue
        if lora is None:
            yield name, (stored.load(), twin.load())
        elif lora[2] == "B" and (a := f"{lora[1]}.lora_A{lora[3] or ''}.weight") in one and a in other:
            yield lora[1], (stored.load() @ one[a].load(), twin.load() @ other[a].load())


def _weight_change(name: str, one: np.ndarray, other: np.ndarray) -> WeightChange:
    norm = float(np.linalg.norm(one))
    apart = float(np.linalg.norm(other - one))
    return WeightChange(name=name, change=apart / norm if norm else (0.0 if not apart else float("inf")), norm=norm)


def _stored(path: Path) -> dict[str, _Stored]:
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise WeightsError(f"{path}: no .safetensors file in this folder")
    return {name: stored for file in files for name, stored in _of_file(file)}


def _of_file(file: Path) -> Iterator[tuple[str, _Stored]]:
    try:
        size = file.stat().st_size
        with open(file, "rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if not 2 <= length <= min(_HEADER, size - 8):
                raise ValueError
            header: Any = json.loads(opened.read(length))
        for name, about in header.items():
            if name != "__metadata__" and about["dtype"] in _KINDS:
                shape, (begin, end) = tuple(map(int, about["shape"])), map(int, about["data_offsets"])
                count = int(np.prod(shape, dtype=object)) * np.dtype(_KINDS[about["dtype"]]).itemsize
                if min((*shape, begin), default=0) < 0 or end - begin != count or 8 + length + end > size:
                    raise ValueError
                yield name, _Stored(file, about["dtype"], shape, 8 + length + begin)
    except OSError as error:
        raise WeightsError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WeightsError(f"{file}: not a safetensors file, or incomplete") from None
