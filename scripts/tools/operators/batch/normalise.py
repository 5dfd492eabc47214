"""Normalise the text of a program, independently of its names and of how it was printed.

The normalised text is compiled together with others, and is part of the key of the cache. IREE's
parser reads the program and prints it without locations, attribute aliases and names of values, so
that the same program gives the same bytes. Needs iree-base-compiler.
"""

from __future__ import annotations

from iree.compiler import ir

from scripts.tools.operators.batch.batch_program import ENTRY, RESOURCES

_NAME, _VISIBILITY = "sym_name", "sym_visibility"


class NormaliseError(Exception):
    """The module is not a single program; the message says what it contains."""


class Normaliser:
    """Normalises programs one after another, with one MLIR context."""

    def __init__(self) -> None:
        self._context = ir.Context()

    def normalise(self, text: str, entry: str) -> str:
        """Return the normalised program (see batch_program.py) whose entry is the function `entry`. A
        program with resources keeps its module and is compiled alone. Raises NormaliseError if
        there is no such function, and ir.MLIRError if the text cannot be parsed."""
        with self._context, ir.Location.unknown(self._context):
            module = ir.Module.parse(text)
            _rename(module.operation, entry)
            if RESOURCES in text:
                return _printed(module.operation)
            return "".join(
                _printed(op.operation, use_local_scope=True) for op in module.body.operations
            )


def _printed(operation: ir.Operation, **how: bool) -> str:
    return operation.get_asm(enable_debug_info=False, **how).rstrip("\n") + "\n"


def _rename(module: ir.Operation, entry: str) -> None:
    """Rename the entry to `main`, and all other symbols to `main.<n>`, which are private."""
    defined = [op.operation for op in module.regions[0].blocks[0].operations]
    for op in defined:
        if _NAME not in op.attributes:
            raise NormaliseError(f"{op.name} stands beside the functions of the program")
    names = [ir.StringAttr(op.attributes[_NAME]).value for op in defined]
    if entry not in names:
        raise NormaliseError(f"no function @{entry}; there is {', '.join(names) or 'nothing'}")
    others = [name for name in names if name != entry]
    new = {entry: ENTRY} | {name: f"{ENTRY}.{n}" for n, name in enumerate(others, 1)}
    # First use temporary names, because another function may already have the name `main`.
    for name in names:
        ir.SymbolTable.replace_all_symbol_uses(name, f"{new[name]}!", module)
    for name in new.values():
        ir.SymbolTable.replace_all_symbol_uses(f"{name}!", name, module)
    for op, name in zip(defined, names, strict=True):
        op.attributes[_NAME] = ir.StringAttr.get(new[name])
        if name != entry:
            op.attributes[_VISIBILITY] = ir.StringAttr.get("private")
        elif _VISIBILITY in op.attributes:
            del op.attributes[_VISIBILITY]
