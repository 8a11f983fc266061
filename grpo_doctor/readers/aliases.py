"""Maps the keys of other trainers to record fields by the meaning and the unit of each key.

The tables are in ``aliases.csv``. Exact keys of known trainers and misleading keys come first, followed by names that
custom trainers use. Names of custom trainers are stored as sets of words, so that ``mean_rew``, ``Avg Reward`` and
``reward/mean`` match one entry. Other keys are not read: an ambiguous key is reported, never guessed. If several keys
of a log mean the same field, the key with the earlier row in the table is preferred.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ..record import NUMBER_FIELDS
from .alias_table import TABLES
from .settings import declared


class Alias(NamedTuple):
    """A field, and how its value is computed: ``offset + scale * value``. A lower rank is preferred."""

    field: str
    scale: float = 1.0
    offset: float = 0.0
    rank: int = 0


TRAPS = frozenset(name for _, name in TABLES["trap"])
"""Keys that look like a field but have another meaning. Examples are sums over the sequence (``objective/entropy``) and
the change within an update (``ppo_kl``, exactly 0 on-policy). Other examples are values after shaping, values of
another network, and TRL's response limit."""
_CANONICAL = {word: canon for canon, word in TABLES["word"]}
_DROPPED = frozenset("div divergence of the per to current cur stats statistics".split())
_NAMESPACES = frozenset(
    "train training metrics metric rl grpo ppo actor policy optim rollout rollouts charts stats log logs "
    "progress env environment episode episodes epoch epochs iteration iterations batch update updates trainer learner "
    "global scalars losses perf performance selfplay objective".split()
)
"""Words in path prefixes that do not change the meaning of a key, as in ``ppo_policy/entropy``."""
_OF_EPISODES = frozenset(
    "env environment episode episodes epoch epochs iteration iterations objective selfplay".split()
)
"""Prefixes under which a KL value may be per token or summed over a response."""
_UNSPACED = {word: canon for canon, word in TABLES["script"]}
"""Words of languages that are written without spaces. A word comes before the words that it contains."""

_CAMEL = re.compile(r"([a-z])([A-Z])")
_SCALE = re.compile(r"\((\d+(?:\.\d+)?e[-+]?\d+)\)")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_AVERAGED = re.compile(r"[_\s](?:mean[_\s])?(?:over|across)[_\s].*$", re.IGNORECASE)
"""The part of a long name that describes averaging, as in ``reward_across_all_groups``."""


def _alias(field: str, name: str, rank: int) -> tuple[str, Alias]:
    """Return a name without the prefix ``1-`` of a complement, and the meaning of that name."""
    rest = name.removeprefix("1-")
    return rest, Alias(field, rank=rank) if rest == name else Alias(field, -1.0, 1.0, rank)


def _ranked(table: str, first: int) -> Iterator[tuple[str, Alias]]:
    """Yield the names in a table with their meanings. The preferred name of a field has the lowest rank."""
    ranks: Counter[str] = Counter()
    for field, name in TABLES[table]:
        yield _alias(field, name, first + ranks[field])
        ranks[field] += 1


def _exact() -> dict[str, tuple[Alias, ...]]:
    found: dict[str, tuple[Alias, ...]] = {}
    for key, alias in _ranked("exact", 0):
        found[key] = (*found.get(key, ()), alias)
    return found


def _worded() -> dict[frozenset[str], Alias]:
    return {frozenset(name.split()): alias for name, alias in _ranked("words", 100)}


def _spelt(key: str) -> str:
    """Normalise the separators of a key, because table columns use ``_``, ``.`` or ``:`` where trainers write a
    slash."""
    return _PARTED.sub("_", key)


def _loose() -> dict[str, tuple[Alias, ...]]:
    """Return the meanings of the trainers' keys by normalised key. A key that needs no normalisation takes
    precedence."""
    found: dict[str, tuple[Alias, ...]] = {}
    for key, aliases in _EXACT.items():
        found.setdefault(_spelt(key), aliases)
    return found | {key: aliases for key, aliases in _EXACT.items() if "/" not in key}


