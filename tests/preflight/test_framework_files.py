"""Frameworks as files: the error for an invalid one, and that a new one needs only its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_doctor.preflight import frameworks as registry
from grpo_doctor.preflight.frameworks import FOLDER, FrameworkError, frameworks, load, vocabulary
from grpo_doctor.readers.settings import meanings

RIGHT = """name = "mytrainer"
source = "mytrainer 1.0, config.py"
keys = "nested"

[evidence]
programs = [{ pattern = 'mytrainer', weight = 10 }]

[settings]
group_size = ["rollout.copies"]

[defaults]
group_size = 4
"""


def loaded(folder: Path, text: str) -> registry.Framework:
    (folder / "mytrainer.toml").write_text(text, encoding="utf-8")
    (framework,) = load(folder)
    return framework


def test_a_file_is_enough_for_a_framework(tmp_path: Path) -> None:
    framework = loaded(tmp_path, RIGHT)
    assert framework.settings == {"group_size": ("rollout.copies",)}
    assert framework.starts("python -m mytrainer.run")
    assert not framework.starts("python -m other.run")


@pytest.mark.parametrize(
    ("wrong", "instead", "line", "why"),
    [
        ("group_size = [", "grup_size = [", 9, "use a name of it"),
        ('keys = "nested"', 'keys = "deep"', 3, "Invalid enum value 'deep'"),
        ("[settings]", "[setings]", 8, "unknown field `setings`"),
        ("weight = 10", 'weight = "ten"', 6, "Expected `float`"),
        ("'mytrainer', weight", "'my(trainer', weight", 6, "is not a regular expression"),
        ('name = "mytrainer"', "name = mytrainer", 1, "not TOML"),
        ('keys = "nested"', 'keys = "nested"\nextends = "gone"', 4, "no file has the name 'gone'"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_remedy(
    tmp_path: Path, wrong: str, instead: str, line: int, why: str
) -> None:
    with pytest.raises(FrameworkError) as raised:
        loaded(tmp_path, RIGHT.replace(wrong, instead))
    assert why in str(raised.value)
    assert re.search(rf"mytrainer\.toml:{line}: |line {line}[,)]|at line {line}", str(raised.value))


def test_names_come_from_one_vocabulary_and_each_is_used() -> None:
    used = {name for f in frameworks() for name in (*f.settings, *f.defaults)}
    assert {name for name in used if not name.startswith("_")} <= vocabulary().keys()
    followed = {name for f in frameworks() for rule in f.when for name in rule.set}
    assert followed <= vocabulary().keys() | meanings()["capabilities"].keys()


def test_no_framework_is_named_in_python_code() -> None:
    """Comments and docstrings may name a framework; a condition may not."""
    names = {f.name for f in frameworks() if not f.can("beside_the_weights")}
    told = re.compile(rf"[\"'](?:{'|'.join(map(re.escape, sorted(names)))})[\"']")
    code = [*FOLDER.parent.rglob("*.py"), *(FOLDER.parents[2] / "checks").rglob("*.py")]
    found = [
        f"{path.name}:{n}"
        for path in code
        for n, text in enumerate(path.read_text("utf-8").splitlines(), 1)
        if told.search(text)
    ]
    assert found == []


def test_code_asks_only_for_capabilities_that_exist() -> None:
    code = "\n".join(path.read_text("utf-8") for path in FOLDER.parent.rglob("*.py"))
    asked = set(re.findall(r'\bcan\("(\w+)"\)', code))
    assert "batch_is_per_device" in asked
    assert asked <= meanings()["capabilities"].keys()
