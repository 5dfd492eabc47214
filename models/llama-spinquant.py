"""Llama-3.2-3B with Hadamard-rotated 4-bit weights and 8-bit dynamic activations (SpinQuant).

As SpinQuant_INT4_EO8, but its rotations are random, not learned. `size` block (two layers of it),
full or tiny; `phase` forward, prefill or decode.
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
    lm = LlamaForCausalLM(causal_lm.llama_config(size))
    quantized.rotate_(lm)
    quantized.quantize_(lm, group_size)
    return causal_lm.program(lm, phase, batch_size, seq_len, cache_len)


def get_float_model(
    size: str = "block",
    phase: str = "forward",
    batch_size: int = 1,
    seq_len: int = 128,
    cache_len: int = 160,
) -> torch.nn.Module:
    """The same weights before they are rotated and rounded."""
    lm = LlamaForCausalLM(causal_lm.llama_config(size))
    return causal_lm.program(lm, phase, batch_size, seq_len, cache_len)


def get_dummy_input(model: torch.nn.Module) -> dict[str, torch.Tensor | list[torch.Tensor]]:
    return model.inputs()
