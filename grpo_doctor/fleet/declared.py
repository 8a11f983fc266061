"""Collects the settings of a run from its log, the configurations in its folder, and the names of its folder and
file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..readers import ReadError
from ..readers.settings import declared, setting_value
from ..report.redaction import cleaned

MOST = 400
"""Maximum number of settings kept per run."""
LONGEST = 120
"""Maximum length of a setting's value in characters. Longer values are texts, not settings."""
_ARCHITECTURE = frozenset({"model_type", "architectures"})
"""Keys of a model's ``config.json``, which does not describe a training run."""
_ASSIGNED = re.compile(r"([A-Za-z][\w.]{0,60})=([^,/\s=]{1,60})")
_JOINED = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z]{1,24})[-_]?(\d{1,9}(?:\.\d{1,9})?(?:e-?\d{1,3})?)(?=$|[-_/,+ .](?!\d))"
)
_NAMES = frozenset({"model", "reference", "responses", "rows"})
"""Words that are not settings although a number follows them: ``model-7`` is a name."""

Settings = dict[str, Any]


def settings_of(log: Mapping[str, Any], configurations: Iterable[Path], name: str) -> Settings:
    """Return the settings of a run. The log overrides the configurations, and the configurations override the name."""
    found: Settings = {}
    for source in (log.items(), *map(_of_configuration, configurations), _of_name(name)):
        for key, value in source:
            if key not in found and len(found) < MOST and (plain := _plain(value)) is not None:
                found[key] = plain
    return dict(cleaned(found))


def _plain(value: Any) -> str | int | float | bool | None:
    """Return the value if it can be compared between runs. Return None for lists, long texts and NaN, and for integers
    of more than 64 bits, which cannot be encoded."""
    if isinstance(value, int) and value.bit_length() > 63:
        return None
    if isinstance(value, bool | int) or (isinstance(value, float) and value == value):
        return value
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST else None


def _of_configuration(path: Path) -> Iterable[tuple[str, Any]]:
    """Return the settings of a document under the names that checks use; empty if the document is invalid."""
    from ..preflight.readers.document import read_document
    from ..preflight.reading import LARGEST

    try:
        if path.stat().st_size > LARGEST:
            return
        (launch,) = read_document(path.read_text(encoding="utf-8", errors="replace"), path)
    except (OSError, ReadError):
        return
    if _ARCHITECTURE & {entry.key for entry in launch.entries}:
        return
    for entry in launch.entries:
        yield declared(entry.key) or entry.key, entry.value


def _of_name(name: str) -> Iterable[tuple[str, Any]]:
    """Parse names such as ``lr=1e-6,beta=0.04``, as Hydra and Ray Tune write them. A name such as ``lr1e-6-seed3`` is
    parsed only if it contains a known setting."""
    for key, value in _ASSIGNED.findall(name):
        words = key.split("_")
        known = (declared("_".join(words[first:])) for first in range(len(words)))
        setting = next(filter(None, known), key)
        yield setting, _read(setting, value)
    for part in name.split("/"):
        found = [(word, declared(word), value) for word, value in _JOINED.findall(part)]
        found = [(word, setting, value) for word, setting, value in found if setting not in _NAMES]
        if any(setting for _, setting, _ in found):
            yield from ((setting or word, _read(setting or word, value)) for word, setting, value in found)


def _read(setting: str, value: str) -> Any:
    plain = setting_value(setting, value)
    return value if plain is None else plain
