"""GPT-2 language model (transformers): `size` tiny, base, medium, large or xl (1.5 B).

`phase` forward (a prompt's logits), prefill (its last logits and its cache) or decode (one token).
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from models.parts import causal_lm

SIZES = {
    "tiny": {"n_embd": 128, "n_layer": 2, "n_head": 2, "vocab_size": 1000},
    "base": {},
    "medium": {"n_embd": 1024, "n_layer": 24, "n_head": 16},
    "large": {"n_embd": 1280, "n_layer": 36, "n_head": 20},
    "xl": {"n_embd": 1600, "n_layer": 48, "n_head": 25},
}


def get_model(
    size: str = "base",
    phase: str = "forward",
    batch_size: int = 1,
    seq_len: int = 128,
    cache_len: int = 160,
    pretrained: bool = False,
) -> torch.nn.Module:
    if size not in SIZES:
        raise ValueError(f"size {size!r}; one of {', '.join(SIZES)}")
    if pretrained:
        if size == "tiny":
            raise ValueError("size 'tiny' has no pretrained weights; use base or larger")
        lm = GPT2LMHeadModel.from_pretrained("gpt2" if size == "base" else f"gpt2-{size}")
    else:
        config = GPT2Config(**SIZES[size])
        config.initializer_range = causal_lm.initializer_range(config.n_embd)
        lm = GPT2LMHeadModel(config)
    return causal_lm.program(lm, phase, batch_size, seq_len, cache_len)


def get_dummy_input(model: torch.nn.Module) -> dict[str, torch.Tensor | list[torch.Tensor]]:
    return model.inputs()
