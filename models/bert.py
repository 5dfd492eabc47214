"""BERT encoder (transformers): `size` base, large or tiny."""

import torch
from torch import nn
from transformers import BertConfig, BertModel

SIZES = {
    "tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
    "base": {},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}  # fmt: skip


def get_model(size: str = "base", pretrained: bool = False) -> nn.Module:
    if size not in SIZES:
        raise ValueError(f"size {size!r}; one of {', '.join(SIZES)}")
    if pretrained:
        if size == "tiny":
            raise ValueError("size 'tiny' has no pretrained weights; use base or large")
        return BertModel.from_pretrained(f"bert-{size}-uncased")
    return BertModel(BertConfig(**SIZES[size]))


def get_dummy_input(batch_size: int = 1, seq_len: int = 128) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, BertConfig().vocab_size, (batch_size, seq_len))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
