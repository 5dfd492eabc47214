"""Dimensions of inputs whose sizes are known when a program is called.

A model has options that set such sizes, for example `batch_size`. A program for all of their sizes is exported once. IREE does
not check them (3.13: of two inputs that share a dimension and have 7 and 8 rows, it computes something), so what calls such
a program does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.core.tensors import OPEN, TensorType


@dataclass(frozen=True)
class Sizes:
    """The sizes that an option may have: multiples of `multiple_of` from `min` to `max` (None: any). `values`: those that are
    measured."""

    values: tuple[int, ...]
    min: int = 1
    max: int | None = None
    multiple_of: int = 1

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Sizes:
        """The sizes of an entry of the configuration."""
        return cls(**{**entry, "values": tuple(entry["values"])})

    def allows(self, size: int) -> bool:
        """Whether a size is one of them."""
        return (
            self.min <= size <= (math.inf if self.max is None else self.max)
            and size % self.multiple_of == 0
        )

    def within(self, other: Sizes) -> bool:
        """Whether all of them are sizes that the other allows, which has no multiples."""
        return other.min <= self.min and (
            other.max is None or (self.max is not None and self.max <= other.max)
        )

    def __str__(self) -> str:
        """Such as `1 to 64, multiples of 8`."""
        to = "or more" if self.max is None else f"to {self.max}"
        return f"{self.min} {to}" + (
            f", multiples of {self.multiple_of}" if self.multiple_of > 1 else ""
        )

    def probes(self) -> tuple[int, ...]:
        """Two sizes by which the dimensions of an option are found, fewer if there are no two. The first one, which is above
        `multiple_of` if there is such a size, is also the one with which a program is captured: torch.export takes a symbol of
        value 1 for a constant."""
        least = math.ceil(self.min / self.multiple_of) * self.multiple_of
        further = [least + step * self.multiple_of for step in range(3)]
        known = dict.fromkeys((*sorted(self.values, reverse=True), *further))
        first = sorted(filter(self.allows, known), key=lambda size: size <= self.multiple_of)
        return tuple(first[:2])


@dataclass(frozen=True)
class Dimension:
    """A dimension of an input that depends on an option: its size is `factor` times the option's value plus `offset`.

    `position`: of the input, in the order of a program's arguments; `name`: of the input. `axis`: of the dimension. `min`, `max`
    and `multiple_of`: of the option's value (Sizes).
    """

    position: int
    name: str
    axis: int
    option: str
    factor: int = 1
    offset: int = 0
    min: int = 1
    max: int | None = None
    multiple_of: int = 1

    @property
    def sizes(self) -> Sizes:
        """The values that its option may have."""
        return Sizes((), self.min, self.max, self.multiple_of)

    @property
    def place(self) -> str:
        """Such as `dimension 1 of input ['input_ids']`."""
        return f"dimension {self.axis} of input {self.name or self.position}"

    @property
    def formula(self) -> str:
        """Its size, such as `2 * seq_len + 1`."""
        text = self.option if self.factor == 1 else f"{self.factor} * {self.option}"
        return text if not self.offset else f"{text} {'+-'[self.offset < 0]} {abs(self.offset)}"

    def value_of(self, size: int) -> int | None:
        """The value of the option for which the dimension has this size; None if there is none."""
        value, rest = divmod(size - self.offset, self.factor)
        return None if rest else value


class NotOneOption(Exception):
    """The size of a dimension does not follow from one option. Says which, and what to do."""


def dimension_of(
    position: int, name: str, axis: int, option: str, sizes: Sizes, observed: Mapping[int, int]
) -> Dimension | None:
    """The dimension whose sizes were `observed` for two values of an option; None if it does not depend on the option.

    Raises NotOneOption if its size is neither a multiple of the value, nor the value and a constant. (Any two sizes are a multiple
    and a constant, for example those of a square.)
    """
    (value, size), (other, other_size) = observed.items()
    if size == other_size:
        return None
    factor, rest = divmod(other_size - size, other - value)
    dimension = Dimension(
        position, name, axis, option, factor, size - factor * value,
        sizes.min, sizes.max, sizes.multiple_of,
    )  # fmt: skip
    if rest or factor < 1 or (dimension.offset and factor > 1):
        raise NotOneOption(
            f"{dimension.place} has size {size} with {option} {value}, and {other_size} with {option} {other}; expected a "
            f"multiple of {option}, or {option} and a constant"
        )
    return dimension


def opened(types: Sequence[TensorType], dimensions: Iterable[Dimension]) -> list[TensorType]:
    """The types of a program's inputs: those of a reference, with their dimensions open."""
    open_types = list(types)
    for dimension in dimensions:
        shape = list(open_types[dimension.position].shape)
        shape[dimension.axis] = OPEN
        open_types[dimension.position] = dataclasses.replace(
            open_types[dimension.position], shape=tuple(shape)
        )
    return open_types


def problems(dimensions: Sequence[Dimension], shapes: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield what is wrong with the shapes of the inputs of a call: dimensions of one option that disagree, or a size that is
    not allowed. Sizes that do not depend on an option are checked by IREE itself."""
    first: dict[str, tuple[Dimension, int, int]] = {}
    for dimension in dimensions:
        size = shapes[dimension.position][dimension.axis]
        value = dimension.value_of(size)
        if value is None:
            yield f"{dimension.place}: found size {size}, expected {dimension.formula}"
        elif dimension.option not in first:
            first[dimension.option] = (dimension, size, value)
            if not dimension.sizes.allows(value):
                sizes_found = f"found size {size}" + (
                    "" if value == size else f", which is {dimension.option} {value}"
                )
                yield f"{dimension.place}: {sizes_found}; expected {dimension.option} of {dimension.sizes}"
        elif value != (before := first[dimension.option])[2]:
            other, other_size, expected = before
            yield (
                f"{dimension.place}: found size {size}, expected {dimension.factor * expected + dimension.offset}, because {other.place} has size "
                f"{other_size} ({dimension.option} {expected})"
            )
