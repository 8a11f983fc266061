from pathlib import Path

import pytest

import grpo_doctor
from grpo_doctor.testing import find

MESSAGES = "[{'role': 'user', 'content': x['q']}]"
MAPPED = "data = load_dataset('a').map(lambda x: {'prompt': PROMPT})"
OF_MESSAGES = "[len(c[0]['content']) for c in completions]"
OF_TEXT = "[len(re.findall('a', c)) for c in completions]"


def test_message() -> None:
    found = find("CFG044", {"wrong_form": "score reads each completion as text", "group_size": 8}, loss="0")
    assert (found.severity, found.message) == ("error", "The reward function score reads each completion as text.")


def script(dataset: str, prompt: str, score: str) -> str:
    """A TRL script whose dataset has this prompt and whose reward function returns this expression."""
    return (
        f"from trl import GRPOConfig, GRPOTrainer\ndef score(completions, a=None, **kwargs):\n    return {score}\n"
        f"{dataset.replace('PROMPT', prompt)}\nargs = GRPOConfig(num_generations=8)\n"
        "GRPOTrainer(reward_funcs=[score], args=args, train_dataset=data)\n"
    )


@pytest.mark.parametrize(
    ("dataset", "prompt", "score", "told"),
    [
        (MAPPED, MESSAGES, OF_TEXT, True),
        (MAPPED, MESSAGES, OF_MESSAGES, False),
        (MAPPED, "'Q: ' + x['q']", OF_MESSAGES, True),
        (MAPPED, "f\"Q: {x['q']}\"", OF_MESSAGES, True),
        (MAPPED, "t.apply_chat_template(m, tokenize=False)", OF_MESSAGES, True),
        (MAPPED, "'Q: ' + x['q']", OF_TEXT, False),
        # by a mapped function, by a function that loads, and after methods that keep the rows
        (
            f"def row(x):\n    p = {MESSAGES}\n    return {{'prompt': p}}\ndata = load().map(row).shuffle()",
            "",
            OF_TEXT,
            True,
        ),
        (
            f"def row(x):\n    x['prompt'] = {MESSAGES}\n    return x\ndata = load()['train'].map(row)",
            "",
            OF_TEXT,
            True,
        ),
        (
            f"def made(s):\n    d = load(s)[s]\n    d = d.map(lambda x: {{'prompt': {MESSAGES}}})\n    return d\n"
            "data = made('train')\ndata = data.select(range(9))",
            "",
            OF_TEXT,
            True,
        ),
        (MAPPED, MESSAGES, "[c.strip() == b for c, b in zip(completions, a)]", True),
        (MAPPED, MESSAGES, "[c.strip() == a for i, c in enumerate(completions)]", True),
        # what may be either says nothing
        (MAPPED, "x['q']", OF_MESSAGES, False),
        (MAPPED, "p", OF_MESSAGES, False),
        (MAPPED, MESSAGES, "[f(c) for c in completions]", False),
        (MAPPED, MESSAGES, "[c.strip() if isinstance(c, str) else c[0]['content'] for c in completions]", False),
        (MAPPED + "\nif a:\n    data = other()", MESSAGES, OF_TEXT, False),
        (MAPPED + "\ndata = data.map(row)", MESSAGES, OF_TEXT, False),
        (MAPPED + "\ndata = data.map(lambda x: {'prompt': f(x)})", MESSAGES, OF_TEXT, False),
        (MAPPED.replace("PROMPT}", "PROMPT}, batched=True"), MESSAGES, OF_TEXT, False),
    ],
)
def test_the_form_of_prompts_and_of_a_reward(tmp_path: Path, dataset: str, prompt: str, score: str, told: bool) -> None:
    (path := tmp_path / "a.py").write_text(script(dataset, prompt, score))
    assert (grpo_doctor.preflight(path).finding("CFG044") is not None) is told
