"""Slices, and their gradients in training steps."""

from __future__ import annotations

from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value


def scatter_as_concatenation(program: ExportedProgram) -> bool:
    """A tensor with a slice replaced is what is before the slice, its replacement, and what is after it.

    torch-mlir 20261001 lowers `slice_scatter` to StableHLO with an index per element up to `end`, also if that is the
    largest int64, as in the gradient of `x[start:]`: it runs out of memory.
    """
    changed = False
    for node in calls(program, aten.slice_scatter.default):
        whole, replacement = argument(node, "self"), argument(node, "src")
        dim = argument(node, "dim") % value(whole).dim()
        size = value(whole).shape[dim]
        bounds = (argument(node, "start"), argument(node, "end"))
        if argument(node, "step") != 1 or not isinstance(size, int):
            continue
        if not all(isinstance(one, int | None) for one in bounds):
            continue
        start, end, _ = slice(*bounds).indices(size)
        build, parts = Builder(node), []
        if start > 0:
            parts.append(build(aten.slice.Tensor, whole, dim, 0, start))
        if end > start:
            if value(replacement).dtype != value(whole).dtype:
                replacement = build(aten._to_copy.default, replacement, dtype=value(whole).dtype)
            parts.append(replacement)
        if max(start, end) < size:
            parts.append(build(aten.slice.Tensor, whole, dim, max(start, end), size))
        replace(node, build(aten.cat.default, parts, dim) if parts else whole)
        changed = True
    return changed
