"""Writes programs of JAX in three formats: text (.mlir), bytecode (.mlirbc) and StableHLO's portable artifact (.stablehlo).

.venvs/torch-mlir/bin/python -m benchmarks.jax_programs programs
snakemake --cores 8 results/latency.csv --config "file=programs/*" targets=llvm-cpu

Their weights are seeded literals, as in a program whose weights are closed over.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export, lax
from jax import numpy as jnp

SEED = 0


def weights(*shapes: tuple[int, ...]) -> list[jax.Array]:
    """Seeded float32 weights."""
    random = np.random.default_rng(SEED)
    return [jnp.asarray(random.normal(0, 0.1, shape), jnp.float32) for shape in shapes]


def mlp(x: jax.Array) -> jax.Array:
    """Two layers with GELU, and a softmax."""
    first, second = weights((256, 512), (512, 64))
    return jax.nn.softmax(jax.nn.gelu(x @ first) @ second)


def conv_net(x: jax.Array) -> jax.Array:
    """Two convolutions with strides, in the order NHWC, and a mean over the image."""
    for kernel in weights((3, 3, 3, 16), (3, 3, 16, 32)):
        x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))  # fmt: skip
    return x.mean((1, 2))


def attention(x: jax.Array) -> jax.Array:
    """Causal attention with four heads, a residual connection and a normalization."""
    split, joined = weights((128, 384), (128, 128))
    query, key, value = (part.reshape(2, 64, 4, 32) for part in jnp.split(x @ split, 3, axis=-1))
    out = x + jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(2, 64, 128) @ joined  # fmt: skip
    return jax.nn.standardize(out)


def recurrent(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A recurrent network by `scan`, whose weights are used in the body of the loop."""
    inner, outer = weights((64, 64), (32, 64))

    def step(state: jax.Array, part: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jnp.tanh(state @ inner + part @ outer)
        return state, state

    return lax.scan(step, jnp.zeros((4, 64), jnp.float32), x)


def one_hot(labels: jax.Array, image: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows of a table by a product with one-hot vectors, and a product with bytes. IREE 3.13 computes both wrongly: its products take
    booleans and unsigned integers for signed ones."""
    table, layer = weights((16, 32), (64, 8))
    return (labels[:, None] == jnp.arange(16)).astype(jnp.float32) @ table, image.astype(jnp.float32) @ layer  # fmt: skip


def argument(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


PROGRAMS: dict[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]] = {
    mlp: (argument(jnp.float32, 8, 256),),
    conv_net: (argument(jnp.float32, 2, 64, 64, 3),),
    attention: (argument(jnp.float32, 2, 64, 128),),
    recurrent: (argument(jnp.float32, 16, 4, 32),),
    one_hot: (argument(jnp.int32, 8), argument(jnp.uint8, 8, 64)),
}


def write(function: Callable[..., Any], arguments: tuple[Any, ...], folder: Path) -> None:
    """Write a program in each format, under names that tell its format too."""
    name, jitted = function.__name__.replace("_", "-"), jax.jit(function)
    module = jitted.lower(*arguments).compiler_ir("stablehlo")
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    (folder / f"{name}-text.mlir").write_text(str(module))
    (folder / f"{name}-bytecode.mlirbc").write_bytes(bytecode.getvalue())
    artifact = export.export(jitted)(*arguments).mlir_module_serialized
    (folder / f"{name}-artifact.stablehlo").write_bytes(artifact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for function, arguments in PROGRAMS.items():
        write(function, arguments, folder)


if __name__ == "__main__":
    main()
