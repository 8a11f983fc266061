"""The five bugs of a dual-task trainer in one custom trainer that has only composite entry points."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import Adapter, run_probes
from tests.probes.reference import PROMPTS, make_model, make_tokenizer

BUGS = {1: "TOK001", 2: "TOK006", 3: "KL006", 4: "PAD001", 5: "PAD002"}


class Penalty:
    """Presence and frequency penalty, over the response, or over everything (bug 2)."""

    def __init__(self, prompt_length: int) -> None:
        self.prompt_length = prompt_length

    def __call__(self, tokens: Tensor, logits: Tensor) -> Tensor:
        seen = tokens[:, self.prompt_length :]
        counts = torch.zeros_like(logits).scatter_add_(1, seen, torch.ones_like(seen, dtype=logits.dtype))
        return logits - 0.6 * (counts > 0) - 0.4 * counts


class HandWritten:
    """Renders, samples and extracts in one function; masks, scores and sums in another."""

    def __init__(self, *bugs: int) -> None:
        self.bugs = bugs
        self.tok = make_tokenizer()
        self.model = make_model(self.tok)
        self.reference = make_model(self.tok).requires_grad_(False)

    def format(self, prompt: Any) -> str:
        return str(self.tok.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True))

    def tokenize_sft_pair(self, prompt: Any, target: str) -> list[int]:
        text = "\n\n".join(m["content"] for m in prompt) + "\n\n" if 1 in self.bugs else self.format(prompt)
        return [*self.tok(text + target, add_special_tokens=False)["input_ids"], self.tok.eos_token_id]

    def generate_candidates_batch(self, prompts: Any) -> list[list[int]]:
        texts = [self.format(p) for p in prompts]
        inputs = self.tok(texts, padding=True, return_tensors="pt", add_special_tokens=False)
        width = inputs["input_ids"].shape[1]
        out = self.model.generate(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], do_sample=True, top_k=0,
            max_new_tokens=16, pad_token_id=self.tok.pad_token_id,
            logits_processor=[Penalty(0 if 2 in self.bugs else width)],
        )  # fmt: skip
        lengths = (inputs["input_ids"] != self.tok.pad_token_id).sum(1).tolist()
        starts = lengths if 4 in self.bugs else [width] * len(out)
        rows = []
        for row, start in zip(out.tolist(), starts, strict=True):
            ids = row[start:]
            eos = ids.index(self.tok.eos_token_id) if self.tok.eos_token_id in ids[width - start :] else len(ids)
            rows.append(ids[: eos + 1] if 4 not in self.bugs else ids)
        return rows

    def tokenize_concat(self, prompts: Any, responses: Any) -> tuple[Tensor, Tensor, Tensor]:
        texts = ["\n".join(m["content"] for m in p) if 3 in self.bugs else self.format(p) for p in prompts]
        rows = [
            [*self.tok(t, add_special_tokens=False)["input_ids"], *r] for t, r in zip(texts, responses, strict=True)
        ]
        total = max(map(len, rows))
        ids = torch.tensor([[self.tok.pad_token_id] * (total - len(r)) + r for r in rows])
        real = torch.tensor([[0] * (total - len(r)) + [1] * len(r) for r in rows])
        mask = torch.zeros(len(rows), total - 1)
        for n, response in enumerate(responses):
            end = len(rows[n]) if 5 in self.bugs else total
            mask[n, end - len(response) - 1 : end - 1] = 1
        return ids, real, mask

    def scores(self, model: Any, ids: Tensor, real: Tensor) -> Tensor:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        logits = model(input_ids=ids, attention_mask=real, position_ids=position).logits[:, :-1]
        out: Tensor = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        return out

    def compute_loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        ids, real, mask = self.tokenize_concat(prompts, responses)
        logp = self.scores(self.model, ids, real)
        with torch.no_grad():
            ref = self.scores(self.reference, ids, real)
        d = ref - logp
        per_token = -(logp - logp.detach()).exp() * advantages[:, None] + 0.02 * (d.exp() - d - 1)
        out: Tensor = (per_token * mask).sum() / mask.sum()
        return out

    def adapter(self) -> Adapter:
        return Adapter(
            name="hand-written", model=self.model, tokenizer=self.tok, reference=self.reference, prompts=PROMPTS,
            settings={"entropy_coef": 0},
            seams={
                "rollout": self.generate_candidates_batch, "loss": self.compute_loss,
                "render_sft": self.tokenize_sft_pair,
                "penalize": lambda tokens, logits, n: Penalty(0 if 2 in self.bugs else n)(tokens, logits),
            },
        )  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_caught_by_its_own_probe(bug: int) -> None:
    diagnosis = run_probes(HandWritten(bug).adapter(), catalogue=load().select([BUGS[bug]]))
    assert (diagnosis.cause, diagnosis.verdict) == (BUGS[bug], "failing"), diagnosis.coverage.skipped


def test_all_five_at_once_are_all_caught() -> None:
    found = {f.code for f in run_probes(HandWritten(1, 2, 3, 4, 5).adapter()).findings}
    assert {"TOK001", "TOK006", "KL006", "PAD001", "PAD002"} <= found


def test_the_repaired_trainer_passes_except_for_the_sampling_penalty() -> None:
    diagnosis = run_probes(HandWritten().adapter())
    assert [(f.code, f.severity) for f in diagnosis.findings] == [("GEN004", "warning"), ("GRD001", "info")]
    assert diagnosis.verdict == "suspect"
    assert diagnosis.coverage.ran >= 10
