"""What a program of MLIR may consist of: operations that compute with tensors, and values of attributes that describe these.

Other dialects run code of the file: llvm.inline_asm has machine instructions, hal.executable may have object code or name a file
that has some, transform.sequence rewrites the compiler's other programs, a function without a body or a custom call names a function
of the process that runs the program. So all is refused but what is listed here, in nested regions too. From IREE 3.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from iree.compiler import ir

DIALECTS = frozenset(
    [
        "affine",
        "arith",
        "builtin",
        "cf",
        "chlo",
        "complex",
        "func",
        "index",
        "linalg",
        "math",
        "ml_program",
        "scf",
        "sdy",
        "shape",
        "stablehlo",
        "tensor",
        "tm_tensor",
        "torch",
        "torch_c",
        "tosa",
        "ub",
    ]
)
"""Dialects whose operations are allowed but those of `_REFUSED`."""
OPERATIONS = frozenset(
    ("util.global", "util.global.load", "util.global.store", "util.optimization_barrier")
)
"""Allowed ones of other dialects: those of parameters, and what IREE makes of optimization barriers."""

_REFUSED = frozenset(("tosa.custom",))
_TARGETS = re.compile(
    r"(?:chlo|mhlo|stablehlo)\.\w+|Sharding|SPMDFullToShardShape|SPMDShardToFullShape|shape_assertion",
    re.ASCII,
)
"""Targets of custom calls that IREE or XLA replaces by operations. Others are functions of the process."""

_ATTRIBUTE_DIALECTS = DIALECTS | {"mhlo"}
_PARAMETER = re.compile(r"#(?:flow|stream)\.parameter\.named<")
_ATTRIBUTE_NAMES = re.compile(
    r"[^.]+|(?:chlo|jax|mhlo|ml_program|sdy|stablehlo|tf|torch)\..+|iree\.(?:abi\..+|identifier|reflection)"
)
"""Names with a dot are notes of a dialect to an operation of another. Those of others choose devices and kernels."""
_OF_EACH = ("arg_attrs", "res_attrs")
_LIBRARY = "library_call"
"""The attribute of linalg that names a function to call in the place of an operation."""
_LINE = re.compile(r'^loc\("-":(\d+):')
_DIALECT = re.compile(r"[#!](\w+)[.<]")


def refused(module: ir.Module) -> str:
    """The first part of a program that is not allowed, and where it is; "" if there is none."""
    problems: list[str] = []

    def look(operation: Any) -> ir.WalkResult:
        if problem := _problem(operation.operation):
            problems.append(f"{problem}{_place(operation.operation)}")
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    return problems[0] if problems else ""


def _problem(operation: ir.Operation) -> str:
    name = operation.name
    if (name.partition(".")[0] not in DIALECTS and name not in OPERATIONS) or name in _REFUSED:
        return f"{name} is none of the operations that a program may have"
    attributes = operation.attributes
    if name == "func.func" and not len(operation.regions[0].blocks):
        return f"@{attributes['sym_name'].value} is a function without a body"
    if name == "stablehlo.custom_call":
        target = attributes["call_target_name"].value
        if not _TARGETS.fullmatch(target):
            return f"stablehlo.custom_call to {target!r}, which is none of the functions that a program may call"
    for key, attribute in _attributes(operation):
        if key == _LIBRARY or not _ATTRIBUTE_NAMES.fullmatch(key):
            return f"{name} has the attribute {key}, which is none that a program may have"
        for value in _values(attribute):
            dialect = _DIALECT.match(text := str(value))
            if dialect and dialect[1] not in _ATTRIBUTE_DIALECTS and not _PARAMETER.match(text):
                return f"{name} has the attribute {key} of the dialect {dialect[1]}, of which a program may have none"
    return ""


def _attributes(operation: ir.Operation) -> Iterator[tuple[str, ir.Attribute]]:
    """The attributes of an operation, and those of the arguments and results of a function."""
    for key, attribute in operation.attributes.items():
        yield key, attribute
        if key in _OF_EACH and isinstance(attribute, ir.ArrayAttr):
            yield from ((named.name, named.attr) for notes in attribute for named in notes)


def _values(attribute: ir.Attribute) -> Iterator[ir.Attribute]:
    """The attribute, or those inside if it is a list or a dictionary, without arrays of numbers, whose text is long."""
    todo = [attribute]
    while todo:
        value = todo.pop()
        if isinstance(value, ir.ArrayAttr):
            todo += list(value)
        elif isinstance(value, ir.DictAttr):
            todo += [named.attr for named in value]
        elif not isinstance(value, (ir.DenseElementsAttr, ir.DenseResourceElementsAttr)):
            yield value


def _place(operation: ir.Operation) -> str:
    """The function that has the operation, and its line in a file of text, in brackets."""
    outer = operation
    while outer is not None and outer.name != "func.func":
        outer = outer.parent
    places = [f"@{outer.attributes['sym_name'].value}"] if outer is not None else []
    if line := _LINE.search(str(operation.location)):
        places.append(f"line {line[1]}")
    return f" ({', '.join(places)})" if places else ""
