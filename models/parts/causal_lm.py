"""Causal language models of transformers as programs: forward, prefill and decode."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from transformers import LlamaConfig, PreTrainedConfig, PreTrainedModel, Qwen2Config
from transformers.cache_utils import Cache, CacheLayerMixin

PHASES = ("forward", "prefill", "decode")
NEW_TOKENS = 16
"""Number of greedy tokens with which a decode program is compared."""

# A block is the real model with fewer layers and a smaller vocabulary, on which no width depends. With
# a vocabulary of 128,256 entries, two thirds of a block would be its embedding.
BLOCK = {"num_hidden_layers": 2, "vocab_size": 8192}
TINY = {
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "num_hidden_layers": 2, "vocab_size": 512,
}  # fmt: skip


def llama_config(size: str = "block") -> LlamaConfig:
    """Llama-3.2-3B (its config.json on the hub): `size` tiny, block (two layers) or full."""
    sizes = {
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 28,
        "vocab_size": 128256,
        **_shrunk(size),
    }
    return LlamaConfig(
        **sizes,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
        },
        tie_word_embeddings=True,
        initializer_range=initializer_range(sizes["hidden_size"]),
    )


def qwen2_config(size: str = "block") -> Qwen2Config:
    """DeepSeek-R1-Distill-Qwen-1.5B (its config.json on the hub): `size` tiny, block or full."""
    sizes = {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "num_hidden_layers": 28,
        "vocab_size": 151936,
        **{k: v for k, v in _shrunk(size).items() if k != "head_dim"},
    }
    return Qwen2Config(
        **sizes,
        max_position_embeddings=131072,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        initializer_range=initializer_range(sizes["hidden_size"]),
    )


def initializer_range(width: int) -> float:
    """Standard deviation of an untrained model's weights: a linear layer doubles its input's norm.

    With transformers' 0.02 the layers of a small model add next to nothing to its embedding, and
    with tied embeddings every next token is the last one again: a program that had lost its
    layers would generate the same.
    """
    return 2 / width**0.5


def _shrunk(size: str) -> dict[str, int]:
    sizes = {"tiny": TINY, "block": BLOCK, "full": {}}
    if size not in sizes:
        raise ValueError(f"size {size!r}; one of {', '.join(sizes)}")
    return sizes[size]


class _Program(nn.Module):
    """A causal language model and the prompt on which it runs.

    `prompt`: int64 token ids, [batch_size, seq_len]; there is none before `inputs()`.
    """

    prompt: torch.Tensor

    def __init__(self, lm: PreTrainedModel, batch_size: int, seq_len: int) -> None:
        super().__init__()
        self.lm = lm
        self.prompt_shape = (batch_size, seq_len)

    def inputs(self) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """The keyword inputs of the program. The prompt is drawn here: the pipeline seeds
        get_dummy_input() like get_model(), so other seeds give other prompts."""
        self.prompt = torch.randint(0, self.lm.config.vocab_size, self.prompt_shape)
        return self.inputs_after_prompt()

    def inputs_after_prompt(self) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """The inputs of the phase for `prompt`: the prompt itself."""
        return {"input_ids": self.prompt}

    @torch.no_grad()
    def generated(self, first: int, count: int) -> dict[str, list]:
        """`count` tokens, from number `first` on, that transformers generates greedily after the
        prompt."""
        found = self.lm.generate(
            self.prompt,
            attention_mask=torch.ones_like(self.prompt),
            max_new_tokens=first + count,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.stack(found.logits, 1).float().topk(2).values
        return {
            "tokens": found.sequences[:, self.prompt.shape[1] + first :].tolist(),
            "margins": (best[..., 0] - best[..., 1])[:, first:].tolist(),
        }


class Forward(_Program):
    """Logits [batch_size, seq_len, vocabulary] of every position of a prompt."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.lm(input_ids, use_cache=False).logits

    def generation(self) -> dict[str, list]:
        """The first new token: that of the last position's logits."""
        return self.generated(0, 1)


class Prefill(_Program):
    """The first new token's logits [batch_size, vocabulary], and every layer's keys and values
    [batch_size, key-value heads, seq_len, head size], of a prompt."""

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        found = self.lm(input_ids, use_cache=True, logits_to_keep=1)
        layers = found.past_key_values.layers
        return {
            "logits": found.logits[:, -1],
            "keys": [layer.keys for layer in layers],
            "values": [layer.values for layer in layers],
        }

    def generation(self) -> dict[str, list]:
        """The first new token."""
        return self.generated(0, 1)


