from typing import Any

from grpo_doctor.testing import find, run_check


def dead(right: int, wrong: int, size: int = 8, rows: int = 24) -> dict[str, Any]:
    return {
        "groups": f"20x{rows}",
        "all_correct_groups": f"{right}x{rows}",
        "all_wrong_groups": f"{wrong}x{rows}",
        "group_size": f"{size}x{rows}",
    }


def test_two_heaps() -> None:
    assert run_check("DAT001", **dead(6, 7, rows=21)) is None
    found = find("DAT001", **dead(6, 7))
    assert found.severity == "warning"
    assert found.message == (
        "30% of the prompts are always solved and 35% never (prompts of one difficulty would give 1% together): few "
        "are left to learn from."
    )


def test_silent() -> None:
    assert run_check("DAT001", **dead(6, 6)) is None  # 60 % and not more
    assert run_check("DAT001", **dead(16, 1)) is None  # solved
    assert run_check("DAT001", **dead(9, 9, size=2)) is None  # pairs tie at any difficulty
