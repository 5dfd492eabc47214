"""A program of one function whose operations can be taken out, by IREE's Python bindings.

A part of it is a program too: what its operations use and do not compute themselves becomes an argument,
and what they compute for others becomes a result.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

ENTRY = "main"
REDUCED, REDUCTION = "reduced.mlir", "reduction.json"
"""The reduced program, and the report about it."""
_LINE = re.compile(r":(\d+):\d+\)")
_TENSORS = ("tensor<", "!torch.vtensor<", "!torch.tensor<")
"""What the types of values begin with that can be arguments and results of a function."""

Key = tuple[int, int]
"""A value: the position of its operation in the function (ARGUMENT for arguments), and its number there."""
ARGUMENT = -1

Instead = Mapping[int, Key]
"""A value that is used in place of the result of an operation, by the position of the operation."""
NOTHING: Instead = {}


class NotReducible(Exception):
    """A program does not have the form that is reduced: one function `main` of one block."""


class Program:
    """The operations of `main`, without its terminator, by their positions.

    `free`: positions of constants and of operations whose results are no tensors. They are part of any
    part that uses them. Raises NotReducible.
    """

    def __init__(self, text: str) -> None:
        from iree.compiler import ir

        self._ir = ir
        self._context = ir.Context()
        with self._context:
            try:
                self._module = ir.Module.parse(text)
            except ir.MLIRError as error:
                raise NotReducible(f"it does not parse: {str(error).splitlines()[0]}") from error
        top = list(self._module.body.operations)
        entries = [operation for operation in top if str(operation.operation.name) == "func.func"]
        if len(entries) != 1 or len(entries[0].regions[0].blocks) != 1:
            raise NotReducible(f"{len(entries)} functions; expected one, {ENTRY}, of one block")
        self._globals = {
            str(operation.operation.attributes["sym_name"]): operation.operation
            for operation in top
            if str(operation.operation.name) == "util.global"
        }
        self._block = entries[0].regions[0].blocks[0]
        *self._ops, end = [operation.operation for operation in self._block.operations]
        self._position = {op: place for place, op in enumerate(self._ops)}
        self._arguments = list(self._block.arguments)
        self._uses = [sorted(set(self._used(op))) for op in self._ops]
        self._returned = frozenset(self._used(end))
        self.free = frozenset(place for place, op in enumerate(self._ops) if self._is_free(op))

    @property
    def operations(self) -> list[int]:
        """The positions of all operations that are not free."""
        return [place for place in range(len(self._ops)) if place not in self.free]

    def name(self, place: int) -> str:
        """Such as `stablehlo.add`."""
        return str(self._ops[place].name)

    def is_weight(self, place: int) -> bool:
        """Whether an operation loads a weight."""
        return "global" in self._ops[place].attributes

    def at_lines(self, lines: Collection[int]) -> set[int]:
        """The operations that begin in these lines of the text."""
        return {
            place
            for place, op in enumerate(self._ops)
            if (line := _LINE.search(str(op.location))) and int(line[1]) in lines
        } - self.free

    def neighbours(self, place: int) -> set[int]:
        """The operations that an operation uses, or that use it; those behind a free one too."""
        near: set[int] = set()
        for next_to in (self._operands, self._users):
            left = [place]
            while left:
                new = next_to(left.pop()) - near
                near |= new
                left += new & self.free
        return near - {place} - self.free

    def behind(self, place: int) -> set[int]:
        """The operations whose results an operation uses; of free ones, those that these use."""
        reached: set[int] = set()
        left = [place]
        while left:
            new = self._operands(left.pop()) - reached
            reached |= new
            left += new & self.free
        return reached - self.free

    def _operands(self, place: int) -> set[int]:
        return {other for other, _ in self._uses[place] if other != ARGUMENT}

    def _users(self, place: int) -> set[int]:
        return {
            other for other, uses in enumerate(self._uses) if any(used == place for used, _ in uses)
        }

    def _used(self, op: Any) -> Iterator[Key]:
        """The values of the function that an operation uses, also inside its regions."""
        yield from (key for value in op.operands if (key := self._key(value)) is not None)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield from self._used(inner.operation)

    def _key(self, value: Any) -> Key | None:
        """The key of a value; None if it belongs to an inner block."""
        owner = value.owner
        if isinstance(owner, self._ir.Block):
            if owner == self._block:
                return ARGUMENT, self._ir.BlockArgument(value).arg_number
            return None
        place = self._position.get(owner.operation if hasattr(owner, "operation") else owner)
        return None if place is None else (place, self._ir.OpResult(value).result_number)

    def _is_free(self, op: Any) -> bool:
        if not all(str(result.type).startswith(_TENSORS) for result in op.results):
            return True
        return not op.operands and "global" not in str(op.name)

    def part(
        self,
        keep: Collection[int],
        results: Collection[Key] | None = None,
        instead: Instead = NOTHING,
    ) -> str:
        """The text of the program with these operations only. `results`: its results (default: `results(keep)`).
        `instead`: values that are used in place of the results of operations."""
        kept = self._closed(keep, instead)
        wanted = sorted(self.results(keep, instead) if results is None else results)
        outer = sorted(
            {key for place in kept for key in self._used_by(place, instead) if key[0] not in kept}
        )
        ir = self._ir
        with self._context, ir.Location.unknown():
            from iree.compiler.dialects import func

            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                for place in filter(self.is_weight, sorted(kept)):
                    name = self._ops[place].attributes["global"].value
                    self._globals[f'"{name}"'].clone()
                kind = ir.FunctionType.get([self._value(key).type for key in outer], [self._value(key).type for key in wanted])  # fmt: skip
                entry = func.FuncOp(ENTRY, kind)
            block = entry.add_entry_block()
            known: dict[Key, Any] = dict(zip(outer, block.arguments, strict=True))
            with ir.InsertionPoint(block):
                for place in sorted(kept):
                    copy = self._ops[place].clone()
                    self._rewire(copy, known, instead)
                    known |= {(place, number): result for number, result in enumerate(copy.results)}
                func.ReturnOp([known[key] for key in wanted])
            return str(module.operation.get_asm(assume_verified=True))

    def stand_in(self, place: int) -> Key | None:
        """The first value that an operation uses and that has the type of its only result; None if there is none."""
        if len(self._ops[place].results) != 1:
            return None
        kind = self._ops[place].results[0].type
        for key in map(self._key, self._ops[place].operands):
            if key is not None and self._value(key).type == kind:
                return key
        return None

    def _used_by(self, place: int, instead: Instead) -> list[Key]:
        return [_source(key, instead) for key in self._uses[place]]

    def _closed(self, keep: Collection[int], instead: Instead) -> set[int]:
        """The operations, and the free ones that they use."""
        kept, left = set(), set(keep)
        while left:
            place = left.pop()
            kept.add(place)
            left |= ({other for other, _ in self._used_by(place, instead)} & self.free) - kept
        return kept

    def results(self, keep: Collection[int], instead: Instead = NOTHING) -> list[Key]:
        """The values of operations that are used by no other of them, or that the program returns."""
        kept = self._closed(keep, instead)
        inside = {key for place in kept for key in self._used_by(place, instead)}
        return [
            (place, number)
            for place in sorted(keep)
            for number in range(len(self._ops[place].results))
            if (place, number) not in inside or (place, number) in self._returned
        ]

    def _value(self, key: Key) -> Any:
        place, number = key
        return self._arguments[number] if place == ARGUMENT else self._ops[place].results[number]

    def _rewire(self, copy: Any, known: dict[Key, Any], instead: Instead) -> None:
        """Let a copied operation use the values of the new function."""
        for number, operand in enumerate(copy.operands):
            if (key := self._key(operand)) is not None:
                copy.operands[number] = known[_source(key, instead)]
        for region in copy.regions:
            for block in region.blocks:
                for inner in block.operations:
                    self._rewire(inner.operation, known, instead)


def _source(key: Key, instead: Instead) -> Key:
    while key[0] in instead:
        key = instead[key[0]]
    return key
