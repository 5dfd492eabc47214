"""Default tolerances by the dtype of the computation."""

from __future__ import annotations

TOLERANCES = {"f32": 1e-3, "f16": 1e-3, "bf16": 1e-2}
"""By the model's dtype, absolute and relative at once.

From PyTorch's benchmarks/dynamo, for inference: 1e-3 is its tolerance in half precision, 1e-2 that
of models which need a higher one. Its 1e-4 for float32 holds a compiler to eager on one device;
kernels of other devices sum in another order, and get 1e-3.
"""


TRAIN_TOLERANCES = {"f32": 1e-2, "f16": 4e-2, "bf16": 4e-2}
"""The same for losses and gradients: those of PyTorch's benchmarks/dynamo for training (1e-2, and
4e-2 for models that need more). A gradient jumps where an activation is next to zero: in ResNet-18
another order of summation moves single values of it by a thousandth, in inductor as in XLA.
"""
