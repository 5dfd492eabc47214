"""Embedding bags."""

from __future__ import annotations

import operator

from torch import fx
from torch.export import ExportedProgram

from scripts.lowering.fx_rewrites.edit import Builder, argument, aten, calls, replace, value

_NO_PADDING = {
    aten.embedding_bag.padding_idx: None,
    aten._embedding_bag.default: -1,
    aten._embedding_bag_forward_only.default: -1,
}
"""The operators, before and after decomposition, with their value of `padding_idx` for no padding."""
_SUM, _MEAN = 0, 1
"""Values of the operator's argument `mode`."""


def embedding_bag_as_sum(program: ExportedProgram) -> bool:
    """An embedding bag with as many indices per bag: the rows are gathered, then summed or averaged.

    The sum may be in another order. torch-mlir 20261001 does not lower the operator ("number of output
    elements", tensor<0xi64>), and PyTorch/XLA 2.9 unrolls it: 20 operations per bag.
    """
    changed = False
    for node in calls(program, *_NO_PADDING):
        size = _bag_size(node)
        users = list(node.users)
        if size is None or any(u.target is not operator.getitem or u.args[1] for u in users):
            continue
        build = Builder(node)
        bags = build(aten.view.default, argument(node, "indices"), [-1, size])
        rows = build(aten.embedding.default, argument(node, "weight"), bags)
        reduce = aten.sum.dim_IntList if argument(node, "mode") == _SUM else aten.mean.dim
        reduced = build(reduce, rows, [1])
        for user in users:
            replace(user, reduced)
        changed = True
    return changed


def _bag_size(node: fx.Node) -> int | None:
    """The indices per bag; None if bags may differ, or for a mode or option that is not rewritten."""
    offsets, indices = argument(node, "offsets"), argument(node, "indices")
    options = ("scale_grad_by_freq", "per_sample_weights", "include_last_offset")
    if argument(node, "mode") not in (_SUM, _MEAN) or value(indices).dim() != 1:
        return None
    if any(argument(node, name) not in (None, False) for name in options):
        return None
    if argument(node, "padding_idx") != _NO_PADDING[node.target]:
        return None
    if offsets.target is not aten.arange.start_step or len(offsets.args) != 3:
        return None
    start, end, step = offsets.args
    whole = start == 0 and end == value(indices).shape[0] and step > 0 and end % step == 0
    return step if whole and end else None
