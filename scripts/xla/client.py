"""XLA's CPU client (PJRT, from jaxlib). Nothing here imports torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class Client:
    """The client of this process, with the `threads` threads of the first one. It computes with the arguments of a call alone, so
    a program whose weights are arguments cannot be folded."""

    def __init__(self, threads: int) -> None:
        # The client reads both when it is created.
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["NPROC"] = str(threads)
        import jax
        from jax.extend import backend

        jax.config.update("jax_enable_x64", True)  # else 64-bit inputs are cut to 32 bits
        self._client = backend.get_backend("cpu")
        self._device = self._client.devices()[0]

    def compile(self, program: str) -> Any:
        """The executable of a module of StableHLO with a function @main. What XLA refuses raises RuntimeError or ValueError."""
        return self._client.compile_and_load(program, [self._device])

    def place(self, arrays: Iterable[np.ndarray]) -> list[Any]:
        """The arrays on the device."""
        import jax

        return [jax.device_put(array, self._device).block_until_ready() for array in arrays]


def call(executable: Any, arguments: Sequence[Any]) -> list[Any]:
    """The results of a call, once they exist."""
    results = executable.execute(arguments)
    for result in results:
        result.block_until_ready()
    return results
