import pytest

from grpo_doctor.rollouts.texts import echoes, foreign, refuses, repeats, scripts

ASKED = "A store has 512 apples and receives 77 more on the next day. How many apples are there in the store then?"


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("x" * 40 + "y" * 40 + ("abcdefghij" * 4) * 3, False),  # 200 characters, whose last 40 occur three times
        ("y" * 40 + ("abcdefghij" * 3 + "klmnopqrst") * 4, True),  # four times
        ("y" * 39 + ("abcdefghij" * 3 + "klmnopqrst") * 4, False),  # 199 characters
        (" ".join(f"word{n}" for n in range(300)), False),
        ("The same eight words come here again and " * 14 + "over", True),
        (" ".join(f"round {n // 4}: add the two halves of the number again," for n in range(40)), True),
    ],
)
def test_a_loop_is_a_repeated_end_or_mostly_repeated_words(text: str, loops: bool) -> None:
    assert repeats(text) is loops


@pytest.mark.parametrize(
    ("text", "prompt", "echo"),
    [
        (ASKED, f"system\nBe brief.\nuser\n{ASKED}\nassistant\n", True),
        (f"{ASKED} So it is 589.", ASKED, True),
        ("There are 589 apples, since 512 and 77 are 589, and no apple leaves the store.", ASKED, False),
        ("589", "589", True),
        ("apples", ASKED, False),
        ("", ASKED, False),
    ],
)
def test_an_echo_begins_with_the_words_of_the_prompt(text: str, prompt: str, echo: bool) -> None:
    assert echoes(text, prompt) is echo


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("I'm sorry, but I can't assist with that.", True),
        ("As an AI language model, I have no opinion.", True),
        ("Unfortunately, I cannot provide this.", True),
        ("I cannot stress enough that 2 + 2 = 4.", False),
        ("The sorry state of affairs.", False),
    ],
)
def test_refusals_are_found_at_the_beginning(text: str, refusal: bool) -> None:
    assert refuses(text) is refusal


def test_letters_of_scripts_that_the_prompt_does_not_use_are_foreign() -> None:
    assert foreign(scripts("她还剩 ab"), scripts(ASKED)) == pytest.approx(0.6)
    assert foreign(scripts("她还剩"), scripts("她还剩几个苹果？")) == 0
    assert foreign(scripts("123"), scripts(ASKED)) != foreign(scripts("123"), scripts(ASKED))