class Decode(_Program):
    """The next token's logits from one token and the keys and values of those before it.

    The cache has `cache_len` places, of which the first `position` are taken; the token's own
    keys and values go to place `position`, in the cache that is returned: nothing is changed in
    place, so a call does not depend on the calls before it.
    """

    def __init__(self, lm: PreTrainedModel, batch_size: int, seq_len: int, cache_len: int) -> None:
        super().__init__(lm, batch_size, seq_len)
        if cache_len < seq_len + NEW_TOKENS:
            raise ValueError(
                f"cache_len {cache_len}: too short for a prompt of seq_len {seq_len} and "
                f"{NEW_TOKENS} new tokens; set it to {seq_len + NEW_TOKENS} or more"
            )
        self.cache_len = cache_len

    def forward(
        self,
        input_ids: torch.Tensor,
        position: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """`input_ids` int64 [batch_size, 1], `position` int64 [1]; `keys` and `values` a layer
        each, [batch_size, key-value heads, cache_len, head size]."""
        places = torch.arange(keys[0].shape[-2], device=position.device)
        layers = [_Place(k, v, places == position) for k, v in zip(keys, values, strict=True)]
        seen = (places <= position).expand(input_ids.shape[0], 1, 1, -1)
        found = self.lm(
            input_ids,
            attention_mask=seen,
            position_ids=position[None].expand(input_ids.shape[0], 1),
            past_key_values=Cache(layers=layers),
            use_cache=True,
        )
        return {
            "logits": found.logits[:, -1],
            "keys": [layer.keys for layer in layers],
            "values": [layer.values for layer in layers],
        }

    @torch.no_grad()
    def inputs_after_prompt(self) -> dict[str, torch.Tensor | list[torch.Tensor]]:
        """What a decode starts from after the prompt: its first greedy token and its cache."""
        found = self.lm(self.prompt, use_cache=True, logits_to_keep=1)
        layers = found.past_key_values.layers
        free = self.cache_len - self.prompt.shape[1]
        return {
            "input_ids": found.logits[:, -1:].argmax(-1),
            "position": torch.tensor([self.prompt.shape[1]]),
            "keys": [nn.functional.pad(layer.keys, (0, 0, 0, free)) for layer in layers],
            "values": [nn.functional.pad(layer.values, (0, 0, 0, free)) for layer in layers],
        }

    def generation(self) -> dict[str, list]:
        """The tokens after the one that the program is given, which is the prefill's."""
        return self.generated(1, NEW_TOKENS)


class _Place(CacheLayerMixin):
    """A layer's cache with the next token's keys and values in the one place where `here` is."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, here: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.here = here[None, None, :, None]
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        raise TypeError("made with its keys and values")

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys = torch.where(self.here, key_states, self.keys)
        self.values = torch.where(self.here, value_states, self.values)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.keys.shape[-2], 0

    def get_seq_length(self) -> int:
        return self.keys.shape[-2]

    def get_max_length(self) -> int:
        return self.keys.shape[-2]


def load(
    cls: type[PreTrainedModel],
    config: Callable[[str], PreTrainedConfig],
    hub_id: str,
    size: str,
    pretrained: bool,
) -> PreTrainedModel:
    """A model of `config(size)` with random weights, or the hub's, which are of size full."""
    if not pretrained:
        return cls(config(size))
    if size != "full":
        raise ValueError(f"size {size!r} has no pretrained weights; use full")
    return cls.from_pretrained(hub_id)


def program(
    lm: PreTrainedModel, phase: str, batch_size: int, seq_len: int, cache_len: int
) -> Forward | Prefill | Decode:
    """The program of a phase; raises ValueError for an unknown one or too short a cache."""
    match phase:
        case "forward":
            return Forward(lm, batch_size, seq_len)
        case "prefill":
            return Prefill(lm, batch_size, seq_len)
        case "decode":
            return Decode(lm, batch_size, seq_len, cache_len)
    raise ValueError(f"phase {phase!r}; one of {', '.join(PHASES)}")
