"""The learnability canary: correct trainers learn a planted token, and those with a broken loop do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.faults import faulty_engine
from grpo_doctor.probes import AdapterError
from grpo_doctor.probes.canary import Canary, canary
from tests.probes.reference import Reference
from tests.probes.styles import Left
from tests.probes.test_engine import adapting

STEPS = 9
"""Updates that are enough for trainers of a model this small; the engine needs three more."""


class TrainsThePrompt(Reference):
    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        return 1 - super().response_mask(ids, lengths)


@pytest.mark.parametrize(
    ("kind", "names"),
    [(Left, ("rollout", "loss")), (lambda: Left(lora="plain"), ())],
)
def test_a_right_trainer_learns_the_planted_token(kind: Any, names: tuple[str, ...]) -> None:
    torch.set_num_threads(1)
    found = canary(kind().adapter(*names), steps=STEPS)
    assert found.learned, str(found)
    assert found.paid > 2 * found.control


def test_a_broken_loop_does_not_learn_it() -> None:
    torch.set_num_threads(1)
    found = canary(TrainsThePrompt().adapter(), steps=STEPS)
    assert not found.learned, str(found)
    assert "does not learn" in str(found)


@pytest.mark.parametrize(("fault", "learned"), [((), True), (("stale-rollout-weights",), False)])
def test_the_engine_learns_and_its_broken_variants_do_not(fault: tuple[str, ...], learned: bool) -> None:
    kind, settings = faulty_engine(fault)
    assert canary(adapting(**settings)(kind if fault else Engine), steps=STEPS + 3).learned is learned


def test_everything_is_restored() -> None:
    trainer = Reference()
    before = [p.detach().clone() for p in trainer.model.parameters()]
    rate = trainer.optimizer.param_groups[0]["lr"]
    canary(trainer.adapter(), steps=3)
    assert all(torch.equal(p, b) for p, b in zip(trainer.model.parameters(), before, strict=True))
    assert (trainer.optimizer.param_groups[0]["lr"], len(trainer.optimizer.state)) == (rate, 0)


def test_an_adapter_without_a_loop_reports_what_is_missing() -> None:
    with pytest.raises(AdapterError, match="needs: model, optimizer, and step"):
        canary(Reference().adapter("render", "mask"))
    with pytest.raises(AdapterError, match="needs: rollout"):
        canary(Reference().adapter("loss"))


@pytest.mark.parametrize(("effect", "code", "words"), [(9.0, 0, "The trainer learns"), (0.4, 1, "does not learn")])
def test_the_command_prints_effect_and_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: float, code: int, words: str
) -> None:
    monkeypatch.setattr("grpo_doctor.probes.canary.canary", lambda *_, **__: Canary(5, "a", 24, 0.1, 0.3, 0.1, effect))
    path = tmp_path / "adapter.py"
    path.write_text("from tests.probes.reference import Reference\nadapter = Reference().adapter()\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["probe", str(path), "--canary"])
    assert (done.exit_code, words in done.stdout, "in 24 steps" in done.stdout) == (code, True, True), done.output


def test_the_command_refuses_an_adapter_without_a_loop(tmp_path: Path) -> None:
    path = tmp_path / "adapter.py"
    path.write_text("from tests.probes.reference import Reference\nadapter = Reference().adapter('mask')\n")
    assert CliRunner().invoke(app, ["probe", str(path), "--canary"]).exit_code == 2
