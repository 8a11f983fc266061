"""A training loop that is one piece is run with given prompts, responses and advantages, up to its first updates."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_doctor import Diagnosis
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import TrainerLoop, load_adapter, run_probes
from grpo_doctor.probes.discover import adapter_for, discover
from grpo_doctor.probes.loop_hooks import HOOKS
from grpo_doctor.probes.script import Script, read_before
from grpo_doctor.probes.trainer_objects import reachable_objects
from grpo_doctor.probes.updates import CaughtBackward

DATA = """
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        words = ("copy a", "name the tools", "again, please say it", "hi")
        self.rows = [{"question": f"{w} {n}", "answer": str(n)} for n in range(8) for w in words]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, n):
        return self.rows[n]
def make_loader():
    return DataLoader(Rows(), batch_size=4, shuffle=True)
"""
SCRIPT = """
import copy
import torch
from tests.probes.reference import make_model, make_tokenizer
from {data} import make_loader

G = 2

def format_reward(completion):
    return float("a" in completion)

def log_probs(model, ids, mask):
    logits = model(ids, attention_mask=mask).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)

def main():
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    ref_model = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    loader = make_loader()
    for batch in loader:
        {inside}
        texts = [tokenizer.apply_chat_template([{{"role": "user", "content": q}}], tokenize=False,
                 add_generation_prompt=True) for q in batch["question"] for _ in range(G)]
        given = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        width = given["input_ids"].shape[1]
        ids = model.generate(**given, max_new_tokens=8, do_sample=True, top_k=0, pad_token_id=tokenizer.pad_token_id)
        written = ids[:, width:]
        rewards = torch.tensor([format_reward(t) for t in tokenizer.batch_decode(written, skip_special_tokens=True)])
        groups = rewards.view(-1, G)
        advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1)
        mask = torch.cat([given["attention_mask"], (written != tokenizer.pad_token_id).long()], 1)
        action = mask[:, 1:].clone()
        action[:, :width - {shift}] = 0
        with torch.no_grad():
            ref = log_probs(ref_model, ids, mask)
        new = log_probs(model, ids, mask)
        ratio = (new - new.detach()).exp()
        kl = (ref - new).exp() - (ref - new) - 1
        loss = -(((ratio * advantages[:, None] - 0.1 * kl) * action).sum(1) / action.sum(1)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
        raise RuntimeError("what follows an update is not run")

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Write a trainer whose loop is one piece, with a change that the test names."""
    change: dict[str, Any] = {"inside": "pass", "shift": 1, **getattr(request, "param", {})}
    data = f"loop_data_{abs(hash(tmp_path))}"
    tmp_path.joinpath(f"{data}.py").write_text(DATA, encoding="utf-8")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.format(data=data, **change), encoding="utf-8")
    return path


NESTED = """
import numpy as np
import torch
from torch.utils.data import DataLoader
from {data} import Rows
from tests.probes.reference import make_model, make_tokenizer

tokenizer, rng = make_tokenizer(), np.random.default_rng(0)
tokenizer.padding_side = "left"
rows = Rows().rows

def log_probs(model, ids, mask):
    logits = model(ids, attention_mask=mask).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)

def train(policy, rounds):
    if rounds == 0:
        return policy
    for _ in range(rounds):
        optimizer = torch.optim.SGD(policy.parameters(), lr=1e-2)
        for step in range(100):
            batch = [rows[n] for n in rng.choice(len(rows), size=2, replace=False)]
            chats = [[{{"role": "user", "content": row["question"]}}] for row in batch]
            texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
            given = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
            print(tokenizer.batch_decode(given["input_ids"]))
            ids = policy.generate(**given, max_new_tokens=8, do_sample=True, top_k=0, pad_token_id=tokenizer.pad_token_id)
            written = ids[:, given["input_ids"].shape[1]:]
            rewards = torch.tensor([float(len(t)) for t in tokenizer.batch_decode(written, skip_special_tokens=True)])
            advantages: torch.Tensor = rewards - rewards.mean()
            mask = torch.cat([given["attention_mask"], (written != tokenizer.pad_token_id).long()], 1)
            action = mask[:, 1:].clone()
            action[:, : given["input_ids"].shape[1] - 1] = 0
            order = torch.cat([*DataLoader(rng.permutation(2), batch_size=1, shuffle=True)])
            batch_advantages = advantages[order]
            new = log_probs(policy, ids[order], mask[order])
            ratio = (new - new.detach()).exp()
            loss = -(ratio * batch_advantages[:, None] * action[order]).sum() / action.sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return policy

