"""Command-line options of every command that looks into the calls of a compiled module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.core import exits
from scripts.core.commands import option
from scripts.iree import benchmark
from scripts.iree.session import Module, NoDevice, device_info
from scripts.timing import arguments as timing_arguments


@dataclass(frozen=True, kw_only=True)
class Called:
    """A module, and what it is called with."""

    vmfb: Path
    weights: Path
    inputs: Path
    signature: Path
    device: str = option(help="IREE device URI: local-task")
    threads: int = timing_arguments.threads()

    @property
    def module(self) -> Module:
        return Module(self.vmfb, self.weights, self.device)

    def require_device(self) -> None:
        """Exit if this machine does not have the device."""
        try:
            device_info(self.device, self.threads)
        except NoDevice as error:
            exits.fail(f"no device {self.device}: {error}", exits.UNAVAILABLE)

    def raw_inputs(self, folder: Path) -> list[str]:
        """Write the inputs as raw bytes; return the flags of the tools that name them."""
        return benchmark.raw_inputs(self.inputs, self.signature, folder)
