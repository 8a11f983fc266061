from pathlib import Path

import pytest

import grpo_doctor
from grpo_doctor.testing import find

CALL = "GRPOTrainer(model='a/b', {passed}, args=GRPOConfig(num_generations=8))\n"
IMPORT = "from trl import GRPOConfig, GRPOTrainer\n"


def test_message() -> None:
    found = find("CFG067", {"refused_arguments": "ref_model, tokenizer", "group_size": 8}, loss="0")
    assert (found.severity, found.message) == ("error", "GRPOTrainer does not accept ref_model, tokenizer.")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (IMPORT + CALL.format(passed="tokenizer=t"), True),
        (IMPORT + CALL.format(passed="beta=0.1"), True),
        (IMPORT + CALL.format(passed="processing_class=t"), False),
        (IMPORT + CALL.format(passed="a_later_argument=t"), False),
        ("from mine import GRPOTrainer\nfrom trl import GRPOConfig\n" + CALL.format(passed="tokenizer=t"), False),
        ("import unsloth\n" + IMPORT + CALL.format(passed="tokenizer=t"), False),
        (IMPORT + CALL.format(passed="tokenizer=t") + CALL.format(passed="processing_class=t"), False),
        (f"{IMPORT}try:\n    {CALL.format(passed='tokenizer=t')}except TypeError:\n    pass\n", False),
    ],
)
def test_boundary(tmp_path: Path, script: str, told: bool) -> None:
    (path := tmp_path / "train.py").write_text(script)
    assert (grpo_doctor.preflight(path).finding("CFG067") is not None) is told