_PARTED = re.compile(r"[/.:\s-]+")
_EXACT = _exact()
_LOOSE = _loose()
_LOOSE_TRAPS = frozenset(_spelt(key) for key in TRAPS)
_WORDED = _worded()
_KNOWN = _DROPPED.union(_CANONICAL, *_WORDED)
_COUNTED = frozenset("correct win solve match".split())
"""Words whose plural counts responses."""
_PLURALS = {f"{word}s": word for word in _KNOWN - _COUNTED if f"{word}s" not in _KNOWN}
"""Known words by their plurals, because names of lists are in the plural, as in ``kl_divs``."""
STEP_KEYS = tuple(
    "step global_step train/global_step training/global_step trainer/global_step grpo_step train_step training_step "
    "rl_step ppo_step rollout_step policy_step system/step progress/step progress/batch train/step training_iteration "
    "iteration current_steps global_step/max_steps iter update timesteps total_timesteps "
    "time/total_timesteps it rollout_id rollout/step counters/updates _step checkpoint_step".split()
)
"""Keys whose values count the rows, the most reliable first."""
WEAK_STEP_KEYS = ("episode", "batch", "round", "epoch")
"""Names whose values may count the rows if there is no better name and no value repeats."""
STEPS = frozenset(
    "step steps iter iters iteration iterations it update updates rollout 步 步骤 步数 第 ステップ 스텝 단계 轮 "
    "adım krok langkah bước الخطوة".split()
)
_BESIDE = frozenset("global train training grpo rl ppo policy num idx index count id".split())


@lru_cache(maxsize=4096)
def words(key: str) -> frozenset[str]:
    """Return the canonical words of a key: ``Avg-Rew`` and ``reward/mean`` both give {mean, reward}."""
    for foreign, canon in _UNSPACED.items():
        if foreign in key:
            key = key.replace(foreign, f" {canon} ")
    found: list[str] = []
    for word in _WORD.findall(_CAMEL.sub(r"\1 \2", key)):
        low = _PLURALS.get(word.lower(), word.lower())
        found += _CANONICAL.get(low, low).split()
    return frozenset(found) - _DROPPED


@lru_cache(maxsize=4096)
def is_step(name: str) -> bool:
    found = words(name)
    return bool(found & STEPS) and not found - STEPS - _BESIDE


@lru_cache(maxsize=4096)
def counts_as(name: str, word: str) -> bool:
    """Return whether a name consists of this word and words for training, as in ``epoch`` or ``RL training epoch``."""
    found = words(name)
    return word in found and not found - {word} - _BESIDE


@lru_cache(maxsize=4096)
def is_weak(name: str) -> bool:
    return any(counts_as(name, word) for word in WEAK_STEP_KEYS)


def plain(key: str) -> tuple[str, float]:
    """Return the key in lowercase without a scale in parentheses, and the scale: (actor/lr, 1e-4) for
    ``actor/lr(1e-4)``."""
    low = key.strip().lower().replace(" / ", "/")
    scale = 1.0
    if "(" in low and (match := _SCALE.search(low)):
        scale, low = float(match[1]), low.replace(match[0], "")
    return low, scale


OF_VERL = ("val/test_score/", "val-core/")
"""Prefixes of verl's scores on held-out data, which have one key per dataset."""
OF_TRAINING = (*OF_VERL, "episode/")
"""Prefixes of scores that only training runs log: scores of verl, and scores of verl-agent's rollouts."""
OF_BATCHES = frozenset(
    "val/sequence_lengths val/ratio val/stop_rate val/num_eos_tokens val/advantages_mean val/solve_rate_hist".split()
)
"""Keys under ``val/`` with which TRL's PPO and open-instruct describe training batches. If a log has one of the keys,
no ``val/`` key is a validation metric."""


@lru_cache(maxsize=4096)
def resolve(key: str) -> tuple[Alias, ...]:
    """Return the meanings of a key; empty if the key is unknown or ambiguous. A key usually means one field, and
    sometimes several, such as a share and its complement."""
    low, scale = plain(key)
    for name in _candidates(low):
        if name in TRAPS:
            return ()
        if exact := _EXACT.get(name) or (_OF_UNIT_TESTS if UNIT_TESTS.fullmatch(name) else ()):
            return tuple(a._replace(scale=a.scale * scale) for a in exact)
        if (spelt := _spelt(name)) in _LOOSE_TRAPS:
            return ()
        if spelt in _LOOSE:
            return tuple(a._replace(scale=a.scale * scale) for a in _LOOSE[spelt])
    if low.startswith(OF_VERL) and (low.startswith("val/") or "/mean@" in low):
        return (Alias("eval_score", rank=50),)
    head, _, tail = low.rpartition("/")
    said = {part: frozenset(re.split(r"[\W_]+", part)) for part in head.split("/") if part}
    namespaces = [part for part, of in said.items() if not of <= _NAMESPACES]
    names = key.strip(), "/".join((*namespaces, tail))
    for text in (*names, *(cut for name in names if (cut := _AVERAGED.sub("", name)) != name)):
        found = _rates(words(_SCALE.sub("", text)))
        # logged values are training means even without the words "mean" and "train"
        alias = _WORDED.get(found) or _WORDED.get(found - {"mean"}) or _WORDED.get(found - {"mean", "train"})
        if alias is not None:
            if alias.field == "kl" and any(of & _OF_EPISODES for of in said.values()):
                return ()
            return (alias._replace(scale=alias.scale * scale),)
    if _scores_held_out(low, words(key)):  # a score may also be an error, so a reward comes first
        return (Alias("eval_score", rank=149 if "reward" in low else 150),)
    if low in NUMBER_FIELDS and declared(low) is None:
        return (Alias(low, rank=200),)
    return _below_any("/".join(namespaces), tail) if tail != low else ()