train(make_model(tokenizer), 2)
"""

COLLECTED = """
import random
import torch
from {data} import Rows
from tests.probes.reference import make_model, make_tokenizer

class Agent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokenizer = make_tokenizer()
        self.model = make_model(self.tokenizer)

agent, rows = Agent(), Rows().rows
optimizer = torch.optim.SGD(agent.parameters(), lr=1e-2)

def collect(question):
    chat = [{{"role": "user", "content": question}}]
    text = agent.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    given = agent.tokenizer([text], return_tensors="pt", add_special_tokens=False)
    pad = agent.tokenizer.pad_token_id
    ids = agent.model.generate(**given, max_new_tokens=8, do_sample=True, top_k=0, num_return_sequences=2, pad_token_id=pad)
    return [dict(ids=row[None], width=given["input_ids"].shape[1], pad=pad) for row in ids]

def log_probs(one):
    ids, real = one["ids"], (one["ids"] != one["pad"]).long()
    mask = real[:, 1:].clone()
    mask[:, : one["width"] - {shift}] = 0
    logits = agent.model(ids, attention_mask=real).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1), mask

def train():
    buffer = []
    for question in {questions}:
        buffer.extend(collect(question))
    rewards = []
    for one in buffer:
        with torch.no_grad():
            one["old"], _ = log_probs(one)
        rewards.append(float(len({scored})))
    advantages = torch.tensor(rewards) - sum(rewards) / len(rewards)
    for epoch in range(2):
        for n, one in enumerate(buffer):
            new, mask = log_probs(one)
            ratio = (new - one["old"]).exp()
            loss = -(torch.minimum(ratio * advantages[n], ratio.clamp(0.8, 1.2) * advantages[n]) * mask).sum() / mask.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

