"""The library's Llama with another forward: bit-identical logits in half the time. In the forward pass of a tiny model,
the library spends less time on arithmetic than on overhead: masks for all cases, the attention lookup, and collecting
outputs. Tests of probes and of the engine run a million forward passes.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.llama.modeling_llama import repeat_kv

LIBRARY: Any = LlamaForCausalLM.forward


class QuickLlama(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Computes logits for ids; leaves every other request to the library."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        logits_to_keep: Any = 0,
        **more: Any,
    ) -> Any:
        asked = {name for name, value in more.items() if value is not None} - {"use_cache", "return_dict"}
        makes_cache = more.get("use_cache") is True and past_key_values is None
        recomputes = self.model.gradient_checkpointing and self.training
        as_tuple, other = more.get("return_dict") is False, self.config._attn_implementation != "sdpa"
        if input_ids is None or asked or makes_cache or recomputes or as_tuple or other:
            return LIBRARY(
                self, input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                past_key_values=past_key_values, logits_to_keep=logits_to_keep, **more,
            )  # fmt: skip
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        if position_ids is None:
            position_ids = torch.arange(past, past + input_ids.shape[1])[None]
        mask, base = seen(attention_mask, input_ids.shape[1], past), self.model
        x, turn = base.embed_tokens(input_ids), rotation(base.rotary_emb.inv_freq, position_ids)
        for layer in base.layers:
            x = x + attended(layer.self_attn, normed(layer.input_layernorm, x), turn, mask, past_key_values)
            y, mlp = normed(layer.post_attention_layernorm, x), layer.mlp
            x = x + mlp.down_proj(functional.silu(mlp.gate_proj(y)) * mlp.up_proj(y))
        logits = self.lm_head(normed(base.norm, x)[:, -logits_to_keep:])
        return CausalLMOutputWithPast(logits=logits, past_key_values=past_key_values)

    def train(self, mode: bool = True) -> Any:
        """Set the mode of every module; the library asks each module whether the attribute is a parameter."""
        for module in self.modules():
            vars(module)["training"] = mode
        return self


QuickLlama.__name__ = LlamaForCausalLM.__name__  # which is written down where it is saved, and looked up from there


def quick(model: Any) -> Any:
    """Make the model fast in place; with an adapter, make the inner model fast."""
    getattr(model, "get_base_model", lambda: model)().__class__ = QuickLlama
    return model


def seen(mask: Tensor | None, width: int, past: int) -> Tensor | None:
    """Return which tokens each of ``width`` tokens sees, from a mask of tokens (N, T) or of pairs of them (N, 1, T,
    T)."""
    if mask is not None and mask.ndim == 4:
        return mask
    before = _before(width, past)
    if mask is None:
        return before if past and width > 1 else None  # without a past the attention itself looks back only
    return before & mask[:, None, None].bool()


@functools.cache
def _before(width: int, past: int) -> Tensor:
    return torch.ones(width, past + width, dtype=torch.bool).tril(past)


def rotation(frequencies: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine (N, 1, T, D) of the rotary angles; the first half of the sine is negative, as in the rotation."""
    angles = positions[:, None, :, None] * frequencies.float()
    sine = angles.sin()
    return angles.cos().repeat(1, 1, 1, 2), torch.cat([-sine, sine], -1)


def normed(norm: Any, x: Tensor) -> Tensor:
    """The root-mean-square norm, in float32 as the library's."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    return norm.weight * y.to(x.dtype)  # type: ignore[no-any-return]


def attended(layer: Any, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, past: Any) -> Tensor:
    """Return the output of one layer's attention."""
    shape = (*x.shape[:2], -1, layer.head_dim)
    query, key, value = (part(x).view(shape).transpose(1, 2) for part in (layer.q_proj, layer.k_proj, layer.v_proj))
    cosine, sine = (part.to(x.dtype) for part in turn)
    query, key = (part * cosine + part.roll(layer.head_dim // 2, -1) * sine for part in (query, key))
    if past is not None:
        key, value = past.update(key, value, layer.layer_idx)
    if mask is not None:
        key, value = (repeat_kv(part, layer.num_key_value_groups) for part in (key, value))
    out = functional.scaled_dot_product_attention(
        query, key, value, mask, layer.attention_dropout if layer.training else 0.0, mask is None and x.shape[1] > 1,
        scale=layer.scaling, enable_gqa=mask is None,
    )  # fmt: skip
    return layer.o_proj(out.transpose(1, 2).reshape(*x.shape[:2], -1))  # type: ignore[no-any-return]
