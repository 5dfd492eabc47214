"""The model of a folder of Hugging Face: config.json and safetensors. `file=<folder>` uses this file.

The class is that which the configuration names. Code of the folder is not run, and nothing is looked up at a hub.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from huggingface_hub import constants
from torch import nn

from models.suites import _hf_inputs, _untrained
from models.suites.hf import for_export

constants.HF_HUB_OFFLINE = True
"""As the variable of this name, which is read when the package is imported: in a forked stage it is already imported. Kernels and
weights of backbones have no option `local_files_only`."""

PROBLEMS = {
    "missing_keys": "of {} are not in the files",
    "unexpected_keys": "of the files are not in {}",
    "mismatched_keys": "have another shape in {}",
}
"""By the key of what transformers reports."""


def get_model(folder: str = "", architecture: str = "") -> nn.Module:
    """The model with the weights of the folder, in float32. `architecture`: its class, in place of that of the configuration.

    Raises ValueError if transformers does not have the class, or if weights are missing or left over: transformers would
    fill them with random values, or ignore them, with a warning.
    """
    config = transformers.AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    name = architecture or config.architectures[0]
    cls = getattr(transformers, name, None)
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)):
        raise ValueError(f"transformers {transformers.__version__} has no model class {name}")
    for_export(config)
    model, report = cls.from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    for kind, problem in PROBLEMS.items():
        if keys := sorted(map(str, report.get(kind) or ())):
            raise ValueError(
                f"{len(keys)} weights {problem.format(name)}, first {keys[0]}; expected the weights of {name}, or an "
                "`architecture` that has those of the files"
            )
    return model


def get_dummy_input(batch_size: int = 1, seq_len: int = 128, *, model: nn.Module):
    """Keyword inputs for the model's signature and configuration; see _hf_inputs."""
    return _hf_inputs.make(model, batch_size, seq_len)


def describe_inputs(
    folder: str = "", batch_size: int = 1, seq_len: int = 128, *, model: nn.Module
) -> str:
    """A description of the model and its inputs, for the row."""
    made = _untrained.shapes(_hf_inputs.make(model, batch_size, seq_len))
    return f"{type(model).__name__} of {Path(folder).name}: {made}"
