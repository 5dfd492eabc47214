"""Llama-3.2-3B with 4-bit weights, 8-bit dynamic activations and LoRA adapters (QLORA_INT4_EO8).

`size` block (two layers of it), full or tiny; `phase` forward, prefill or decode. Its weights are
random, rounded to 4 bits as they are: no quantisation-aware training.
"""

import torch
from transformers import LlamaForCausalLM

from models.parts import causal_lm, quantized


def get_model(
    size: str = "block",
    phase: str = "forward",
    batch_size: int = 1,
    seq_len: int = 128,
    cache_len: int = 160,
    group_size: int = quantized.GROUP_SIZE,
) -> torch.nn.Module:
    lm = _float_lm(size)
    quantized.quantize_(lm, group_size)
    return causal_lm.program(lm, phase, batch_size, seq_len, cache_len)


def get_float_model(
    size: str = "block",
    phase: str = "forward",
    batch_size: int = 1,
    seq_len: int = 128,
    cache_len: int = 160,
) -> torch.nn.Module:
    """The same weights and adapters before they are rounded."""
    return causal_lm.program(_float_lm(size), phase, batch_size, seq_len, cache_len)


def get_dummy_input(model: torch.nn.Module) -> dict[str, torch.Tensor | list[torch.Tensor]]:
    return model.inputs()


def _float_lm(size: str) -> LlamaForCausalLM:
    lm = LlamaForCausalLM(causal_lm.llama_config(size))
    quantized.add_adapters_(lm)
    return lm
