import pytest

from grpo_doctor.rollouts.answers import agrees, final_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{3} no, \boxed {4}", "4"),
        ("<answer> 42 </answer>", "42"),
        (r"<answer>\boxed{7}</answer>", "7"),
        ("reasoning\n#### 1,234", "1,234"),
        ("the answer is 5", None),
        (r"\boxed{unclosed", None),
    ],
)
def test_the_last_marked_answer_is_taken(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("given", "reference", "same"),
    [
        (r"\frac{1}{2}", "0.5", True),
        (r"\dfrac12", "1/2", True),
        ("1,234", "1234", True),
        (r"1{,}234", "1234", True),
        ("$5.00", "5", True),
        (r"12 \text{ apples}", "12", True),
        (r"50\%", "50", True),
        (r"90^\circ", "90", True),
        ("5 km", "5", True),
        ("A", "a", True),
        (r"\left( 1, 2 \right)", "(1,2)", True),
        ("-3", "3", False),
        ("6", "5", False),
        ("1/0", "5", None),
        ("x + 1", "1 + x", None),  # equal, but not as texts
        ("five", "5", None),
    ],
)
def test_answers_are_equal_as_numbers_or_as_texts(given: str, reference: str, same: bool | None) -> None:
    assert agrees(given, [reference]) is same


def test_a_reference_may_be_a_solution_or_one_of_several() -> None:
    assert agrees("72", ["48 + 24 = 72\n#### 72"]) is True
    assert agrees("Paris", ["paris", "City of Paris"]) is True
