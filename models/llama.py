"""Llama-3.2-3B (transformers): `size` block (two layers of it), full or tiny.

`phase` forward (a prompt's logits), prefill (its last logits and its cache) or decode (one token).
"""

import torch
from transformers import LlamaForCausalLM

from models.parts import causal_lm


def get_model(
    size: str = "block",
    phase: str = "forward",
    batch_size: int = 1,
    seq_len: int = 128,
    cache_len: int = 160,
    pretrained: bool = False,
) -> torch.nn.Module:
    hub_id = "meta-llama/Llama-3.2-3B"
    lm = causal_lm.load(LlamaForCausalLM, causal_lm.llama_config, hub_id, size, pretrained)
    return causal_lm.program(lm, phase, batch_size, seq_len, cache_len)


def get_dummy_input(model: torch.nn.Module) -> dict[str, torch.Tensor | list[torch.Tensor]]:
    return model.inputs()