def _below_any(head: str, tail: str) -> tuple[Alias, ...]:
    """Return the meanings of a name below an unknown part of a path, as in ``train/logps/clip_ratio``. Keys below
    unknown parts have the lowest preference. If several keys below unknown parts mean the same field, none of these
    keys is used."""
    if "/" in head or of_another(head) or _HELD_OUT_WORD.match(head):
        return ()
    return tuple(alias._replace(rank=alias.rank + GUESSED) for alias in resolve(tail) if alias.field in _UNMISTAKABLE)


def of_another(head: str) -> bool:
    """Return whether names below a path describe something other than the policy, as below ``prompt_length`` or
    ``ref``."""
    return not words(head).isdisjoint(_OF_ANOTHER)


GUESSED = 300
"""Minimum rank of a meaning that is inferred from a name below an unknown prefix."""
_UNMISTAKABLE = frozenset(
    "kl clip_fraction entropy_mean grad_norm learning_rate policy_loss advantage_mean advantage_std ratio_mean "
    "response_length_mean truncated_rate reward_mean reward_std zero_variance_share".split()
)
"""Fields whose names are unambiguous below an unknown prefix."""
_OF_ANOTHER = frozenset(
    "critic value values vf ref rm judge teacher student draft aux moe old baseline target random expert sft warmup "
    "human gold eval prompt best running per time timing perf memory".split()
)
"""Words in the prefixes of names that do not describe the policy."""


_GOLDS = frozenset("gold golden true oracle intended hidden".split())
_OF_REWARDS = frozenset("mean reward score rm r model train utility return".split())


@lru_cache(maxsize=256)
def meant_beside(keys: tuple[str, ...]) -> str | None:
    """Return the key of the true reward in a row that also has a proxy reward, such as ``gold`` next to ``proxy``.

    Without a proxy reward, ``gold`` may be the correct answer to a prompt.
    """
    said = {key: words(_SCALE.sub("", key)) - _OF_REWARDS for key in keys}
    golds = [key for key, found in said.items() if len(found) == 1 and found <= _GOLDS]
    return golds[0] if len(golds) == 1 and {"proxy"} in said.values() else None


_AREAL = ("grpo_actor/update/", "ppo_actor/update/", "grpo_actor/", "ppo_actor/")


def _candidates(low: str) -> list[str]:
    names = [low]
    for prefix in ("train/", "training/", "metrics/", "train_", "rl/", "grpo/", *_AREAL):
        if low.startswith(prefix):
            names.append(low[len(prefix) :])
    head, _, path = low.partition("/")
    if "/" in path and not set(re.split(r"[\W_]+", head)) - _NAMESPACES:  # a word was added before a trainer's path
        names.append(path)
    return names


_SCORES = frozenset(
    "accuracy f1 em exact match pass success solve solved correct score reward win bleu rouge ndcg auc return "
    "maj recall mrr".split()
)
_NO_SCORES = frozenset(
    "std min max loss time length num count truncated kl entropy token variance norm seconds size step steps gap "
    "format only not without minus difference diff margin chosen rejected".split()
)
HELD_OUT = ("eval", "evaluation", "val", "validation", "dev", "test", "heldout", "held")
_HELD_OUT_WORD = re.compile(r"(?:eval|evaluation|val|validation|dev|test|held_?out|valid(?=/))(?![a-z])(?!/?$)")


UNIT_TESTS = re.compile(r"(?:unit_)?tests?_pass(?:ed)?_(?:rate|ratio|fraction|frac|share)")
"""The share of unit tests that the code in a response passes, which is not a score on test data."""
_OF_UNIT_TESTS = (Alias("success_rate", rank=160),)


def _scores_held_out(low: str, found: frozenset[str]) -> bool:
    """Return whether a key is a score on held-out data, such as ``eval/gsm8k/pass_at_1`` or ``dev_f1``."""
    part = "rewards/" in low  # a component of the reward
    return bool(_HELD_OUT_WORD.match(low) and not part and found & _SCORES and not found & _NO_SCORES)


def _rates(found: frozenset[str]) -> frozenset[str]:
    """Replace the word "ratio" with "rate", unless the words describe the importance ratio."""
    if "ratio" in found and len(found) > 1 and not found & {"importance", "policy", "mean", "max", "min"}:
        return found - {"ratio"} | {"rate"}
    return found
