"""The runner: restored state, code that raises or hangs, and ways to start it."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import random
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import grpo_doctor.probes as probes
from grpo_doctor.cli import app
from grpo_doctor.diagnosis.catalogue import Catalogue, load, load_file
from grpo_doctor.diagnosis.check import HEADINGS, PROVES, CheckError
from grpo_doctor.probes import Adapter, AdapterError, load_adapter, run_probes
from tests.fuzz.adapters import Wordless
from tests.probes import broken_reference
from tests.probes.reference import Reference

HERE = Path(__file__).parent


def state_of(trainer: Reference) -> dict[str, Any]:
    """Hashes and copies of everything that a probe must not change."""

    def digest(*tensors: torch.Tensor) -> str:
        return hashlib.sha256(b"".join(t.detach().contiguous().numpy().tobytes() for t in tensors)).hexdigest()

    model = trainer.model
    return {
        "weights": digest(*model.state_dict().values()),
        "reference": digest(*trainer.reference.state_dict().values()),
        "gradients": [None if p.grad is None else digest(p.grad) for p in model.parameters()],
        "trainable": [p.requires_grad for p in model.parameters()],
        "optimizer": [
            sorted((k, digest(v) if isinstance(v, torch.Tensor) else v) for k, v in s.items())
            for s in trainer.optimizer.state.values()
        ],
        "groups": [{k: v for k, v in g.items() if k != "params"} for g in trainer.optimizer.param_groups],
        "modes": [m.training for m in model.modules()],
        "checkpointing": [getattr(m, "gradient_checkpointing", None) for m in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "own": [sorted(k for k in vars(m) if k in ("generate", "forward", "train")) for m in model.modules()],
        "config": copy.deepcopy(model.generation_config.to_dict()),
        "tokenizer": (trainer.tok.padding_side, trainer.tok.pad_token, trainer.tok.pad_token_id),
        "random": (random.getstate(), np.random.get_state()[1].tolist(), digest(torch.get_rng_state())),  # type: ignore[index]
    }


def test_everything_is_left_as_it_was_found_within_seconds() -> None:
    trainer = broken_reference.TrainMode()
    trainer.step(*_samples())
    trainer.model.train()
    before, began = state_of(trainer), time.process_time()
    run_probes(trainer.adapter())
    assert time.process_time() - began < 30
    assert state_of(trainer) == before


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attentions"])
def test_hooks_that_a_library_installs_lazily_still_work_afterwards(asked: str) -> None:
    trainer = Reference()

    def loss(prompts: Any, responses: Any, advantages: torch.Tensor) -> torch.Tensor:
        ids = torch.tensor([trainer.render(prompts[0])])
        trainer.model(input_ids=ids, **{asked: True})
        return trainer.loss(prompts, responses, advantages)

    trainer.model.set_attn_implementation("eager")
    run_probes(trainer.adapter("rollout", loss=loss), catalogue=load().select(["PAD002"]))
    found = trainer.model(input_ids=torch.tensor([[5, 6, 7]]), **{asked: True})
    given = found.hidden_states if asked == "output_hidden_states" else found.attentions
    assert len(given) == (2 if asked == "output_hidden_states" else 1)


def test_an_entry_point_that_could_not_be_used_leaves_the_verdict_open() -> None:
    trainer = Reference()

    def rollout(prompts: Any) -> list[list[int]]:
        return [[5, 6] for _ in prompts]

    diagnosis = run_probes(trainer.adapter("render", "mask", rollout=rollout))
    assert (diagnosis.verdict, diagnosis.findings) == ("unjudged", [])
    assert diagnosis.headline.startswith("1 of 3 entry points could not be used, so nothing is known about them. ")
    (note,) = diagnosis.notes
    assert note.startswith(
        "The entry point rollout was provided but could not be used: rollout makes no visible use of the adapter's model"
    )


def _samples() -> tuple[Any, ...]:
    return ([[{"role": "user", "content": "hi"}]] * 2, [[5, 6], [7, 8]], torch.tensor([1.0, -1.0]))


def test_an_exception_in_user_code_is_reported_with_its_place_and_other_probes_run() -> None:
    def advantages(rewards: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no rewards today")

    trainer = Reference()
    before = state_of(trainer)
    diagnosis = run_probes(trainer.adapter("render", "mask", advantages=advantages))
    assert diagnosis.verdict == "unjudged"
    assert any(
        "raised RuntimeError" in n and "test_runner.py" in n and "no rewards today" in n for n in diagnosis.notes
    )
    assert diagnosis.coverage.passed >= 2
    assert state_of(trainer) == before


def test_code_that_leaves_the_process_or_cannot_say_why_is_reported_too(tmp_path: Path) -> None:
    def leaves(rewards: torch.Tensor) -> torch.Tensor:
        raise SystemExit(0)

    def mute(rewards: torch.Tensor) -> torch.Tensor:
        raise Wordless

    for seam, words in ((leaves, "raised SystemExit"), (mute, "(the error has no readable message)")):
        diagnosis = run_probes(Adapter(seams={"advantages": seam}), catalogue=load().select(["ADV006"]))
        assert diagnosis.verdict == "unjudged"
        assert words in diagnosis.notes[0]
    (adapter := tmp_path / "adapter.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["probe", str(adapter)])
    assert (done.exit_code, "raised SystemExit" in done.stderr) == (2, True)


@pytest.mark.parametrize("code", ["while True: pass", "def adapter():\n    while True: pass"])
def test_the_time_limit_covers_what_the_adapter_does_when_it_is_loaded(tmp_path: Path, code: str) -> None:
    (path := tmp_path / "adapter.py").write_text(code)
    done = CliRunner().invoke(app, ["probe", str(path), "--time-limit", "0.2"])
    assert done.exit_code == 2
    assert f"{path} raised TimeoutError at {path}:{1 + code.count(chr(10))}" in done.output
    assert "took longer than 0.2 s" in done.output


def test_names_the_returned_and_the_expected_value_of_an_entry_point() -> None:
    class Trajectory:
        """Of a trainer's own."""

    trainer = Reference()

    def rollout(prompts: Any) -> list[Any]:
        return [Trajectory() for _ in trainer.rollout(prompts)]

    adapter = trainer.adapter("render", "mask", rollout=rollout)
    diagnosis = run_probes(adapter, catalogue=load().select(["PAD001"]))
    assert diagnosis.verdict == "unjudged"
    said = " ".join(diagnosis.notes)
    assert "rollout returned Trajectory where ids are expected (a list of int, or a tensor)" in said


