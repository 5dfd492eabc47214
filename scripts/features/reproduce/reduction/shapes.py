"""Makes the shapes of a program smaller while it fails in the same way.

A size is replaced in all types of the text, and if that is not a valid program, also wherever the number stands by itself, as
sizes are constants and attributes too. The compiler says whether the result is valid: an invalid program fails in another way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_SHAPE = re.compile(r"(?<=tensor<)(?:\d+x)+|(?<=vtensor<\[)[\d,]+(?=\])")
_NUMBER = re.compile(r"\d+")
_FIRST_ONE = re.compile(r"(?<=tensor<)1x(?=\d)")
_LIST = re.compile(r"\[[\d, ]*\]")
_DIMENSIONS = re.compile(r"\b(?:\w+_)?dim(?:ension)?s = \[[\d, ]*\](?: x \[[\d, ]*\])?")


def shrink(text: str, fails: Callable[[str], bool]) -> str:
    """Return a program with the smallest sizes that were found; `fails`: whether one fails in the same way.

    Every size is tried once, the largest first: as 1, 2, 4 and so on. All dimensions of one size shrink together.
    Then the first dimension of each type is left out where it is 1, as in a batch of one.
    """
    for size in sizes(text):
        text = next((one for one in _smaller(text, size) if fails(one)), text)
    while (flatter := _without_first_ones(text)) != text and fails(flatter):
        text = flatter
    return text


def sizes(text: str) -> list[int]:
    """The sizes above 1 in the types of a program, the largest first."""
    found = {int(n) for shape in _SHAPE.findall(text) for n in _NUMBER.findall(shape)}
    return sorted(found - {0, 1}, reverse=True)


def _smaller(text: str, size: int) -> Iterator[str]:
    wanted = 1
    while wanted < size:
        in_types = _in_types(text, size, wanted)
        yield in_types
        everywhere = re.sub(rf"(?<![\w.%#-]){size}(?![\w.])", str(wanted), in_types)
        if everywhere != in_types:
            yield everywhere
        wanted *= 2


def _without_first_ones(text: str) -> str:
    """The program with `tensor<2x3xf32>` in place of `tensor<1x2x3xf32>`, where the lists of dimensions of StableHLO
    operations count from the dimension after it."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        flatter = _FIRST_ONE.sub("", line)
        if flatter != line:
            lines[number] = _DIMENSIONS.sub(_one_less, flatter)
    return "\n".join(lines)


def _one_less(lists: re.Match) -> str:
    def moved(numbers: re.Match) -> str:
        left = [str(int(n) - 1) for n in _NUMBER.findall(numbers[0]) if n != "0"]
        return f"[{', '.join(left)}]"

    return _LIST.sub(moved, lists[0])


def _in_types(text: str, size: int, wanted: int) -> str:
    def replaced(shape: re.Match) -> str:
        return _NUMBER.sub(lambda n: str(wanted) if int(n[0]) == size else n[0], shape[0])

    return _SHAPE.sub(replaced, text)
