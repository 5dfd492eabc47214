"""The declaration of a Snakemake patch, and the check whether it fits the running Snakemake."""

from __future__ import annotations

import dis
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import snakemake.api  # its other modules cannot be imported before this one
from packaging.specifiers import SpecifierSet

VERSION = "==9.27.*"
"""The Snakemake that the patches are written for and tested with."""


@dataclass(frozen=True)
class Need:
    """An undocumented attribute, `module:Class.attribute`, that a patch uses. `parameters`: of a method, as
    `inspect.signature` prints them without annotations."""

    attribute: str
    parameters: str = ""

    def problem(self) -> str:
        """How the attribute differs from what is needed; "" if it does not."""
        module, path = self.attribute.split(":")
        class_name, name = path.split(".")
        try:
            owner = getattr(importlib.import_module(module), class_name)
        except (ImportError, AttributeError):
            return f"{module}.{class_name} does not exist"
        declared = any(name in vars(base) for base in owner.__mro__)
        if not (declared or name in _set_by_constructor(owner)):
            return f"{path} does not exist"
        if self.parameters and (found := _parameters(getattr(owner, name))) != self.parameters:
            return f"{path} takes {found}, expected {self.parameters}"
        return ""


def needs(owner: str, *names: str, **methods: str) -> tuple[Need, ...]:
    """Needs of one class: `module:Class`, names of attributes, and methods with their parameters."""
    return (
        *(Need(f"{owner}.{name}") for name in names),
        *(Need(f"{owner}.{name}", parameters) for name, parameters in methods.items()),
    )


@dataclass(frozen=True)
class Patch:
    """A replaced or undocumented part of Snakemake.

    `replaces` names the part and `without` says what happens without the patch; both are in the table
    of docs/architecture.md. `runs`: the runs that apply it: on this machine, on a cluster, or any run
    that asks for it. Where it does not fit, a run on a cluster stops before its first job, and another one warns.
    """

    name: str
    replaces: str
    without: str
    runs: Literal["local", "cluster", "asked"]
    needs: tuple[Need, ...]

    def problem(self) -> str:
        """Why the patch cannot be applied to this Snakemake; "" if it can."""
        version = snakemake.__version__
        if not SpecifierSet(VERSION).contains(version, prereleases=True):
            return f"it is written for Snakemake {VERSION}, this is {version}"
        return next(filter(None, (need.problem() for need in self.needs)), "")


def _set_by_constructor(owner: type) -> Iterator[str]:
    """Names of the attributes that the constructors of a class assign to its instances."""
    for base in owner.__mro__:
        for method in ("__init__", "__post_init__"):
            if code := getattr(vars(base).get(method), "__code__", None):
                yield from (
                    i.argval for i in dis.get_instructions(code) if i.opname == "STORE_ATTR"
                )


def _parameters(method: Callable) -> str:
    """Parameters of a method as `inspect.signature` prints them, without annotations."""
    signature = inspect.signature(method)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