def test_no_reader_is_sent_to_a_probe_that_has_found_nothing() -> None:
    trainer = Reference()
    adapter = trainer.adapter(
        "rollout", loss=lambda prompts, responses, advantages: 0 * trainer.loss(prompts, responses, advantages)
    )
    for codes in (["RAT007"], ["RAT007", "STL004"]):
        diagnosis = run_probes(adapter, catalogue=load().select(codes))
        (needs,) = [s["needs"] for s in diagnosis.coverage.skipped if s["code"] == "RAT007"]
        assert ("see STL004" in str(needs)) == ("STL004" in codes and diagnosis.finding("STL004") is not None)


def test_a_probe_that_takes_too_long_is_ended() -> None:
    def advantages(rewards: torch.Tensor) -> torch.Tensor:
        time.sleep(5)
        return rewards

    adapter = Adapter(seams={"advantages": advantages})
    began = time.monotonic()
    diagnosis = run_probes(adapter, catalogue=load().select(["ADV006"]), time_limit=0.2)
    assert time.monotonic() - began < 3
    assert diagnosis.notes == ["ADV006 advantage-not-centred: took longer than 0.2 s"]


def test_missing_parts_are_skipped_and_named() -> None:
    diagnosis = run_probes(Adapter())
    assert diagnosis.verdict == "unjudged"
    assert {"code": "ADV006", "needs": ["advantages"]} in diagnosis.coverage.skipped
    assert diagnosis.coverage.ran == 0


@pytest.mark.parametrize(
    ("seams", "message"),
    [
        ({"extrat": print}, "unknown entry point 'extrat'; did you mean 'extract'?"),
        ({"mask": 3}, "entry point 'mask' is int, not a function"),
    ],
)
def test_a_wrong_adapter_reports_what_is_wrong(seams: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=message.replace("?", r"\?")):
        Adapter(seams=seams)


