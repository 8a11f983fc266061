from pathlib import Path

import pytest

import grpo_doctor
from grpo_doctor.testing import find

SCRIPT = (
    "from trl import GRPOConfig, GRPOTrainer\nSYSTEM = 'You are good.'\nINST = '[INST]'\n"
    "data = load_dataset('a').map(lambda x: {{'prompt': {prompt}}})\n"
    "GRPOTrainer(model='{model}', reward_funcs=f, args=GRPOConfig(num_generations=8), train_dataset=data)\n"
)


def test_message() -> None:
    found = find("CFG045", {"plain_prompts": True, "model": "a/b-Instruct"}, loss="0")
    message = "Prompts are plain text without a chat template, but a/b-Instruct is an instruct model."
    assert (found.severity, found.message) == ("info", message)


@pytest.mark.parametrize(
    ("prompt", "model", "told"),
    [
        ("'Q: ' + x['q']", "Qwen/Qwen2.5-7B-Instruct", True),
        ("'Q: ' + x['q']", "google/gemma-3-1b-it", True),
        ("'Q: ' + x['q']", "unsloth/llama-3-8b-Instruct-bnb-4bit", True),
        ("'Q: ' + x['q']", "Qwen/Qwen2.5-7B", False),
        ("f\"{SYSTEM} Q: {x['q']}\"", "Qwen/Qwen2.5-7B-Instruct", True),
        ("f\"<|im_start|>user {x['q']}\"", "Qwen/Qwen2.5-7B-Instruct", False),
        ("f\"{INST} {x['q']}\"", "Qwen/Qwen2.5-7B-Instruct", False),
        ("f\"{t.bos(x)} {x['q']}\"", "Qwen/Qwen2.5-7B-Instruct", False),
        ("[{'role': 'user', 'content': x['q']}]", "Qwen/Qwen2.5-7B-Instruct", False),
        ("t.apply_chat_template(m, tokenize=False)", "Qwen/Qwen2.5-7B-Instruct", False),
    ],
)
def test_plain_prompts_of_an_instruct_model(tmp_path: Path, prompt: str, model: str, told: bool) -> None:
    (path := tmp_path / "a.py").write_text(SCRIPT.format(prompt=prompt, model=model))
    assert (grpo_doctor.preflight(path).finding("CFG045") is not None) is told
