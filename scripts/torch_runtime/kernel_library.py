"""What the runtimes have in common that replace a kernel of models/kernels/ by that of a library for CUDA.

The library's function gets the kernel's inputs by name and returns its results in their order. They are
verified and timed as the kernel itself is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripts.core import exits
from scripts.torch_runtime.arguments import Work
from scripts.torch_runtime.torch_session import TorchSession

Functions = Mapping[str, Callable]
"""The library's functions by the names of kernels."""

EPS = 1e-5
"""The epsilon of the norms in models/kernels/."""


def open_session(
    work: Work, device: Any, package: str, functions: Callable[[], Functions]
) -> TorchSession:
    """The session of a kernel, by the function of a library.

    `functions` imports the library. Exits as unavailable if the package is not installed, and as
    unsupported if it has no such kernel.
    """
    file = work.model.model_file
    name = file.stem if file.parent.parts[-2:] == ("models", "kernels") else ""
    try:
        known = functions()
    except ImportError as error:
        env = Path(sys.prefix).name
        exits.fail(
            f"no package {package} in this environment ({error}); add it to envs/{env}.yaml and run "
            f"`vmfbench lock {env}`",
            exits.UNAVAILABLE,
        )
    if name not in known:
        exits.fail(
            f"{work.runtime} has no kernel {name or work.model.name}; it has {', '.join(known)}",
            exits.UNSUPPORTED,
        )
    return TorchSession(work, device, lambda _: known[name])
