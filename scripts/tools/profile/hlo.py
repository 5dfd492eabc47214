"""What the instructions of a program that XLA has compiled compute, from its text (HLO): the nodes of the captured graph.

An instruction, and each of those that were fused into it, says which line of the StableHLO program it is of. XLA makes new convolutions and
products without lines in place of some; those are found by the weight that they read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scripts.frontends.lowering.locations import Origin

LAYOUT_OPCODES = frozenset(
    ("transpose", "copy", "reshape", "bitcast", "convert", "broadcast", "slice", "parameter", "tuple", "get-tuple-element", "constant")
)  # fmt: skip
"""Opcodes of HLO that only move data."""
PRODUCT_OPCODES = frozenset(("convolution", "dot", "custom-call"))
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%?(?P<name>[\w.-]+) = .*?[\])}] (?P<opcode>[a-z][\w-]*)\((?P<operands>[^)]*)\)"
)
_OPERAND = re.compile(r"%?([\w.-]+)(?:,|$)")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition)=%?(?P<name>[\w.-]+)")
_LINE = re.compile(r"source_line=(?P<line>\d+)")


class Instruction(NamedTuple):
    """An instruction of HLO. `opcodes`: its own, or those that were fused into it. `lines`: of the program. `operands`: names; of a
    parameter, its number."""

    opcodes: frozenset[str]
    lines: frozenset[int]
    operands: tuple[str, ...]

    @property
    def only_moves(self) -> bool:
        """Whether it only changes how data is laid out."""
        return self.opcodes <= LAYOUT_OPCODES


def mapped(
    text: str,
    lines: Mapping[int, Origin],
    products: Mapping[str, Origin],
    inputs: int,
    weights: Sequence[str],
) -> dict[str, tuple[tuple[Origin, ...], bool]]:
    """By the names of a compiled program's instructions: the nodes of the captured graph that each computes, and whether it only moves
    data. `lines`: the node of each line of the program; `products`: the products of the captured graph by module; `inputs`: how many of its
    arguments are no weights; `weights`: the names of the others.
    """
    instructions = parsed(text)
    computed = {}
    for name, instruction in instructions.items():
        nodes = [lines[line] for line in sorted(instruction.lines) if line in lines]
        if not nodes and instruction.opcodes & PRODUCT_OPCODES:
            read = [number - inputs for number in arguments(name, instructions)]
            modules = (weights[place].rpartition(".")[0] for place in read if place >= 0)
            nodes = [products[module] for module in modules if module in products][:1]
        computed[name] = tuple(dict.fromkeys(nodes)), instruction.only_moves
    return computed


def arguments(name: str, instructions: Mapping[str, Instruction]) -> list[int]:
    """The numbers of the arguments that an instruction reads, at once or after they were laid out in another way."""
    numbers, todo = list[int](), [*instructions[name].operands]
    while todo:
        if (operand := instructions.get(todo.pop(0))) is None or not operand.only_moves:
            continue
        if operand.opcodes == {"parameter"}:
            numbers += map(int, operand.operands)
        else:
            todo += operand.operands
    return numbers


def parsed(text: str) -> dict[str, Instruction]:
    """The instructions of a program in the text format of HLO by their names, each with what is in the computations that it calls."""
    own: dict[str, tuple[str, tuple[str, ...], list[str]]] = {}
    opcodes: dict[str, set[str]] = defaultdict(set)
    lines: dict[str, set[int]] = defaultdict(set)
    computation = ""
    for row in text.splitlines():
        if match := _COMPUTATION.match(row):
            computation = match["name"]
        elif match := _INSTRUCTION.match(row):
            name, opcode = match["name"], match["opcode"]
            operands = tuple(_OPERAND.findall(match["operands"]))
            own[name] = opcode, operands, [inner["name"] for inner in _CALLED.finditer(row)]
            for key in (name, computation):
                lines[key] |= {int(line["line"]) for line in _LINE.finditer(row)}
                opcodes[key].add(opcode)
    return {
        name: Instruction(
            frozenset().union(*(opcodes[inner] for inner in called))
            if called
            else frozenset((opcode,)),
            frozenset(lines[name]).union(*(lines[inner] for inner in called)),
            operands,
        )
        for name, (opcode, operands, called) in own.items()
    }
