"""Functions that look like entry points are found without running anything, in a script and in what it imports, and
their adapter runs only the part of the script that it needs."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.probes import SEAMS, AdapterError, load_adapter, run_probes, trainer_parts
from grpo_doctor.probes.discover import ENTRY_POINTS, Found, ScriptObjects, adapter_for, discover
from grpo_doctor.probes.script import Script

TRAINER = """
import torch
raise RuntimeError("this file was run")

def build_prompt(tok, question): ...
def get_per_token_logps(model, input_ids, attention_mask, logits_to_keep=None): ...
def ref_logprobs(ref_model, input_ids): ...
def create_completion_mask(completion_ids, eos_id): ...
def compute_group_advantages(rewards, num_generations, eps=1e-4): ...
def grpo_loss(new_logps, old_logps, adv): ...
def generate_completions(model, tokenizer, prompts, max_new_tokens=8): ...
def accuracy_reward(text, gold, *, strict=False): ...
def log_metrics(step): ...
def seed_everything(seed): ...

class Trainer:
    def compute_loss(self, batch): ...
    def train_step(self, batch, advantages):
        self.compute_loss(batch).backward()
        self.optimizer.step()
    def accumulate(self, prompts, responses, advantages):
        self.compute_loss(prompts).backward()
    def sync_weights(self): ...

if __name__ == "__main__":
    Trainer().train()
