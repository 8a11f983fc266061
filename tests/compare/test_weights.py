"""Safetensors checkpoints: movement of tensors, adapters by their product, and files that are not checkpoints."""

import json
from pathlib import Path

import numpy as np
import pytest

from grpo_doctor.compare import WeightsError, compare_weights


def write(path: Path, **tensors: np.ndarray) -> Path:
    """A safetensors file; names are joined by dots."""
    header, data = {}, b""
    for name, values in tensors.items():
        kind = {"float32": "F32", "float16": "F16", "uint16": "BF16", "int64": "I64"}[values.dtype.name]
        header[name.replace("__", ".")] = {
            "dtype": kind, "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]
        }  # fmt: skip
        data += values.tobytes()
    told = json.dumps(header).encode()
    path.write_bytes(len(told).to_bytes(8, "little") + told + data)
    return path


def bf16(*values: float) -> np.ndarray:
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_the_change_of_each_tensor_by_its_norm(tmp_path: Path) -> None:
    one = write(tmp_path / "one.safetensors", a=np.array([3.0, 4.0], np.float32), b=bf16(1, 2), step=np.arange(2))
    two = write(tmp_path / "two.safetensors", a=np.array([3.0, 4.5], np.float32), b=bf16(1, 2), step=np.arange(2))
    found = {m.name: (m.change, m.norm) for m in compare_weights(one, two)}
    assert found == {"a": (0.1, 5.0), "b": (0.0, pytest.approx(5**0.5))}


def test_the_same_as_the_reference_reader(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch comes with the extra train")
    save_file = pytest.importorskip("safetensors.torch").save_file
    weights = {"w": torch.arange(6.0).reshape(2, 3).to(torch.bfloat16), "v": torch.ones(3).half()}
    save_file(weights, tmp_path / "a.safetensors")
    save_file({name: 2 * w for name, w in weights.items()}, tmp_path / "b.safetensors")
    found = compare_weights(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert {m.name: m.change for m in found} == {"w": 1.0, "v": 1.0}


def adapter(path: Path, a: np.ndarray, b: np.ndarray) -> Path:
    return write(path, q__lora_A__weight=a, q__lora_B__weight=b)


def test_an_adapter_is_compared_by_its_product(tmp_path: Path) -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((4, 2), np.float32)
    one, two = adapter(tmp_path / "one.safetensors", a, b), adapter(tmp_path / "two.safetensors", 2 * a, b / 2)
    assert [(m.name, m.change) for m in compare_weights(one, two)] == [("q", 0.0)]
    zero = adapter(tmp_path / "zero.safetensors", a, 0 * b)
    assert compare_weights(zero, zero)[0].change == 0
    assert compare_weights(zero, one)[0].change == float("inf")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 8, b"\xff" * 64, (4).to_bytes(8, "little") + b"[1]]", (60).to_bytes(8, "little") + b"{" * 60]
    + [
        (len(h)).to_bytes(8, "little") + h
        for h in (
            b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}',
            b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}',
            b'{"a":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}}',
            b'{"a":7}',
        )
    ],
)
def test_a_file_that_is_not_a_checkpoint_is_reported_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(WeightsError, match=r"bad\.safetensors: not a safetensors file, or incomplete"):
        compare_weights(tmp_path / "bad.safetensors", tmp_path / "bad.safetensors")


def test_a_missing_file_and_nothing_in_common(tmp_path: Path) -> None:
    one = write(tmp_path / "one.safetensors", a=np.ones(2, np.float32))
    two = write(tmp_path / "two.safetensors", a=np.ones(3, np.float32))
    with pytest.raises(WeightsError, match="no tensor of the same name and shape"):
        compare_weights(one, two)
    with pytest.raises(WeightsError, match="No such file"):
        compare_weights(one, tmp_path / "absent.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsError, match=r"no \.safetensors file in this folder"):
        compare_weights(one, tmp_path / "empty")
