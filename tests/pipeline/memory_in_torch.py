"""What float64 block by block gives and holds, and what counting finds, printed as JSON.

Run with the Python of an environment that loads models; used by test_oversized_models.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch

from scripts.core import exits
from scripts.frontends.torch_model import convert, footprint, golden, loading
from scripts.frontends.torch_model.arguments import ModelChoice

FILES = {
    "gpt2": ("models/gpt2.py", {"size": "tiny", "seq_len": 8}),
    "vit": ("models/vit.py", {}),
    "resnet": ("models/resnet.py", {"size": "18"}),
    "bf16": ("models/gpt2.py", {"size": "tiny", "seq_len": 8, "dtype": "bf16"}),
}


def main() -> None:
    print(json.dumps({name: observed(*of) for name, of in FILES.items()}))


def observed(file: str, options: dict) -> dict:
    """Compare float64 results by blocks with those of one pass, and the count with the weights."""
    opened = loading.ModelFile(file, options)
    counted = footprint.count(lambda: opened.call("get_model"), options.get("dtype", "f32"))
    loaded = loading.load(ModelChoice("it", Path(file), options))
    weights = [*loaded.module.parameters(), *loaded.module.buffers()]
    held = [sum(t.numel() for t in weights), sum(t.numel() * t.element_size() for t in weights)]
    before = {name: t.clone() for name, t in loaded.module.state_dict().items()}
    args, kwargs = convert.cast_floats((loaded.args, loaded.kwargs), torch.float64)
    fits, golden.fits_in_float64 = golden.fits_in_float64, lambda *_: False
    widest = [0]

    def seen(*_: object) -> None:
        now = (*loaded.module.parameters(), *loaded.module.buffers())
        widest[0] = max(widest[0], sum(t.numel() for t in now if t.dtype is torch.float64))

    blocks = golden.float64_blocks(loaded.module)
    watched = [part for block in blocks for part in block.modules()]
    hooks = [part.register_forward_hook(seen) for part in watched]
    with torch.no_grad(), golden.in_float64(loaded.module):
        by_blocks = convert.flat_tensors(loaded.module(*args, **kwargs))
    for hook in hooks:
        hook.remove()
    restored = all(torch.equal(before[n], t) and before[n].dtype is t.dtype for n, t in loaded.module.state_dict().items())  # fmt: skip
    os.environ[exits.LIMIT_VARIABLE] = "1"
    refused = ""
    try:
        with golden.in_float64(loaded.module):
            pass
    except RuntimeError as error:
        refused = str(error)
    del os.environ[exits.LIMIT_VARIABLE]
    golden.fits_in_float64 = fits
    with torch.no_grad(), golden.in_float64(loaded.module):
        at_once = convert.flat_tensors(loaded.module(*args, **kwargs))
    return {
        "same": all(torch.equal(a, b) for (_, a), (_, b) in zip(by_blocks, at_once, strict=True)),
        "wide": sorted({str(t.dtype) for _, t in by_blocks if t.is_floating_point()}),
        "restored": restored,
        "blocks": len(blocks),
        "widest_share": widest[0] / sum(t.numel() for t in weights if t.is_floating_point()),
        "refused": refused,
        "counted": [counted.count, counted.kept_bytes],
        "held": held,
    }


if __name__ == "__main__":
    main()
