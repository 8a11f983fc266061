"""The page on probes: its commands and its adapter, from ``probe --init`` to a first result."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from tests.probes.reference import make_model, make_tokenizer

PAGE = Path(__file__).parents[2] / "docs" / "probes.md"
TRAINER = """
from tests.probes.reference import PROMPTS, Reference

class Trainer(Reference):
    entropy_coef = 0.01
    starts_at_count = {starts_at_count}

    def generate_candidates(self, prompts):
        inputs = self.tok.pad({{"input_ids": [self.render(p) for p in prompts]}}, return_tensors="pt")
        ids, real = inputs["input_ids"], inputs["attention_mask"]
        out = self.sample(ids, real)
        if self.starts_at_count:
            return [row[n:].tolist() for row, n in zip(out, real.sum(1))]
        return self.extract(out, ids, real)

trainer = Trainer()
model, tokenizer, reference = trainer.model, trainer.tok, trainer.reference
generate_candidates, compute_loss = trainer.generate_candidates, trainer.loss

def load_prompts():
    return PROMPTS
"""


def page() -> str:
    """The page on probes."""
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("starts_at_count", "code"), [(False, 0), (True, 1)])
def test_from_new_adapter_to_a_first_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts_at_count: bool, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_trainer", raising=False)
    Path("my_trainer.py").write_text(TRAINER.format(starts_at_count=starts_at_count), encoding="utf-8")
    commands = re.findall(r"^\$ grpo-doctor (.*?)\s*(?:#.*)?$", page(), re.MULTILINE)
    assert commands[:2] == ["probe --init adapter.py", "probe adapter.py"]

    made = CliRunner().invoke(app, commands[0].split())
    assert made.exit_code == 0, made.output
    adapter = re.search(r"^```python\n(# adapter\.py\n.*?)^```", page(), re.DOTALL | re.MULTILINE)
    assert adapter is not None
    Path("adapter.py").write_text(adapter[1], encoding="utf-8")

    words = [*commands[1].split(), "--no-color", "-o", "report.json", "-f", "json"]
    result = CliRunner().invoke(app, [*words, *(["--select", "PAD001"] if starts_at_count else [])])
    assert result.exit_code == code, result.output
    report = Path("report.json").read_text(encoding="utf-8")
    if starts_at_count:
        assert '"cause":"PAD001"' in report.replace(" ", "")
    else:
        promised = set(re.findall(r"\b[A-Z]{2,3}\d{3}\b", page().split("With these two")[1].split("--init")[0]))
        assert promised == {"PAD001", "PAD002", "PAD003", "PAD004", "KL006", "GEN005", "TOK005", "ENT006", "RAT007"}
        assert {code for code in promised if f'"{code}"' not in report} == set()


def test_the_adapter_of_any_transformers_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = re.search(r"^```python\n(# model_adapter\.py\n.*?)^```", page(), re.DOTALL | re.MULTILINE)
    assert block is not None
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    path = tmp_path / "model_adapter.py"
    path.write_text(re.sub(r'name = ".*?"', f"name = {str(tmp_path / 'model')!r}", block[1]), encoding="utf-8")
    report = tmp_path / "report.json"
    result = CliRunner().invoke(app, ["probe", str(path), "-o", str(report), "-f", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(report.read_text(encoding="utf-8"))["runs"][0]["coverage"]["passed"] >= 8
