"""Answer the requests of test_kernels.py; run it in an environment with torch.

.venvs/torch-mlir/bin/python -m tests.pipeline.kernels_in_torch < requests.json
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

import torch
from torch.nn import functional

from scripts.baselines.sessions import torch_session
from scripts.frontends.torch_model import convert, loading
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.tools.kernels import kernels

ROOT = Path(__file__).parents[2]
EPS = 1e-5


def observed(name: str, shape: str, dtype: str) -> dict:
    """Bytes of the tensors of a kernel, declared and there, and whether its results are finite."""
    kernel = kernels.read(name, ROOT)
    loaded = loading.load(ModelChoice(name, ROOT / kernel.file, {"shape": shape, "dtype": dtype}))
    results = [tensor for _, tensor in convert.flat_tensors(loaded.module(**loaded.kwargs))]
    declared = kernel.tensor_bytes(shape, dtype)
    return {
        "declared": {name: declared[name] for name in kernel.reads},
        "inputs": {name: tensor.nbytes for name, tensor in loaded.kwargs.items()},
        "written": [declared[name] for name in kernel.writes],
        "results": [tensor.nbytes for tensor in results],
        "partly_read": list(kernel.partly_read),
        "finite": all(bool(tensor.isfinite().all()) for tensor in results),
    }


def gradient_error(name: str, shape: str) -> float:
    """The largest difference of a backward kernel's gradients from those of autograd, in float64."""
    kernel = kernels.read(name, ROOT)
    loaded = loading.load(ModelChoice(name, ROOT / kernel.file, {"shape": shape}))
    given = convert.cast_floats(loaded.kwargs, torch.float64)
    forward, leaves = FORWARD[name](given)
    forward.backward(given["gradient"])
    found = [tensor for _, tensor in convert.flat_tensors(loaded.module(**given))]
    assert len(found) == len(leaves)
    return max(float((a - b.grad).abs().max()) for a, b in zip(found, leaves, strict=True))


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_()


def _softmax(given: dict) -> tuple[torch.Tensor, list[torch.Tensor]]:
    x = _leaf(given["y"].log())
    return torch.softmax(x, -1), [x]


def _cross_entropy(given: dict) -> tuple[torch.Tensor, list[torch.Tensor]]:
    logits = _leaf(given["log_probabilities"])
    return functional.cross_entropy(logits, given["targets"], reduction="none"), [logits]


def _rms_norm(given: dict) -> tuple[torch.Tensor, list[torch.Tensor]]:
    x, weight = _leaf(given["x"]), _leaf(given["weight"])
    return functional.rms_norm(x, weight.shape, weight, EPS), [x, weight]


def _layer_norm(given: dict) -> tuple[torch.Tensor, list[torch.Tensor]]:
    x, weight, bias = (_leaf(given[key]) for key in ("x", "weight", "bias"))
    return functional.layer_norm(x, weight.shape, weight, bias, EPS), [x, weight, bias]


FORWARD = {
    "softmax_backward": _softmax,
    "cross_entropy_backward": _cross_entropy,
    "rms_norm_backward": _rms_norm,
    "layer_norm_backward": _layer_norm,
}
"""By backward kernel: its forward pass from the kernel's inputs, and the tensors with gradients."""


def in_triton(shape: str) -> dict[str, float]:
    """The largest difference of each kernel in Triton, run by its interpreter, from the kernel in torch."""
    from scripts.baselines import triton

    found = {}
    for name, function in triton.functions().items():
        loaded = loading.load(
            ModelChoice(name, ROOT / kernels.read(name, ROOT).file, {"shape": shape})
        )
        with torch.no_grad():
            difference = function(**loaded.kwargs) - loaded.module(**loaded.kwargs)
        found[name] = float(difference.abs().max())
    return found


def refused(file: str, missing: bool) -> tuple[int, str]:
    """The exit code and message of a library's session for a model file."""

    def functions() -> torch_session.KernelFunctions:
        if missing:
            raise ImportError("No module named 'a_library'")
        return {"swiglu": print}

    work = SimpleNamespace(
        model=SimpleNamespace(model_file=Path(file), name="m"), runtime="a_library"
    )
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            torch_session.open_kernel_session(work, None, "a-library", functions)
    except SystemExit as stop:
        return stop.code, said.getvalue()
    return 0, ""


def main() -> None:
    asked = json.load(sys.stdin)
    found = {name: observed(name, shape, "bf16") for name, shape in asked.items()}
    errors = {name: gradient_error(name, asked[name]) for name in FORWARD}
    refusals = {
        "missing": refused("models/kernels/swiglu.py", missing=True),
        "other-kernel": refused("models/kernels/attention.py", missing=False),
        "model": refused("models/swiglu.py", missing=False),
    }
    triton = in_triton("12x40")
    print(json.dumps({"observed": found, "errors": errors, "refused": refusals, "triton": triton}))


if __name__ == "__main__":
    main()
