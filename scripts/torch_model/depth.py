"""The number of layers and the vocabulary size of a language model, from its configuration."""

from __future__ import annotations

from typing import Any

import torch

KEYS = {"layers": "num_hidden_layers", "vocab_size": "vocab_size"}
"""Attributes of transformers' configurations by their keys in a reference."""


def of(module: torch.nn.Module) -> dict[str, int | None]:
    """Return `layers` and `vocab_size`; each is None if no configuration has it.

    Models of transformers have a `config`. A module may contain such a model, and the parts of a
    model may have their own; the outermost one is used.
    """
    configs = [c for inner in module.modules() if (c := getattr(inner, "config", None)) is not None]
    return {key: _first(configs, attribute) for key, attribute in KEYS.items()}


def _first(configs: list[Any], attribute: str) -> int | None:
    values = (getattr(config, attribute, None) for config in configs)
    return next((v for v in values if type(v) is int and v > 0), None)
