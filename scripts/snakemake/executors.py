"""Subclasses of the cluster executors that Snakemake's plugins provide.

A subclass overrides documented methods of `RemoteExecutor` (snakemake-interface-executor-plugins).
One undocumented assignment puts it in the place of the plugin's class: Snakemake takes an executor
from the registry of plugins after it has read the Snakefile.
"""

from __future__ import annotations

from typing import Any

from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from scripts.snakemake.patch import needs

SUBCLASSED = needs(
    "snakemake_interface_executor_plugins.registry.plugin:Plugin", "executor", "common_settings"
)
"""What every patch by a subclass needs."""


class AllCores(RemoteExecutor):
    """Makes the Snakemake on a node use the cores of that node, and not as many as the submitting machine has."""

    @property
    def cores(self) -> str:
        return "all"


def subclass(bases: tuple[type[RemoteExecutor], ...], attributes: dict[str, Any]) -> None:
    """Put a subclass, of `bases` and with `attributes`, in place of every cluster's executor."""
    registry = ExecutorPluginRegistry()
    for name in registry.get_registered_plugins():
        plugin = registry.get_plugin(name)
        # If a Snakefile is read twice in one process, the plugin's own class is the base again.
        original = getattr(plugin.executor, "subclassed", plugin.executor)
        if issubclass(original, RemoteExecutor):
            members = {"subclassed": original, "__module__": original.__module__} | attributes
            plugin.executor = type(original.__name__, (*bases, original), members)