"""
SEAM = {
    "build_prompt": "render", "get_per_token_logps": "logprobs", "ref_logprobs": "reference_logprobs",
    "create_completion_mask": "mask", "compute_group_advantages": "advantages", "grpo_loss": "objective",
    "generate_completions": "rollout", "accuracy_reward": "reward", "Trainer.compute_loss": "loss",
    "Trainer.train_step": "step", "Trainer.accumulate": "backward", "Trainer.sync_weights": "sync",
}  # fmt: skip


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    path = tmp_path / "my_trainer.py"
    path.write_text(TRAINER, encoding="utf-8")
    return path


def found_in(path: Path) -> list[Found]:
    return discover(Script(path))


def written_for(path: Path) -> str:
    script = Script(path)
    return adapter_for(script, discover(script))


def test_functions_are_recognised_by_names_signatures_and_calls(trainer: Path) -> None:
    found = found_in(trainer)
    assert {f.name: f.seam for f in found} == SEAM
    assert next(f for f in found if f.name == "accuracy_reward").required == ["text", "gold"]


def test_every_entry_point_can_be_found_and_written() -> None:
    # no trainer has a function that takes a verifier: `update` is written by hand
    assert set(ENTRY_POINTS) == set(SEAMS) - {"update"}


def test_the_adapter_calls_what_it_can_and_marks_the_rest(trainer: Path) -> None:
    text = written_for(trainer)
    ast.parse(text)
    scored = "model=model, input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=input_ids.shape[1] - 1"
    assert f"#     return trainer.get_per_token_logps({scored})" in text
    assert "#     return trainer.ref_logprobs(ref_model=reference, input_ids=input_ids)" in text
    grouped = "rewards=rewards.flatten(), num_generations=rewards.shape[1]"
    assert f"    return trainer.compute_group_advantages({grouped}).reshape(rewards.shape)" in text
    assert "    return [trainer.accuracy_reward(text=r, gold=a) for p, r, a in" in text
    assert "#     return trainer.generate_completions(model=model, tokenizer=tokenizer, prompts=prompts)" in text
    assert "#     return trainer.sync_weights()" in text
    assert "# <- to fill in: eos_id, prompts\n# def mask(prompts, responses):" in text


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("return prompt_ids, completion_ids, mask", "n=1)[1]"),
        ("return [r for r in prompts]", "n=1)\n"),
        ("def inner():\n        return a, b\n    return a", "n=1)\n"),
        ("return ids, mask", "# <- to fill in: which of (ids, mask)\n# def rollout(prompts)"),
    ],
)
def test_the_adapter_picks_the_responses_among_returned_values(tmp_path: Path, body: str, written: str) -> None:
    path = tmp_path / "rolls.py"
    path.write_text(f"def generate_completions(prompts, n=8):\n    {body}\n", encoding="utf-8")
    text = written_for(path)
    ast.parse(text)
    assert written in text


def test_the_command_writes_an_adapter_that_can_be_probed(tmp_path: Path) -> None:
    path, adapter = tmp_path / "simple.py", tmp_path / "adapter_simple.py"
    path.write_text("def verify(response, answer):\n    return float(response == answer)\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["probe", "--discover", str(path)])
    assert (result.exit_code, "verify(response, answer) looks like reward" in result.output) == (0, True)
    assert load_adapter(adapter).seams["reward"](["q"], ["5"], ["5"]) == [1.0]
    again = CliRunner().invoke(app, ["probe", "--discover", str(path)])
    assert (again.exit_code, "exists" in again.output) == (2, True)


@pytest.mark.parametrize("where", ["", "src/"])
def test_entry_points_in_the_files_that_a_trainer_imports_are_called(tmp_path: Path, where: str) -> None:
    script, losses = tmp_path / "scripts" / "train.py", tmp_path / where / "mine" / "losses.py"
    for path in (script, losses):
        path.parent.mkdir(parents=True)
    losses.write_text(
        "def grpo_loss(logps, old_logps, advantages, mask):\n    return [logps, old_logps, advantages, mask]\n", "utf-8"
    )
    losses.with_name("empty.py").write_text("(", encoding="utf-8")
    script.write_text("import torch\nfrom mine import empty\nfrom mine.losses import grpo_loss\n", encoding="utf-8")
    assert [(f.file.name, f.seam) for f in found_in(script)] == [("losses.py", "objective")]
    result = CliRunner().invoke(app, ["probe", "--discover", str(script)])
    assert (result.exit_code, "losses.py:1: grpo_loss(" in result.output) == (0, True)
    adapter = load_adapter(script.with_name("adapter_train.py"))
    assert adapter.seams["objective"](1, 2, 3, 4, 5, 6) == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("line", "seam"),
    [
        ("def train_policy_on_rollouts(samples, comps):\n    loss.backward()\n    opt.step()", "step"),
        ("def train_on_batch(batch):\n    return model(batch)", None),
        ("def compute_group_advantages(rewards_t, group_size): ...", "advantages"),
        ("def compute_advantages(reward_fn, responses): ...", None),
    ],
)
def test_names_of_the_batch_of_an_update(tmp_path: Path, line: str, seam: str | None) -> None:
    path = tmp_path / "named.py"
    path.write_text(line + "\n", encoding="utf-8")
    assert [f.seam for f in found_in(path)] == [seam] * (seam is not None)


SCRIPT = """
import sys
from pathlib import Path
from types import SimpleNamespace

Path("trained").touch()
group = 8
model = SimpleNamespace(name="large", modules=list)
model.padded = True
tokenizer = sys.argv[1:]

def rewarded(texts):
    return [float(len(t)) for t in texts]

def rollout(model, prompts, n, temperature):
    return [(p, n, temperature, model.name) for p in prompts]

def train(policy, config, temperature=0.7):
    optimizer = config.make(policy)
    for epoch in range(9):
        reference = SimpleNamespace(name="frozen " + policy.name, modules=list)
        texts = rollout(policy, data, n=group, temperature=temperature)
        for text in texts:
            loss.backward()

if __name__ == "__main__":
    train(model, config)
    Path("trained").touch()
