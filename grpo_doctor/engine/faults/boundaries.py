"""Faults at the boundary between prompt and response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...probes.entry_points import Batch, Ids
from ..task import Dialogue
from .fault import Fault


class LeftPadExtraction(Fault):
    """Slices the response after the *number* of prompt tokens instead of the padded width.

    Origin: bug 4 of BoBaCai/grpo-dual (`out[i, (ids != pad).sum():]`, fixed in fc99b9f), where the judge scored the
        question. Only the responses to the longest prompt of a batch, which has no padding, are correct.
    """

    named_by = ("PAD001", "PAD005")
    fixed_by = "slice-at-padded-width"

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> list[Ids]:
        right = super().extract(tokens, input_ids, attention_mask)
        counts, width = attention_mask.sum(1).tolist(), input_ids.shape[1]
        rows = tokens.tolist()
        return [row[count:width] + ids for row, count, ids in zip(rows, counts, right, strict=True)]


class MaskAssumesRightPadding(Fault):
    """Starts the mask after the number of prompt tokens, as if prompts were padded on the right.

    Origin: bug 5 of BoBaCai/grpo-dual, which trained mostly on prompts, and never on the ends of responses.
    """

    named_by = ("PAD002",)
    fixed_by = "mask-by-position"

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        batch = super().mask(prompts, responses)
        place = torch.arange(batch.mask.shape[1], device=self.device)
        begin = torch.tensor([len(p) for p in prompts], device=self.device)[:, None]
        length = torch.tensor([len(r) for r in responses], device=self.device)[:, None]
        return batch._replace(mask=((place >= begin) & (place < begin + length)).int())


class MaskByTokenIdentity(Fault):
    """Masks the padding token, which is EOS: the policy does not learn to end a response.

    Origin: setting `pad_token = eos_token` for tokenizers without a padding token, and collators that mask by id.
    """

    named_by = ("PAD003", "PAD002")
    fixed_by = "mask-from-lengths"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pad = self.eos[0]

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        batch = super().mask(prompts, responses)
        return batch._replace(mask=batch.mask * (batch.input_ids != self.pad))


class TemplateMismatch(Fault):
    """Renders prompts without turns and header, unlike the supervised stage.

    Origin: bug 1 of BoBaCai/grpo-dual (`prompt + "\\n\\n" + target` in SFT, the chat template in RL).
    """

    named_by = ("TOK001",)
    fixed_by = "one-template"

    def render(self, prompt: Dialogue) -> Ids:
        text = " ".join(turn["content"] for turn in prompt)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


class OffByOneLabels(Fault):
    """Reads the log-probability of a token one position late, from the logits that predict the next token.

    Origin: opendilab/LightRFT#53, CarperAI/trlx#509.
    """

    named_by = ("RAT004", "PAD002", "GEN004", "GEN005")
    fixed_by = "mask-of-labels"

    def token_logprobs(self, logits: Tensor, input_ids: Tensor, temperature: float) -> Tensor:
        late = torch.cat((logits[:, 1:], logits[:, -1:]), 1)
        return super().token_logprobs(late, input_ids, temperature)


class AttentionMaskIgnored(Fault):
    """Computes log-probabilities that attend to padding, with positions counted from the padded edge.

    Origin: huggingface/trl#2708, OpenRLHF/OpenRLHF#217.
    """

    named_by = ("PAD004", "RAT004")
    fixed_by = "pass-attention-mask"

    def forward(self, model: Any, input_ids: Tensor, attention_mask: Tensor, scored: int) -> Tensor:
        return super().forward(model, input_ids, torch.ones_like(attention_mask), scored)


class ToolTokensInLoss(Fault):
    """Trains on the last tokens before the answer as if the policy had written them, although a tool or the template
    did.

    Origin: huggingface/trl#4975, unslothai/unsloth#5673.
    """

    named_by = ("PAD002",)
    fixed_by = "mask-by-position"
    foreign: ClassVar = 6

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        batch = super().mask(prompts, responses)
        begin = max(map(len, prompts))
        batch.mask[:, begin - self.foreign : begin] = 1
        return batch


class PrefilledStartNotScored(Fault):
    """Rewards responses without their first word, which the template wrote, so that no answer can be parsed.

    Origin: huggingface/open-r1#560 and huggingface/trl#6966 (a template that writes `<think>`).
    """

    named_by = ("REW001", "ADV003", "DIV003")

    def text(self, response: Ids) -> str:
        return super().text(response[1:])
