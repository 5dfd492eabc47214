"""The lowering configuration of an operation: tile sizes for each of its loops, by level."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ATTRIBUTE = re.compile(r"#iree_cpu\.lowering_config<(?P<levels>[^<>]*)>")
_LEVEL = re.compile(r"(?P<name>\w+) = \[(?P<sizes>[\d, ]*)\]")


@dataclass(frozen=True)
class LoweringConfig:
    """An `#iree_cpu.lowering_config`: the levels (`distribution`, `vector_common_parallel`, …) with a size for each
    loop of the operation. 0: the loop is not tiled at that level."""

    levels: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def parse(cls, text: str) -> LoweringConfig | None:
        """The configuration that the compiler prints; None if it is of another kind, or has parts that are not sizes
        (such as scalable vectors)."""
        found = _ATTRIBUTE.fullmatch(text)
        if found is None:
            return None
        levels = tuple(
            (level["name"], tuple(int(size) for size in level["sizes"].split(",") if size.strip()))
            for level in _LEVEL.finditer(found["levels"])
        )
        made = cls(levels)
        return made if levels and str(made) == text else None

    def __str__(self) -> str:
        levels = ", ".join(f"{name} = [{', '.join(map(str, s))}]" for name, s in self.levels)
        return f"#iree_cpu.lowering_config<{levels}>"

    def neighbours(self, largest: int) -> Iterator[LoweringConfig]:
        """Yield the configurations in which one size is twice or half of what it is here.

        A size stays at least 1, and is not doubled if it is `largest` (the longest dimension of an operand) or more.
        Which of them the backend accepts is for the compiler to say.
        """
        for at, (name, sizes) in enumerate(self.levels):
            for loop, size in enumerate(sizes):
                for other in (size * 2 if size < largest else 0, size // 2):
                    if size and other:
                        changed = (*sizes[:loop], other, *sizes[loop + 1 :])
                        yield LoweringConfig(
                            (*self.levels[:at], (name, changed), *self.levels[at + 1 :])
                        )
