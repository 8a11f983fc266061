from pathlib import Path

import pytest

import grpo_doctor
from grpo_doctor.testing import find

OWN = "group_size = 8\nkl_coef = 0.1\nlr = 1e-6\n"
PAD = "tok.pad_token = tok.eos_token\n"
MASK = "completion_mask = (ids != tok.pad_token_id).int()\n"


def test_message() -> None:
    found = find("CFG042", {"mask_without_eos": "completion_mask", "group_size": 8}, loss="0")
    assert found.severity == "warning"
    assert found.message == "completion_mask masks out the EOS token, because it is also the padding token."


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (PAD + MASK, True),
        (PAD + "response_mask = ids.ne(pad_token_id).float()\n", True),
        (PAD + "labels[labels == tok.pad_token_id] = -100\n", True),
        (PAD + "labels[attention_mask.eq(0)] = -100\n", False),
        (MASK, False),
        (f"if tok.pad_token is None:\n    {PAD}{MASK}", False),
        (PAD + "attention_mask = (ids != tok.pad_token_id)\n", False),
        (PAD + "completion_mask = positions <= first_eos\n", False),
    ],
)
def test_finds_the_mask_in_the_code_of_a_script(tmp_path: Path, code: str, told: bool) -> None:
    (path := tmp_path / "a.py").write_text(OWN + code)
    assert (grpo_doctor.preflight(path).finding("CFG042") is not None) is told
