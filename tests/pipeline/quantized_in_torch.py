"""Quantise, rotate and break small Llamas: reads one case per line of JSON, writes one result per line.

Run with the Python of the torch-mlir or torch-xla environment; used by test_quantized.py.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torchao.quantization.utils import per_token_dynamic_quant
from transformers import LlamaConfig, LlamaForCausalLM

from models.parts import quantized
from scripts.frontends.torch_model import golden
from scripts.measure.verify import scaling, torch_same

IDS = torch.arange(48).reshape(2, 24) * 7 % 256


def main() -> None:
    for line in sys.stdin:
        name, options = json.loads(line)
        print(json.dumps({"answer": CASES[name](**options)}), flush=True)


def packing(values: list[list[int]]) -> dict:
    """Return the bytes of packed integers, and the result of unpacking them."""
    packed = quantized.pack(torch.tensor(values, dtype=torch.int8))
    return {
        "bytes": packed.view(torch.uint8).tolist(),
        "values": quantized.unpack(packed).tolist(),
        "dtype": str(packed.dtype),
    }


def rounding(rows: int, groups: int, group_size: int, spread: float, bits: int, seed: int) -> dict:
    """The largest error of a quantised weight in units of its scale; the range of its integers."""
    torch.manual_seed(seed)
    weight = torch.randn(rows, groups * group_size) * spread
    values, scales = quantized.quantize_weight(weight, bits, group_size)
    wide = quantized.dequantize(values, scales.double())
    steps = (wide - weight).unflatten(1, (groups, -1)) / scales.double()[..., None]
    return {
        "error": steps.abs().max().item(),
        "least": values.min().item(),
        "most": values.max().item(),
        "scales": list(scales.shape),
    }


def activations(seed: int) -> dict:
    """Largest difference from torchao's own, of tokens of every sign and size."""
    torch.manual_seed(seed)
    noise = torch.randn(6, 5, 64)
    tokens = torch.cat([noise, noise.abs() + 1, -noise.abs(), noise * 1e5, noise * 0])
    expected = per_token_dynamic_quant(tokens, eps=torch.finfo(tokens.dtype).eps)
    found = quantized.quantize_activations(tokens)
    return {
        "difference": (found - expected).abs().max().item(),
        "levels": max(len(token.unique()) for token in found.flatten(0, 1)),
        "dtype": str(quantized.quantize_activations(tokens.double()).dtype),
    }


def rotation(hidden: int, intermediate: int, tied: bool) -> dict:
    """How far a rotated model in float is from the model, relative to its largest logit."""
    lm = _language_model(hidden, intermediate, tied)
    want = _logits(lm)
    before = {name: weight.clone() for name, weight in lm.named_parameters()}
    quantized.rotate_(lm)
    moved = [
        name for name, weight in lm.named_parameters() if not torch.equal(weight, before.get(name, weight))
    ]  # fmt: skip
    return {
        "error": float(np.abs(_logits(lm) - want).max() / np.abs(want).max()),
        "moved": len(moved),
        "norms": sorted({w.item() for n, p in lm.named_parameters() if "norm" in n for w in p}),
        "tied": lm.lm_head.weight is lm.model.embed_tokens.weight,
    }


def sizes(kind: str) -> dict:
    """Signal to noise by bits of the weights' groups, and bytes of a quantised model's blocks."""
    lm = _quantized(kind)
    linears = [m for m in lm.modules() if isinstance(m, quantized.Int4Linear)]
    weights = sum(2 * m.packed.numel() for m in linears)
    stored = [tensor for m in linears for tensor in m.buffers()]
    return {
        "linears": len(linears),
        "bits": 8 * sum(t.numel() * t.element_size() for t in stored) / weights,
        "tied": lm.lm_head.values.data_ptr() == lm.model.embed_tokens.values.data_ptr(),
        "floats": [n for n, p in lm.named_parameters() if p.ndim > 1],
        "sqnr_db": golden.sqnr_db([_logits(_float(kind))], [_logits(lm)]),
    }


def mutations(kind: str, tolerance: dict[str, float]) -> dict[str, str]:
    """The verdict on the model itself, on it disturbed, and on wrong ones, by name."""
    lm = _quantized(kind)
    golden, wide = _logits(lm), _logits(copy.deepcopy(lm).double())
    scale = scaling.scale_of(["logits"])
    allowed = torch_same.Tolerance(**{"tol": torch_same.TOLERANCES["f32"], **tolerance})

    def judge() -> str:
        found = torch_same.compare([_logits(lm)], [golden], [wide], allowed, scale=scale)
        return found.code

    verdicts = {"right": judge()}
    for name, undo in _breakages(lm):
        verdicts[name] = judge()
        undo()
    verdicts["right again"] = judge()
    return verdicts


def _breakages(lm: LlamaForCausalLM) -> Iterator[tuple[str, Callable[[], object]]]:
    """Break the model in one place after the other; each comes with what undoes it."""
    for name, module in lm.named_modules():
        if isinstance(module, quantized.Int4Linear):
            for tensor, broken, what in (
                (module.scales, torch.zeros_like(module.scales), "zeroed"),
                (module.packed, _swapped(module.packed), "nibbles swapped"),
            ):
                yield f"{name} {what}", _overwrite(tensor, broken)
        if isinstance(module, quantized.LoraLinear):
            yield f"{name} without adapter", _overwrite(module.b.weight, 0 * module.b.weight)
        if isinstance(module, quantized.Hadamard):
            yield f"{name} not rotated", _overwrite(module.inner, torch.eye(len(module.inner)))


def _overwrite(tensor: torch.Tensor, broken: torch.Tensor) -> Callable[[], object]:
    kept = tensor.detach().clone()
    tensor.copy_(broken)
    return lambda: tensor.copy_(kept)


def _swapped(packed: torch.Tensor) -> torch.Tensor:
    pairs = quantized.unpack(packed).unflatten(-1, (-1, 2)).flip(-1)
    return quantized.pack(pairs.flatten(-2))


def _language_model(hidden: int, intermediate: int, tied: bool = True) -> LlamaForCausalLM:
    """Two random layers whose norms scale, so that folding them counts."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        num_hidden_layers=2,
        vocab_size=256,
        tie_word_embeddings=tied,
        initializer_range=0.1,
    )
    lm = LlamaForCausalLM(config).eval().requires_grad_(False)
    for name, weight in lm.named_parameters():
        if "norm" in name:
            weight.uniform_(0.5, 1.5)
    return lm


def _float(kind: str) -> LlamaForCausalLM:
    lm = _language_model(128, 256)
    if kind == "qlora":
        quantized.add_adapters_(lm)
    return lm.requires_grad_(False)


def _quantized(kind: str) -> LlamaForCausalLM:
    lm = _float(kind)
    if kind == "spinquant":
        quantized.rotate_(lm)
    quantized.quantize_(lm)
    return lm


@torch.no_grad()
def _logits(lm: LlamaForCausalLM) -> np.ndarray:
    return lm(IDS, use_cache=False).logits.numpy()


CASES = {f.__name__: f for f in (packing, rounding, activations, rotation, sizes, mutations)}

if __name__ == "__main__":
    main()