"""


def test_a_script_runs_no_further_than_its_objects_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    parts = trainer_parts(path, "model", "tokenizer", "reference", "temperature")
    assert (parts.model.padded, parts.tokenizer, parts.reference.name) == (True, [], "frozen large")
    assert not {"group", "rewarded"} & vars(parts).keys()
    small = SimpleNamespace(name="small")
    assert trainer_parts(path, "reference", model=small).reference.name == "frozen small"
    assert not Path("trained").exists()


def test_a_call_in_the_training_loop_gives_the_arguments(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    text = written_for(path)
    assert "# optimizer = ...  # <- the policy's optimizer" in text  # it needs a config that nothing makes
    assert "model: Any = trainer.policy\n" in text
    path.with_name("adapter_script.py").write_text(text, encoding="utf-8")
    adapter = load_adapter(path.with_name("adapter_script.py"))
    assert adapter.seams["rollout"](["hi"]) == [("hi", 1, 0.7, "large")]
    assert adapter.settings == {"temperature": 0.7}


@pytest.mark.parametrize(
    ("loop", "written"),
    [
        ("model.generate(ids, num_return_sequences=G)", "trainer.G = 1  # response per prompt\n"),
        ("model.generate(ids.repeat(args.chains, 1))", "trainer.args.chains = 1  # response per prompt\n"),
        ("model.generate(ids)", "[trainer.rollout(question=p)[0] for p in prompts]"),
    ],
)
def test_a_rollout_of_a_group_makes_one_response_per_prompt(tmp_path: Path, loop: str, written: str) -> None:
    path = tmp_path / "groups.py"
    args = "question, args" if "args" in loop else "question"
    path.write_text(
        "from types import SimpleNamespace\nG, args, model = 8, SimpleNamespace(chains=8), None\n"
        f"def rollout({args}):\n    return {loop}\nrollout({args.replace('question', repr('hi'))})\n",
        encoding="utf-8",
    )
    assert written in written_for(path)


SAMPLES = """
import sys
class Group: ...
if len(sys.argv) > 1:
    model, tokenizer = sys.argv[1:]
else:
    tokenizer, model = object(), object()

def sample_response(model, tokenizer, prompt):
    return model.ids, len(model.ids), tokenizer.decode(model.ids)

def compute_advantage(group: Group): ...
"""


def test_finds_objects_of_a_condition_and_of_a_decoded_text(tmp_path: Path) -> None:
    path = tmp_path / "samples.py"
    path.write_text(SAMPLES, encoding="utf-8")
    text = written_for(path)
    assert "model: Any = trainer.model\ntokenizer: Any = trainer.tokenizer\n" in text
    assert "[trainer.sample_response(model=model, tokenizer=tokenizer, prompt=p)[2] for p in prompts]\n" in text
    assert "# <- to fill in: group\n" in text


def test_advantages_of_one_group_are_called_group_by_group(tmp_path: Path) -> None:
    path = tmp_path / "groups.py"
    path.write_text("def compute_advantages(rewards):\n    return rewards - rewards.mean()\n", encoding="utf-8")
    assert (
        "torch.stack([torch.as_tensor(trainer.compute_advantages(rewards=group)) for group in rewards])"
        in written_for(path)
    )
    path.write_text("def compute_advantages(rewards):\n    return rewards - rewards.mean(1)\n", encoding="utf-8")
    assert "return trainer.compute_advantages(rewards=rewards)" in written_for(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("def broken(:\n", "not valid Python"), ("x = 1\n", "looks like an entry point"), (None, "cannot be read")],
)
def test_an_object_that_is_not_a_trainer_is_exit_code_2(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "a.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["probe", "--discover", str(path)])
    assert (result.exit_code, said in result.output.replace("\n", " ")) == (2, True)


@pytest.mark.parametrize("content", [b"\x00\x01", b"\xff\xfe\x00", b"x = " + b"(" * 5000])
def test_invalid_bytes_are_rejected_as_not_python(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd name'\".py"
    path.write_bytes(content)
    with pytest.raises(AdapterError, match="not valid Python"):
        Script(path)


def test_updates_of_other_things_are_not_a_loss_and_objectives_by_token_are_called(tmp_path: Path) -> None:
    path = tmp_path / "packed.py"
    path.write_text(
        "def compute_loss(trainer_logprobs, inference_logprobs, advantages, loss_mask): ...\n"
        "def grpo_loss(model, batch, old_logps): ...\n"
        "def value_loss(values, old_values): ...\n"
        "def ppo_train_epoch(loader):\n    for batch in loader:\n        batch.backward()\n        opt.step()\n"
        "class Controller:\n    def update(self, kl):\n        self.value = kl\n"
        "class Engine:\n    def update_policy(self, model):\n        self.policy = model\n        return True\n",
        encoding="utf-8",
    )
    assert [(f.name, f.seam) for f in found_in(path)] == [
        ("compute_loss", "objective"), ("grpo_loss", "loss"), ("ppo_train_epoch", "step"),
    ]  # fmt: skip
    text = written_for(path)
    assert (
        "    return trainer.compute_loss("
        "trainer_logprobs=logprobs, inference_logprobs=old_logprobs, advantages=advantages, loss_mask=mask)"
    ) in text


KEEPING = """
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left