train()
"""

EVALUATION = (
    "model.generate(**tokenizer(batch['question'], return_tensors='pt', padding=True, padding_side='left')); "
    "batch = {'question': [str(torch.rand(2)) for _ in range(2)]}"
)


def _probed(path: Path, *codes: str) -> Diagnosis:
    """Probe the generated adapter of a script, with all probes or with those of some checks."""
    adapter = path.with_name("adapter_train.py")
    read = Script(path)
    adapter.write_text(adapter_for(read, discover(read)), encoding="utf-8")
    return run_probes(load_adapter(adapter), catalogue=load().select(codes))


def _codes(path: Path) -> dict[str, str]:
    diagnosis = _probed(path)
    assert diagnosis.coverage.ran > 15
    return {f.code: f.severity for f in diagnosis.findings if f.severity != "info"}


def test_the_generated_adapter_of_a_right_loop_has_no_error(script: Path) -> None:
    assert _codes(script) == {}


def test_a_generator_inside_the_optimizer_loop_has_no_error(script: Path) -> None:
    data = next(script.parent.glob("loop_data_*.py")).stem
    script.write_text(NESTED.format(data=data), encoding="utf-8")
    assert _codes(script) == {}


QUESTIONS = (
    "[row['question'] for row in random.sample(rows, 2)]",
    "['name the tools']",
    "[row['question'] for row in random.sample(list(rows), 2)]",
)
"""Questions from the training data, a question in the code, and questions from a copy of the training data."""


def _collected(script: Path, **changes: Any) -> Path:
    """Write a trainer that collects its samples before it trains on them for several epochs."""
    data = next(script.parent.glob("loop_data_*.py")).stem
    changes = {"scored": "agent.tokenizer.decode(one['ids'][0])", **changes}
    script.write_text(COLLECTED.format(data=data, **changes), encoding="utf-8")
    return script


@pytest.mark.parametrize("questions", QUESTIONS)
def test_samples_that_are_collected_before_the_loop_belong_to_every_pass(script: Path, questions: str) -> None:
    assert _codes(_collected(script, questions=questions, shift=1)) == {}


def test_a_loop_that_decodes_no_text_is_judged_but_for_its_extraction(script: Path) -> None:
    path = _collected(script, questions=QUESTIONS[0], shift=1, scored="one['ids'][0]")
    found = _probed(path, "PAD", "RAT007", "REW")
    assert [f.code for f in found.findings if f.severity != "info"] == []
    assert {"PAD001", "PAD002", "RAT007"} & {*found.coverage.passed_codes} == {"PAD002", "RAT007"}


def test_a_mask_over_samples_that_are_collected_before_the_loop_is_found(script: Path) -> None:
    diagnosis = _probed(_collected(script, questions=QUESTIONS[0], shift=2), "PAD002")
    assert [f.severity for f in diagnosis.findings] == ["critical"]


def test_a_loop_without_data_runs_on_its_own_prompt(script: Path) -> None:
    loop = TrainerLoop(_collected(script, questions=QUESTIONS[1], shift=1))
    assert (len(loop.prompts or ()), "name the tools" in (loop.prompts or [""])[0], loop.whole) == (1, True, True)
    torch.manual_seed(0)
    new = loop.parts.Agent().model
    for own, other in zip(loop.model.parameters(), new.parameters(), strict=True):
        assert torch.equal(own, other)


def test_names_that_a_loop_assigns_before_it_reads_them_are_not_needed() -> None:
    loop = ast.parse("for n in rows:\n    if n:\n        score = check(n)\n        print(score)\n    total += n").body[
        0
    ]
    assert read_before(loop) == {"rows", "check", "print", "total"}


@pytest.mark.parametrize("script", [{"shift": 2}], indirect=True)
def test_a_mask_that_begins_one_token_early_is_found_without_editing_the_adapter(script: Path) -> None:
    assert [f.severity for f in _probed(script, "PAD002").findings] == ["critical"]


@pytest.mark.parametrize("script", [{"shift": 0}], indirect=True)
def test_a_mask_without_the_first_token_is_not_called_a_wrong_clip(script: Path) -> None:
    found = _probed(script, "PAD002", "RAT007")
    assert [f.code for f in found.findings] == ["PAD002"]
    assert ["no first response token has a gradient; see PAD002"] in [s["needs"] for s in found.coverage.skipped]


def test_a_pass_trains_on_the_given_samples_and_leaves_the_weights(script: Path) -> None:
    loop = TrainerLoop(script)
    assert (loop.copies, loop.whole, len(loop.prompts or ())) == (2, False, 4)
    assert loop.optimizer.param_groups[0]["lr"] == 1e-2
    assert loop.step is not None
    assert loop.prompts is not None
    before = [p.detach().clone() for p in loop.model.parameters()]
    backward = CaughtBackward(loop.step, loop.model, loop.optimizer)
    gradients = []
    for sign in (1.0, -1.0, 0.0):
        loop.model.zero_grad()
        backward(loop.prompts[:2], [[5, 6, 163], [7, 163]], sign * torch.tensor([1.0, 0.5]))
        gradients.append(torch.cat([p.grad.flatten() for p in loop.model.parameters() if p.grad is not None]))
    assert torch.allclose(gradients[0], -gradients[1], atol=1e-6)
    assert float(gradients[0].norm()) > 1e-3 > float(gradients[2].norm())
    assert all(torch.equal(b, p) for b, p in zip(before, loop.model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"inside": "continue"}, "the loop draws data again and again without training on it"),
        ({"inside": "break"}, "the loop ends before every response was trained on"),
        ({"inside": "batch = {'question': ['hi', 'copy']}"}, "the loop samples prompts that are not in its data"),
        ({"inside": EVALUATION}, "the loop samples prompts that it does not train on; switch its evaluation off"),
        ({"inside": "raise KeyError('device')"}, "KeyError: 'device'"),
    ],
    indirect=["script"],
)
def test_a_loop_that_cannot_be_run_by_itself_is_named_with_its_reason(script: Path, reason: str) -> None:
    with pytest.warns(UserWarning, match=f"the training loop cannot be run by itself: .*{reason}"):
        loop = TrainerLoop(script)
    assert (loop.rollout, loop.step) == (None, None)
    assert None not in (loop.model, loop.tokenizer)


CRITIC = """
        value_optimizer.zero_grad()
        value(new.detach().mean().reshape(1, 1)).sum().backward()
        value_optimizer.step()
        updates += 1
        if updates <= {alone}:
            continue
        loss.backward()
