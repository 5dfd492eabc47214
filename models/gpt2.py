"""GPT-2 language model (transformers): `size` tiny, base, medium, large or xl (1.5 B)."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = {
    "tiny": {"n_embd": 128, "n_layer": 2, "n_head": 2, "vocab_size": 1000},
    "base": {},
    "medium": {"n_embd": 1024, "n_layer": 24, "n_head": 16},
    "large": {"n_embd": 1280, "n_layer": 36, "n_head": 20},
    "xl": {"n_embd": 1600, "n_layer": 48, "n_head": 25},
}


def get_model(size: str = "base", pretrained: bool = False) -> nn.Module:
    if size not in SIZES:
        raise ValueError(f"size {size!r}; one of {', '.join(SIZES)}")
    # Without the key-value cache the outputs are the logits alone: one prompt, one forward.
    if pretrained:
        if size == "tiny":
            raise ValueError("size 'tiny' has no pretrained weights; use base or larger")
        name = "gpt2" if size == "base" else f"gpt2-{size}"
        return GPT2LMHeadModel.from_pretrained(name, use_cache=False)
    return GPT2LMHeadModel(GPT2Config(use_cache=False, **SIZES[size]))


def get_dummy_input(
    size: str = "base", batch_size: int = 1, seq_len: int = 128
) -> dict[str, torch.Tensor]:
    vocabulary = SIZES[size].get("vocab_size", GPT2Config().vocab_size)
    return {"input_ids": torch.randint(0, vocabulary, (batch_size, seq_len))}