TEMPERATURE = 1.0
kl_coef = 0.02
entropy_coef = 0.0


class Trainer(Left):
    def __init__(self):
        super().__init__()
        self.model, self.tokenizer = self.model, self.tok
        self.optimizer = self.optimizer
        self.ref_model = self.reference

    def generate_candidates(self, prompts):
        return self.rollout(prompts)

    def compute_loss(self, prompts, responses, advantages):
        return self.loss(prompts, responses, advantages)


trainer = Trainer()


def load_prompts():
    return PROMPTS


def score_responses(responses, answers):
    return [float(r == a) for r, a in zip(responses, answers)]
"""


def test_a_right_trainer_is_healthy_by_the_adapter_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "keeping_trainer.py"
    path.write_text(KEEPING, encoding="utf-8")
    assert CliRunner().invoke(app, ["probe", "--discover", str(path)]).exit_code == 0
    adapter = load_adapter(tmp_path / "adapter_keeping_trainer.py")
    assert adapter.seams.keys() == {"rollout", "loss", "reward"}
    assert adapter.settings == {"temperature": 1.0, "kl_coef": 0.02, "entropy_coef": 0.0}
    assert adapter.seams["reward"](["q", "q"], ["5", "6"], ["5", "5"]) == [1.0, 0.0]
    diagnosis = run_probes(adapter)
    assert [f.message for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, diagnosis.coverage.passed >= 15) == ("healthy", True)


def test_nothing_that_was_not_found_is_more_than_a_comment(trainer: Path) -> None:
    text = written_for(trainer)
    live = ast.parse(text).body
    assert [node.name for node in live if isinstance(node, ast.FunctionDef)] == ["advantages", "reward"]
    assert [ast.unparse(n.targets[0]) for n in live if isinstance(n, ast.Assign)] == ["trainer"]
    assert "# model = ...  # <- the module" in text
    assert "# <- to fill in: an instance of Trainer\n# def sync():" in text
    assert "graded" in text.split("# ")[-1] or "# graded = " in text


def test_functions_inside_main_are_named_and_not_called(tmp_path: Path) -> None:
    path = tmp_path / "closed.py"
    path.write_text("def main():\n    def compute_loss(prompts, responses, advantages): ...\n", encoding="utf-8")
    text = written_for(path)
    assert "# <- to fill in: compute_loss out of main, which cannot be called from outside\n# def loss(" in text
    assert not [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize(
    ("line", "seam"),
    [
        ("def generate_candidates(prompts): ...", "rollout"),
        ("def compute_loss(prompts, responses, advantages): ...", "loss"),
        ("def push_weights(): ...", "sync"),
        ("def cut_responses(tokens): ...", "extract"),
        ("def extract(tokens, input_ids, attention_mask): ...", "extract"),
        ("def penalize(logits, input_ids): ...", "penalize"),
        ("def sync_reference(): ...", None),
    ],
)
def test_the_names_of_the_documentation_are_found(tmp_path: Path, line: str, seam: str | None) -> None:
    path = tmp_path / "documented.py"
    path.write_text(line + "\n", encoding="utf-8")
    assert [f.seam for f in found_in(path)] == [seam] * (seam is not None)


def test_a_script_of_a_package_ends_at_the_method_that_trains(tmp_path: Path) -> None:
    folder = tmp_path / "package_of_a_trainer"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "parts.py").write_text(
        "import torch\n"
        "class Trainer:\n"
        "    def __init__(self, policy):\n"
        "        self.optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)\n"
        "    def update(self):\n"
        "        raise RuntimeError('this method was run')\n"
        "        loss.backward()\n"
        "    def train(self):\n"
        "        self.update()\n"
        "def group_advantages(rewards):\n"
        "    return rewards - rewards.mean(1, keepdim=True)\n"
        "def length_reward(table, completions): ...\n",
        encoding="utf-8",
    )
    (folder / "train.py").write_text(
        "import torch\n"
        "from .parts import Trainer, group_advantages, length_reward\n"
        "def check(epsilon=1e-7):\n"
        "    torch.ones(1, requires_grad=True).backward()\n"
        "def main():\n"
        "    policy = torch.nn.Linear(2, 2)\n"
        "    trainer = Trainer(policy)\n"
        "    trainer.train()\n"
        "if __name__ == '__main__':\n"
        "    main()\n",
        encoding="utf-8",
    )
    path = folder / "adapter_train.py"
    path.write_text(written_for(folder / "train.py"), encoding="utf-8")
    adapter = load_adapter(path)
    assert isinstance(adapter.optimizer, torch.optim.SGD)
    assert isinstance(adapter.model, torch.nn.Linear)
    assert adapter.settings == {}
    assert adapter.seams["advantages"](torch.tensor([[0.0, 2.0]])).tolist() == [[-1.0, 1.0]]
    assert "reward" not in adapter.seams  # it takes a table, which no reward function in TRL's form does


@pytest.mark.parametrize(
    ("lines", "declared"),
    [
        ("CLIP_EPSILON = 0.2\nEPSILON = 1e-8", {"epsilon": 0.2}),
        ("EPS = 0.001", {"epsilon": 0.001}),
        ("EPS = 0.00099", {}),
        ("BETA = 0.1\nKL_COEF = 0.2", {}),
        ("BETA = 0.1\nKL_COEF = 0.1", {"kl_coef": 0.1}),
    ],
)
def test_a_setting_is_declared_by_names_with_one_value(tmp_path: Path, lines: str, declared: dict[str, float]) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{lines}\ndef loss(model, batch):\n    return model(batch)\n", encoding="utf-8")
    held = ScriptObjects(Script(script))
    values = vars(trainer_parts(script, *held.used))
    assert {name: values[taken.removeprefix("trainer.")] for name, taken in held.settings.items()} == declared


STAGES = """
def train_reward(model, rows):
    for row in rows:
        model(row).backward()

def train_policy(model, prompts):
    for prompt in prompts:
        loss(model, model.generate(prompt)).backward()

def main():
    stages = {"reward": lambda: train_reward(model, rows), "policy": lambda: train_policy(model, prompts)}
    stages["policy"]()

if __name__ == "__main__":
    main()
"""


def test_among_several_stages_the_one_that_samples_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(STAGES, encoding="utf-8")
    assert [loop.node.lineno for loop in Script(path).loops] == [7]


def test_functions_that_a_package_imports_for_its_users_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "package_of_rollouts"
    folder.mkdir()
    folder.joinpath("__init__.py").write_text("from .inner import generate_completions\n", encoding="utf-8")
    text = "def generate_completions(model, tokenizer, prompts): ...\n"
    folder.joinpath("inner.py").write_text(text, encoding="utf-8")
    path = tmp_path / "train.py"
    path.write_text("from package_of_rollouts import generate_completions\n", encoding="utf-8")
    assert [(f.seam, f.file.name) for f in found_in(path)] == [("rollout", "inner.py")]
