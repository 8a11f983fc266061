"""Trainers with custom parts: a critic, detached scores, a tokenizer, a model's generate."""

from __future__ import annotations

import itertools
import random
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, ScriptedSampler, run_probes
from grpo_doctor.probes.intercept import logits_of
from grpo_doctor.probes.tokenizers import readable
from tests.probes.open_notes import open_notes
from tests.probes.styles import Left, Scores


def probed(adapter: Adapter, *codes: str) -> Diagnosis:
    torch.set_num_threads(1)
    return run_probes(adapter, catalogue=load().select(codes))


def passed(diagnosis: Diagnosis) -> set[str]:
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert open_notes(diagnosis) == []
    return set(diagnosis.coverage.passed_codes)


def max_for_min(s: Left, ratio: Tensor, advantages: Tensor) -> Tensor:
    return torch.max(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


# -- a critic ------------------------------------------------------------------------------------------------------


class Critic(Left):
    """PPO: the score at the last token, a critic's values, and an advantage for every token by GAE."""

    whitens = False

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        mask = new.mask.float()
        values = 1.5 * torch.cos(3.0 * torch.arange(mask.shape[1])) * mask
        last = mask * (torch.nn.functional.pad(mask, (0, 1))[:, 1:] == 0)
        gains, gain = [], torch.zeros(len(mask))
        for t in reversed(range(mask.shape[1])):
            following = values[:, t + 1] if t + 1 < mask.shape[1] else torch.zeros(len(mask))
            surprise = last[:, t] * advantages[:, t] + following - values[:, t]
            gain = (surprise + 0.95 * gain) * mask[:, t]
            gains.append(gain)
        table = torch.stack(gains[::-1], 1)
        if self.whitens:
            table = (table - table[mask > 0].mean()) / (table[mask > 0].std() + 1e-8)
        return super().objective(new, old, reference, table)


class Whitens(Critic):
    whitens = True


@pytest.mark.parametrize("kind", [Critic, Whitens])
def test_advantages_that_a_critic_changes_are_still_followed(kind: type[Critic]) -> None:
    assert passed(probed(kind().adapter("rollout", "loss"), "PAD002", "RAT007")) == {"PAD002", "RAT007"}


def test_a_wrong_clip_is_seen_after_a_critic() -> None:
    faulty = type("Faulty", (Critic,), {"surrogate": max_for_min})()
    assert [f.code for f in probed(faulty.adapter("rollout", "loss"), "RAT007").findings] == ["RAT007"]


def test_a_critic_that_is_clipped_apart_is_not_a_clip_without_effect() -> None:
    trainer = Left()
    critic = torch.nn.Linear(1, 1)
    trainer.optimizer.add_param_group({"params": list(critic.parameters())})

    def step(prompts: Any, responses: Any, advantages: Tensor) -> None:
        trainer.optimizer.zero_grad()
        value = (critic(advantages[:, None]) - advantages[:, None]).square().sum()
        torch.autograd.backward(trainer.loss(prompts, responses, advantages) + value)
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()

    adapter = trainer.adapter("rollout", "loss")
    adapter.seams["step"] = step
    assert passed(probed(adapter, "GRD007")) == {"GRD007"}


# -- rows in an order of chance -------------------------------------------------------------------------------------


class Shuffles(Critic):
    """Builds its batch in a different order on each call, like a loop over shuffled mini-batches."""

    def order(self, rows: int) -> list[int]:
        return torch.randperm(rows).tolist()

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        order = self.order(len(prompts))
        return super().loss([prompts[n] for n in order], [responses[n] for n in order], advantages[order])


class ShufflesPlainly(Shuffles):
    def order(self, rows: int) -> list[int]:
        return random.sample(range(rows), rows)


@pytest.mark.parametrize("kind", [Shuffles, ShufflesPlainly])
def test_shuffled_rows_do_not_hide_the_effect_of_a_call(kind: type[Shuffles]) -> None:
    assert passed(probed(kind().adapter("rollout", "loss"), "PAD002")) == {"PAD002"}


# -- scores that are detached afterwards ---------------------------------------------------------------------------


class Detaches(Left):
    """Runs every forward pass with gradients, and detaches what it does not train."""

    def old_scores(self, prompts: Any, responses: Any) -> Tensor:
        return self.scores(self.model, prompts, responses).logprobs.detach()


class ReferenceIsThePolicy(Detaches):
    def reference_scores(self, prompts: Any, responses: Any) -> Tensor:
        return self.scores(self.model, prompts, responses).logprobs.detach()


def test_a_detached_forward_counts_as_one_without_gradient() -> None:
    codes = {"KL003", "RAT003", "RAT007"}
    assert passed(probed(Detaches().adapter("rollout", "loss"), *codes)) == codes
    found = probed(ReferenceIsThePolicy().adapter("rollout", "loss"), "KL003").findings
    assert [f.code for f in found] == ["KL003"]
    faulty = type("Faulty", (Detaches,), {"surrogate": max_for_min})()
    assert [f.code for f in probed(faulty.adapter("rollout", "loss"), "RAT007").findings] == ["RAT007"]


class OneByOne(Left):
    """Takes the old log-probabilities of each sample alone, without the padding of the batch, through a list."""

    def old_scores(self, prompts: Any, responses: Any) -> Tensor:
        drawn: list[float] = []
        with torch.no_grad():
            for prompt, response in zip(prompts, responses, strict=True):
                alone = self.scores(self.model, [prompt], [response])
                drawn += alone.logprobs[alone.mask > 0].tolist()
        mask = self.batch(prompts, responses)[2][:, 1:]
        return torch.zeros(mask.shape).masked_scatter(mask > 0, torch.tensor(drawn))


def test_old_log_probabilities_of_other_padding_are_those_of_the_same_tokens() -> None:
    codes = {"RAT003", "RAT007", "KL006"}
    assert passed(probed(OneByOne().adapter("rollout", "loss"), *codes)) == codes


# -- a sampling loop inside the loss -------------------------------------------------------------------------------


class Loops(Left):
    """Draws the responses in a custom loop, and uses the log-probabilities of the draws as the old ones."""

    def old_scores(self, prompts: Any, responses: Any) -> Tensor:
        with torch.no_grad():
            mask, drawn = self.scores(self.model, prompts, responses).mask, []
            with ScriptedSampler(self.tok, self.model).saying(responses):
                for prompt, response in zip(prompts, responses, strict=True):
                    ids = torch.tensor([prompt])
                    for _ in response:
                        table = self.model(input_ids=ids).logits[:, -1].log_softmax(-1)
                        token = torch.multinomial(table.exp(), 1)
                        drawn.append(table.gather(1, token))
                        ids = torch.cat([ids, token], 1)
        return torch.zeros(mask.shape).masked_scatter(mask > 0, torch.cat(drawn))


class LosesTheSign(Loops):
    def surrogate(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        return super().surrogate(ratio, -advantages)


def test_ratio_and_clip_are_judged_where_old_log_probabilities_come_out_of_a_loop() -> None:
    right = probed(Loops().adapter("rollout", "loss"), "RAT007")
    assert (right.findings, right.coverage.passed_codes) == ([], ["RAT007"])
    (found,) = probed(LosesTheSign().adapter("rollout", "loss"), "RAT007").findings
    assert found.message == "The loss moves 4 of 4 samples against the sign of their advantage."


# -- a tokenizer, and a model that generates by itself -------------------------------------------------------------


class Letters:
    """`encode`, `decode`, two special ids, and nothing else."""

    def __init__(self) -> None:
        self.letters = [chr(i) for i in range(32, 127)]
        self.vocab_size, self.pad_token_id, self.eos_token_id = len(self.letters) + 2, 95, 96

    def encode(self, text: str) -> list[int]:
        return [self.letters.index(c) for c in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.letters[i] for i in ids if i < 95)


class Nano(torch.nn.Module):
    """As in nanoGPT: without targets only the logits of the last position, and a generate that never stops early."""

    def __init__(self, size: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = torch.nn.Embedding(size, 16), torch.nn.Linear(16, size)
        self.cell = torch.nn.GRU(16, 16, batch_first=True)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        hidden = self.cell(self.embed(idx) * 4)[0]
        logits = self.head(hidden if targets is not None else hidden[:, -1:]) * 4
        return logits, None if targets is None else torch.nn.functional.cross_entropy(logits.mT, targets)

    @torch.no_grad()
    def generate(self, idx: Tensor, new: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        for _ in range(new):
            logits = self(idx)[0][:, -1] / temperature
            if top_k is not None:
                logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
            idx = torch.cat([idx, torch.multinomial(logits.softmax(-1), 1)], 1)
        return idx


class Trainer:
    top_k: int | None = None
    temperature = scored = 0.7

    def __init__(self) -> None:
        self.tok = Letters()
        self.model = Nano(self.tok.vocab_size)

    def render(self, prompt: str) -> list[int]:
        return self.tok.encode(f"Q: {prompt} A:")

    def rollout(self, prompts: list[str]) -> list[list[int]]:
        found = []
        for width, rows in itertools.groupby(map(self.render, prompts), len):
            out = self.model.generate(torch.tensor(list(rows)), 12, self.temperature, self.top_k)[:, width:].tolist()
            found += [row[: row.index(96) + 1] if 96 in row else row for row in out]
        return found

    def scores(self, ids: Tensor, labels: Tensor) -> Tensor:
        return self.model(ids, labels)[0]  # type: ignore[no-any-return]

    def loss(self, prompts: list[str], responses: list[list[int]], advantages: Tensor) -> Tensor:
        rows = [[*self.render(p), *r] for p, r in zip(prompts, responses, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([r + [95] * (width - len(r)) for r in rows])
        logits = self.scores(ids[:, :-1], ids[:, 1:])
        logp = (logits / self.scored).log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        gains = [
            a * logp[n, len(row) - len(r) - 1 : len(row) - 1].sum()
            for n, (row, r, a) in enumerate(zip(rows, responses, advantages, strict=True))
        ]
        return -torch.stack(gains).sum() / sum(map(len, responses))

    def adapter(self) -> Adapter:
        return Adapter(
            model=self.model, tokenizer=self.tok, prompts=["copy a", "name the tools, then stop", "again?"],
            settings={"temperature": self.temperature, "entropy_coef": 0.0, "kl_coef": 0.0},
            seams={"rollout": self.rollout, "loss": self.loss},
        )  # fmt: skip


class ByHand(Trainer):
    """Calls the parts of the model directly, and its head only on the last position."""

    cut = 0

    @torch.no_grad()
    def rollout(self, prompts: list[str]) -> list[list[int]]:
        found = []
        for width, rows in itertools.groupby(map(self.render, prompts), len):
            idx = torch.tensor(list(rows))
            for _ in range(12):
                last = self.model.cell(self.model.embed(idx) * 4)[0][:, -1]
                logits = self.model.head(last) * 4 / self.temperature
                idx = torch.cat([idx, torch.multinomial(logits.softmax(-1), 1)], 1)
            said = idx[:, width + self.cut :].tolist()
            found += [row[: row.index(96) + 1] if 96 in row else row for row in said]
        return found


class CutsByHand(ByHand):
    cut = 1


class TopK(Trainer):
    top_k = 5


class TopFifty(Trainer):
    top_k = 50


class ScoresAtOne(Trainer):
    scored = 1.0


class Sized(Nano):
    """Its generate takes a length first, passes other arguments to its forward, and returns only new tokens."""

    @torch.no_grad()
    def generate(self, size: int, prompt: Tensor | None = None, **kwargs: Any) -> Tensor:  # type: ignore[override]
        assert prompt is not None
        idx = prompt
        for _ in range(size - prompt.shape[1]):
            idx = torch.cat([idx, torch.multinomial(self(idx, **kwargs)[0][:, -1].softmax(-1), 1)], 1)
        return idx[:, prompt.shape[1] :]


class Cached(Nano):
    """As in Meta's Llama: ids under another name, and the position at which they start."""

    def forward(self, x: Tensor, start_pos: int) -> Tensor:  # type: ignore[override]
        return self.head(self.cell(self.embed(x) * 4)[0]) * 4  # type: ignore[no-any-return]


class CallsByName(Trainer):
    """Calls `forward` with keyword arguments, in its loop and in its loss."""

    cut = 0

    def __init__(self) -> None:
        super().__init__()
        self.model = Cached(self.tok.vocab_size)

    @torch.no_grad()
    def rollout(self, prompts: list[str]) -> list[list[int]]:
        model, found = cast("Any", self.model), []
        for row in map(self.render, prompts):
            idx = torch.tensor([row])
            for _ in range(12):
                logits = model.forward(x=idx, start_pos=0)[:, -1] / self.temperature
                idx = torch.cat([idx, torch.multinomial(logits.softmax(-1), 1)], 1)
            said = idx[0, len(row) + self.cut :].tolist()
            found.append(said[: said.index(96) + 1] if 96 in said else said)
        return found

    def scores(self, ids: Tensor, labels: Tensor) -> Tensor:
        return cast("Any", self.model).forward(x=ids, start_pos=0)  # type: ignore[no-any-return]


class CutsByName(CallsByName):
    cut = 1


class AsksForALength(Trainer):
    temperature = scored = 1.0
    cut = 0

    def __init__(self) -> None:
        super().__init__()
        self.model = Sized(self.tok.vocab_size)

    def rollout(self, prompts: list[str]) -> list[list[int]]:
        found, model = [], cast("Any", self.model)
        for row in map(self.render, prompts):
            out = model.generate(len(row) + 12, prompt=torch.tensor([row]))[0].tolist()[self.cut :]
            found.append(out[: out.index(96) + 1] if 96 in out else out)
        return found


class DropsOut(AsksForALength):
    """Samples in train mode, with dropout in an attention module that stores its probability as a number."""

    def __init__(self) -> None:
        super().__init__()
        layer: Any = self.model.embed
        layer.dropout = 0.1
        layer.register_forward_hook(lambda one, _, found: torch.nn.functional.dropout(found, one.dropout, one.training))


class AsksAndCuts(AsksForALength):
    cut = 1


def test_a_trainer_whose_parts_are_all_its_own_is_proven() -> None:
    codes = {"PAD001", "PAD002", "GEN004", "GEN007", "GEN005", "RAT007"}
    assert passed(probed(Trainer().adapter(), *codes)) == codes


def test_a_sampler_that_calls_the_parts_of_its_model_is_seen() -> None:
    assert passed(probed(ByHand().adapter(), "PAD001", "GEN005")) == {"PAD001", "GEN005"}
    assert [f.code for f in probed(CutsByHand().adapter(), "PAD001").findings] == ["PAD001"]


def test_a_forward_with_custom_argument_names_is_recorded() -> None:
    codes = {"PAD001", "PAD002", "GEN004", "GEN005", "RAT007", "SHP001"}
    assert passed(probed(CallsByName().adapter(), *codes)) == codes
    assert [f.code for f in probed(CutsByName().adapter(), "PAD001").findings] == ["PAD001"]


def test_a_sampler_that_does_not_stop_is_a_warning_where_the_rollout_cuts() -> None:
    (found,) = probed(Trainer().adapter(), "TOK004").findings
    assert found.severity == "warning"
    assert found.message.endswith("; the rollout discards the text after it.")


def test_a_generate_that_takes_and_returns_what_it_likes_is_a_sampling_loop() -> None:
    codes = {"PAD001", "PAD002", "GEN004", "GEN007", "GEN005", "RAT007"}
    assert passed(probed(AsksForALength().adapter(), *codes)) == codes
    assert [f.code for f in probed(AsksAndCuts().adapter(), "PAD001").findings] == ["PAD001"]


def test_dropout_that_a_module_holds_as_a_number_draws_nothing_in_a_probe() -> None:
    diagnosis = probed(DropsOut().adapter(), "TOK006", "GEN001")
    assert diagnosis.coverage.passed_codes == ["TOK006"]
    assert "with dropout on" in diagnosis.findings[0].message


@pytest.mark.parametrize(
    ("kind", "words"), [(TopK, "never draws"), (TopFifty, "never draws"), (ScoresAtOne, "but the loss uses 1.")]
)
def test_the_effect_of_a_custom_loop_after_the_loss_is_measured(kind: type[Trainer], words: str) -> None:
    (found,) = probed(kind().adapter(), "GEN004").findings
    assert words in found.message


def test_a_model_without_attention_mask_scores_each_row_alone() -> None:
    model = Nano(97)
    ids, real = torch.tensor([[95, 1, 2], [3, 4, 5]]), torch.tensor([[0, 1, 1], [1, 1, 1]])
    with torch.no_grad():
        assert torch.allclose(logits_of(model, ids, real)[0, 1:], model(ids[:1, 1:], ids[:1, 1:])[0][0], atol=1e-5)


def test_the_size_of_a_vocabulary_is_recognised_by_the_tokenizer_or_else_by_the_model() -> None:
    tok = Letters()
    assert len(readable(tok)) == 97
    del tok.vocab_size
    assert (len(readable(tok)), len(readable(tok, Nano(97)))) == (0, 97)
    assert readable(tok).encode("ab", add_special_tokens=False) == tok.encode("ab")
