"""Kernels of this project in Triton: one program per row, which holds the whole row. Imports triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from scripts.baselines.sessions.torch_session import EPS

LARGEST = 65_536
"""Columns of the longest row that one program holds."""


@triton.jit
def _softmax_forward(x, y, columns, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0).to(tl.int64) * columns
    values = tl.load(x + row + at, at < columns, -float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + at, powers / tl.sum(powers, 0), at < columns)


@triton.jit
def _softmax_backward(gradient, y, x_gradient, columns, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0).to(tl.int64) * columns
    g = tl.load(gradient + row + at, at < columns, 0.0).to(tl.float32)
    values = tl.load(y + row + at, at < columns, 0.0).to(tl.float32)
    inner = tl.sum(g * values, 0)
    tl.store(x_gradient + row + at, (g - inner) * values, at < columns)


@triton.jit
def _cross_entropy_forward(logits, targets, losses, columns, block: tl.constexpr):
    at = tl.arange(0, block)
    number = tl.program_id(0)
    row = number.to(tl.int64) * columns
    values = tl.load(logits + row + at, at < columns, -float("inf")).to(tl.float32)
    largest = tl.max(values, 0)
    total = tl.log(tl.sum(tl.exp(values - largest), 0)) + largest
    target = tl.load(logits + row + tl.load(targets + number)).to(tl.float32)
    tl.store(losses + number, total - target)


@triton.jit
def _rms_norm_forward(x, weight, y, columns, eps, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0).to(tl.int64) * columns
    values = tl.load(x + row + at, at < columns, 0.0).to(tl.float32)
    w = tl.load(weight + at, at < columns, 0.0).to(tl.float32)
    inverse = 1 / tl.sqrt(tl.sum(values * values, 0) / columns + eps)
    tl.store(y + row + at, values * inverse * w, at < columns)


@triton.jit
def _layer_norm_forward(x, weight, bias, y, columns, eps, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0).to(tl.int64) * columns
    values = tl.load(x + row + at, at < columns, 0.0).to(tl.float32)
    w = tl.load(weight + at, at < columns, 0.0).to(tl.float32)
    b = tl.load(bias + at, at < columns, 0.0).to(tl.float32)
    centred = tl.where(at < columns, values - tl.sum(values, 0) / columns, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    tl.store(y + row + at, centred * inverse * w + b, at < columns)


@triton.jit
def _swiglu(gate, up, y, columns, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0).to(tl.int64) * columns
    g = tl.load(gate + row + at, at < columns, 0.0).to(tl.float32)
    u = tl.load(up + row + at, at < columns, 0.0).to(tl.float32)
    tl.store(y + row + at, g / (1 + tl.exp(-g)) * u, at < columns)


def _launch(kernel: triton.JITFunction, rows: torch.Tensor, *arguments: object) -> None:
    """Start one program per row of `rows`."""
    count, columns = rows.shape
    if columns > LARGEST:
        raise ValueError(f"{columns} columns: one program holds at most {LARGEST}")
    block = triton.next_power_of_2(columns)
    kernel[(count,)](*arguments, block=block, num_warps=min(16, max(1, block // 256)))


def softmax_forward(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _launch(_softmax_forward, x, x, y, x.shape[1])
    return y


def softmax_backward(gradient: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x_gradient = torch.empty_like(y)
    _launch(_softmax_backward, y, gradient, y, x_gradient, y.shape[1])
    return x_gradient


def cross_entropy_forward(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    losses = logits.new_empty(len(logits))
    _launch(_cross_entropy_forward, logits, logits, targets, losses, logits.shape[1])
    return losses


def rms_norm_forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _launch(_rms_norm_forward, x, x, weight, y, x.shape[1], EPS)
    return y


def layer_norm_forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _launch(_layer_norm_forward, x, x, weight, bias, y, x.shape[1], EPS)
    return y


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(gate)
    _launch(_swiglu, gate, gate, up, y, gate.shape[1])
    return y


FUNCTIONS = {
    kernel.__name__: kernel
    for kernel in (
        softmax_forward,
        softmax_backward,
        cross_entropy_forward,
        rms_norm_forward,
        layer_norm_forward,
        swiglu,
    )
}
"""The functions by the names of kernels."""