@pytest.mark.parametrize(
    ("held", "message"),
    [({"model": "Qwen/Qwen3"}, "model is str, which has no modules"), ({"prompts": "hi"}, "prompts is str"),
     ({"optimizer": 1e-6}, "optimizer is float, which has no param_groups"), ({"settings": [1]}, "settings is list")],
)  # fmt: skip
def test_an_object_of_the_wrong_kind_for_its_name_is_refused(held: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        Adapter(**held)


@pytest.mark.parametrize(
    "held",
    [{"prompts": torch.tensor([[1, 2], [3, 4]])}, {"prompts": np.array(["a", "b"])}, {"settings": None},
     {"settings": MappingProxyType({"temperature": 1.0})}],
)  # fmt: skip
def test_a_column_of_a_table_and_settings_that_are_none_or_a_view_are_taken(held: dict[str, Any]) -> None:
    trainer = Reference()
    adapter = dataclasses.replace(trainer.adapter(), **held)
    assert run_probes(adapter, catalogue=load().select(["ADV006"])).verdict == "healthy"
    assert dict(adapter.settings) == (held.get("settings", trainer.adapter().settings) or {})


def test_every_probe_states_what_it_certifies() -> None:
    with_probe = [check for check in load().checks.values() if check.probe is not None]
    assert len(with_probe) >= 28
    assert [check.code for check in with_probe if f"## {PROVES}" not in check.page] == []


# -- the ways to run ------------------------------------------------------------------------------------------------


def write_adapter(folder: Path, twin: str) -> Path:
    path = folder / "adapter.py"
    path.write_text(
        f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("trainers", {str(HERE / "reference.py")!r})
trainers = importlib.util.module_from_spec(spec); spec.loader.exec_module(trainers)
class Broken(trainers.Reference):
    def extract(self, tokens, input_ids, attention_mask):
        counts = (input_ids != self.tok.pad_token_id).sum(1).tolist()
        return [row[n:] for row, n in zip(tokens.tolist(), counts)]
trainer = {twin}()
model, tokenizer, prompts = trainer.model, trainer.tok, trainers.PROMPTS
render, extract = trainer.render, trainer.extract
""".replace("trainers.Reference()", "trainers.Reference()"),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("twin", "code", "words"),
    [("trainers.Reference", 0, "All probed properties hold"), ("Broken", 1, "PAD001"), ("1/0 or ", 2, "")],
)
def test_the_command_line_has_the_exit_codes_of_analyze(tmp_path: Path, twin: str, code: int, words: str) -> None:
    result = CliRunner().invoke(app, ["probe", str(write_adapter(tmp_path, twin)), "--no-color"])
    assert result.exit_code == code, result.output
    assert words in result.output
    if code == 2:
        assert "raised ZeroDivisionError at" in result.output
        assert "Traceback" not in result.output


def test_output_of_the_trainer_is_not_part_of_the_report(tmp_path: Path) -> None:
    path = write_adapter(tmp_path, "Broken")
    told = "print('loading')\nplain = render\ndef render(prompt):\n    print('rendering')\n    return plain(prompt)\n"
    path.write_text(path.read_text(encoding="utf-8") + told, encoding="utf-8")
    result = CliRunner().invoke(app, ["probe", str(path), "-f", "json", "--select", "PAD001"])
    assert json.loads(result.stdout)["runs"][0]["cause"] == "PAD001"
    assert {"loading", "rendering"} <= set(result.stderr.split())


def test_full_shows_what_not_to_use_and_why_probes_were_skipped(tmp_path: Path) -> None:
    path = write_adapter(tmp_path, "Broken")
    shown = CliRunner().invoke(app, ["probe", str(path), "--full", "--select", "PAD001", "--select", "KL006"]).output
    assert "Do not use" in shown
    assert "skipped (entry point not given)" in shown
    assert "since step 0" not in shown


def test_a_module_that_is_named_like_an_entry_point_is_none(tmp_path: Path) -> None:
    path = tmp_path / "adapter.py"
    modules = "import torch\nobjective, loss = torch.nn.Identity(), torch.nn.L1Loss()\n"
    path.write_text(f"{modules}def advantages(rewards):\n    return rewards\n", encoding="utf-8")
    assert list(load_adapter(path).seams) == ["advantages"]


@pytest.mark.parametrize(
    ("names", "verdict", "words"),
    [
        (("advantages",), "unproven", "no core property was probed: the loss mask, ratio and clip, KL, padding. All"),
        (("render", "mask"), "healthy", "hold. Not probed: ratio and clip, KL, padding."),
    ],
)
def test_a_trainer_without_any_core_property_is_unproven(names: tuple[str, ...], verdict: str, words: str) -> None:
    diagnosis = run_probes(Reference().adapter(*names))
    assert (diagnosis.verdict, words in diagnosis.headline) == (verdict, True), diagnosis.headline


@pytest.mark.parametrize(
    "body", ["def sync():\n    pass", "def advantages(rewards):\n    return rewards - rewards.mean(1, keepdim=True)"]
)
def test_nothing_judged_and_no_core_property_are_exit_code_3(tmp_path: Path, body: str) -> None:
    path = tmp_path / "part.py"
    path.write_text(f"{body}\n", encoding="utf-8")
    assert CliRunner().invoke(app, ["probe", str(path)]).exit_code == 3


@pytest.mark.parametrize(
    ("text", "words"), [(None, "no such file"), ("x = 1\n", "defines no entry point"), ("adapter = 3", "is int")]
)
def test_an_unusable_adapter_is_exit_code_2(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "adapter.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["probe", str(path)])
    assert result.exit_code == 2
    assert words in result.output


def test_new_adapter_writes_a_file_that_can_be_probed_and_overwrites_none(tmp_path: Path) -> None:
    path = tmp_path / "adapter.py"
    assert CliRunner().invoke(app, ["new-adapter", str(path)]).exit_code == 0
    again = CliRunner().invoke(app, ["new-adapter", str(path)])
    assert again.exit_code == 2
    assert "--force" in again.output
    named = [
        line.split("def ")[1].split("(")[0] for line in path.read_text(encoding="utf-8").splitlines() if "def " in line
    ]
    assert {*named, "tool_mask"} == set(probes.SEAMS)  # which is env_mask by another name


test_suite = probes.suite(lambda: Reference().adapter(), select=("PAD", "ADV"), ignore=("ADV014", "ADV017", "PAD006"))


def test_a_case_of_the_suite_without_its_entry_point_is_skipped() -> None:
    case = probes.suite(lambda: Reference().adapter(), select=("ADV017",))
    with pytest.raises(pytest.skip.Exception, match="needs update"):
        case("ADV017")


def test_a_probe_that_asks_for_an_unknown_entry_point_is_refused(tmp_path: Path) -> None:
    page = "\n\n".join(f"## {heading}\nx" for heading in (*HEADINGS, PROVES))
    file = tmp_path / "typing_error.py"
    file.write_text(
        f'from grpo_doctor import probe\n\n@probe("OWN950")\ndef typing_error(advantage):\n    """Low.\n\n{page}\n"""\n',
        encoding="utf-8",
    )
    with pytest.raises(CheckError, match=r"OWN950: 'advantage' is not an entry point; did you mean 'advantages'\?"):
        run_probes(Adapter(), catalogue=Catalogue([load_file(file)]))


def test_default_prompts_are_texts_for_a_trainer_that_fails_on_dialogues() -> None:
    trainer, asked = Reference(), []

    def render(prompt: Any) -> list[int]:
        asked.append(prompt)
        return list(trainer.tok.encode("Question: " + prompt, add_special_tokens=False))

    adapter = Adapter(model=trainer.model, tokenizer=trainer.tok, seams={"render": render, "mask": trainer.mask})
    diagnosis = run_probes(adapter)
    assert diagnosis.finding("PAD002") is None
    assert "PAD002" in diagnosis.coverage.passed_codes
    assert isinstance(asked[0], list)
    assert all(isinstance(prompt, str) for prompt in asked[1:])
