"""Default tolerances by the dtype of the computation."""

from __future__ import annotations

TOLERANCES = {"f32": 1e-3, "f16": 1e-3, "bf16": 1e-2}
"""Absolute and relative tolerance of outputs by the model's dtype.

From PyTorch's benchmarks/dynamo, for inference: 1e-3 is its tolerance in half precision, 1e-2 that
of models which need a higher one. Its 1e-4 for float32 compares a compiler with eager on the same
device. Kernels of other devices sum in another order, and have 1e-3 here.
"""


TRAIN_TOLERANCES = {"f32": 1e-2, "f16": 4e-2, "bf16": 4e-2}
"""The tolerance of losses and gradients: that of PyTorch's benchmarks/dynamo for training (1e-2, and
4e-2 for models that need more). A gradient is discontinuous where an activation is close to zero: in
ResNet-18 another order of summation changes single values by a thousandth, in inductor and in XLA.
"""