"""


def _with_critic(script: Path, alone: int) -> Path:
    """Add a critic, which is updated before the policy and, in the first updates, without the policy."""
    made = "    value, updates = torch.nn.Linear(1, 1), 0\n    value_optimizer = torch.optim.SGD(value.parameters(), lr=1e-2)\n"
    text = script.read_text().replace("    loader = make_loader()\n", made + "    loader = make_loader()\n")
    script.write_text(text.replace("\n        loss.backward()\n", CRITIC.format(alone=alone)), encoding="utf-8")
    return script


def test_a_critic_that_is_updated_before_the_policy_does_not_end_a_pass(script: Path) -> None:
    found = _probed(_with_critic(script, alone=0), "STL004", "PAD002", "RAT007")
    assert [f.code for f in found.findings if f.severity != "info"] == []
    assert {"STL004", "PAD002"} <= {*found.coverage.passed_codes}


def test_a_policy_that_waits_for_its_critic_is_not_called_frozen(script: Path) -> None:
    with pytest.warns(UserWarning, match="the first updates train another model, such as a critic, and not the policy"):
        loop = TrainerLoop(_with_critic(script, alone=1000))
    assert (loop.rollout, loop.step) == (None, None)


@pytest.mark.parametrize("script", [{"inside": "raise TimeoutError('took longer than 60 s')"}], indirect=True)
def test_a_loop_that_exceeds_the_time_limit_is_not_run_again(script: Path) -> None:
    with pytest.raises(TimeoutError, match="took longer than 60 s"):
        TrainerLoop(script)


OWN_TOKENIZER = """
class Own:
    pad_token_id, eos_token_id = property(lambda self: self.own.pad_token_id), property(lambda self: self.own.eos_token_id)
    def __init__(self):
        self.own = make_tokenizer()
    def __call__(self, texts, **how):
        return self.own(texts, **how)
    def encode(self, text):
        return self.own.encode(text, add_special_tokens=False)
    def decode(self, ids):
        return self.own.decode(ids)
    def batch_decode(self, rows, **how):
        return self.own.batch_decode(rows, **how)
    def apply_chat_template(self, *args, **how):
        return self.own.apply_chat_template(*args, **how)

def main():
    tokenizer = Own()
    model = make_model(tokenizer.own)
"""


def test_a_tokenizer_of_the_trainer_needs_no_length(script: Path) -> None:
    made = "\ndef main():\n    tokenizer = make_tokenizer()\n    model = make_model(tokenizer)\n"
    script.write_text(script.read_text().replace(made, OWN_TOKENIZER), encoding="utf-8")
    loop = TrainerLoop(script)
    assert loop.rollout is not None
    assert loop.prompts is not None
    assert all("<" not in text for text in loop.rollout(loop.prompts[:2]))


def test_the_scheduler_that_passes_of_a_loop_advance_is_restored(script: Path) -> None:
    loop = TrainerLoop(script)
    assert loop.step is not None
    assert reachable_objects([loop.step]).schedulers == [loop.parts.warmup]


def test_own_modules_are_compiled_without_a_bytecode_cache(script: Path) -> None:
    loop = TrainerLoop(script)
    assert any(HOOKS in vars(sys.modules[f.stem]) for f in script.parent.glob("loop_data_*.py"))
    assert loop.step is not None
    assert not script.with_name("__pycache__").exists()
