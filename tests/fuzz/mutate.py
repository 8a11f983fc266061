"""Mutations that keep enough of an input's structure for it to be recognised as a log or configuration."""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Callable

NUMBER = re.compile(rb"-?\d+\.?\d*(?:e-?\d+)?")
WORD = re.compile(rb"[A-Za-z_/]{3,}")
ODD = [
    *(b"nan NaN inf -inf Infinity -Infinity null None true -1 0 -0.0 1e308 -1e308 1e-320 1e400 9e99 2e19".split()),
    *(b"9223372036854775807 -9223372036854775808 18446744073709551616 0.1.2 1/3 12/0 5% 1,5 0x10 1_000".split()),
    *(b'"auto" "" "nan" [] {} [1,2] [[1],[2]] [null] {"a":{"b":1}} \xc2\xb2 \xd9\xa3 --5 +5 1e 1e5e5'.split()),
    b"9" * 400, b"'x'", b"tensor([])", b"np.float64(nan)", b"<b>1</b>", b"\x1b[31m1",
]  # fmt: skip
WORDS = (
    b"step reward rewards loss kl entropy grad_norm learning_rate epoch eval_reward success_rate reward_std value metric "
    b"completion completions advantages num_generations beta seed run name train_runtime log_history config schema "
    b'rewards/a\\"b/mean rewards/c\\\\d/mean rewards/\\u0001/mean rewards/\\t/mean rewards/\\ud800/mean a\\":b '
    b"response_length/mean rewards/a/mean rewards/b/std frac_reward_zero_std truncated_count rollout_count type phase "
    b"events samples by_task __init__ GRPOConfig algorithm.adv_estimator use_vllm max_completion_length"
).split()
PIECES = [
    b"\n", b"\r", b"\0", b"\x1b[2K", b"{", b"}", b"[", b"]", b"'", b'"', b",", b":", b"=", b" | ", b"\t", b"\\", b"\\u0000", b"\xff\xfe",
    b"\xe5\xa5", b"{'loss': nan, 'epoch': 1}", b'{"step": 1e400}', b"50%|##  | 3/9 [00:01<00:02]", b"Traceback (most recent call last):\n",
    b"step:5 - ", b"| step | loss |\n|---|---|\n", b"<table><tr><td>", b"&x;", b"${A:-${A}}", b"$((1<<9))", b"*a", b"&a [*a]", b"!!python/object:x",
    b"\xf0\x9f\x92\xa5", b"[" * 60, b"{'a':" * 30, b"(" * 60, b"a" * 3000, b" " * 2000, b"0." + b"0" * 400 + b"1", b"\xc2\x85", b"\xe2\x80\xa8",
]  # fmt: skip

LONG = 1 << 17
"""Bytes of an input at most, and of a run of one piece."""

Mutation = Callable[[random.Random, bytes], bytes]


def _lines(rng: random.Random, data: bytes) -> bytes:
    """Duplicate, drop, move or repeat lines."""
    lines = data.splitlines(keepends=True) or [b""]
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(to, lines[at])
    elif what == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif what == 3:
        lines[at:at] = lines[min(at, to) : max(at, to)]
    else:
        rng.shuffle(lines)
    return b"".join(lines)


def _number(rng: random.Random, data: bytes) -> bytes:
    """Replace a number, or all numbers of consecutive rows, by an unusual one."""
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    at = rng.choice(found)
    odd = rng.choice(ODD) if rng.random() < 0.8 else str(rng.choice([rng.gauss(0, 1), rng.randrange(-9, 10**6), 10.0 ** rng.uniform(-40, 40)])).encode()  # fmt: skip
    if rng.random() < 0.2:
        return data.replace(at[0], odd)
    return data[: at.start()] + odd + data[at.end() :]


def _word(rng: random.Random, data: bytes) -> bytes:
    """Replace a key by another known key, once or everywhere."""
    found = list(WORD.finditer(data))
    if not found:
        return data
    at, word = rng.choice(found), rng.choice(WORDS)
    if rng.random() < 0.5:
        return data.replace(at[0], word)
    return data[: at.start()] + word + data[at.end() :]


def _bytes(rng: random.Random, data: bytes) -> bytes:
    """Replace a few bytes."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 8)):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _cut(rng: random.Random, data: bytes) -> bytes:
    """Cut the end, the beginning or a part."""
    a, b = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return rng.choice([data[:a], data[a:], data[:a] + data[b:], data[a:b]])


def _piece(rng: random.Random, data: bytes) -> bytes:
    """Insert a piece."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(PIECES) * rng.choice([1, 1, 1, 2, 50]) + data[at:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    """Repeat a part many times."""
    a = rng.randrange(len(data) + 1)
    b = min(len(data), a + rng.randrange(1, 400))
    return data[:b] + data[a:b] * rng.choice([2, 5, 40]) + data[b:]


def _run(rng: random.Random, data: bytes) -> bytes:
    """Repeat one short piece so often that an expression which searches after each of them takes minutes."""
    a = rng.randrange(len(data) + 1)
    piece = rng.choice([b"\n", b" ", b",", b"'", b'"', b"a", b"a=", b"&&", data[a : a + rng.randrange(1, 9)] or b"\t"])
    return data[:a] + piece * (LONG // len(piece)) + data[a:]


def _noise(rng: random.Random, _: bytes) -> bytes:
    return rng.randbytes(rng.randrange(400))


MUTATIONS: list[tuple[Mutation, int]] = [
    (_lines, 60), (_number, 120), (_word, 80), (_bytes, 40), (_cut, 40), (_piece, 60), (_repeat, 20), (_noise, 20),
    (_run, 1),
]  # fmt: skip


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return the input after one to six mutations, sometimes joined to another one; compressed inputs are unpacked."""
    packed = data[:2] == b"\x1f\x8b"
    if packed and rng.random() < 0.7:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            packed = False
    else:
        packed = False
    if rng.random() < 0.1:
        a, b = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
        data = data[:a] + other[b:]
    steps = rng.choices(*zip(*MUTATIONS, strict=True), k=rng.randrange(1, 7))
    for step in steps:
        data = step(rng, data)[:LONG]
    return gzip.compress(data, 1, mtime=0) if packed else data
