"""The StableHLO text of PyTorch/XLA in a form that the MLIR of IREE parses: locations and constants.

Locations are printed in MLIR's form for people: `"…"` without `loc()`, after an operation and after an argument,
which no parser reads. The string is the JSON of the node's metadata, where the name of the node is in the
entry `custom`, as JSON again.
"""

from __future__ import annotations

import math
import re

NODE = "node"
"""The key of a node's name in the metadata entry `custom`."""

_STRING = r'"(?:[^"\\]|\\.)*"'
# `\22` is MLIR's escape of a quotation mark.
_NAME = re.compile(rf"22{NODE}[\\2]+: [\\2]+(?P<name>\w+?)\\")
_OF_OPERATION = re.compile(rf" (?:{_STRING}|\[unknown\]|\[{_STRING}(?:, {_STRING})*\])$")
_OF_ARGUMENT = re.compile(rf"(?<=>) (?:{_STRING}|\[unknown\])(?=[,)])")
_BOOLEANS = re.compile(r'dense<"0x(?P<digits>[0-9A-F]+)"> : tensor<(?P<sizes>(?:\d+x)+)i1>')


def for_parser(text: str) -> str:
    """The program as text that the MLIR of IREE parses, with the same values."""
    return with_locations(_BOOLEANS.sub(_with_bytes, text))


def _with_bytes(literal: re.Match[str]) -> str:
    """A constant of booleans in hexadecimal with a byte per element.

    The MLIR in torch_xla 2.9.0 writes a bit per element, of which the first is the lowest of its byte. That in IREE
    3.13.0 reads a byte per element: "elements hex data size is invalid for provided type: 'tensor<1x197xi1>'".
    A constant that already has a byte per element is left as it is.
    """
    packed = bytes.fromhex(literal["digits"])
    count = math.prod(int(size) for size in literal["sizes"].split("x")[:-1])
    if len(packed) != -(-count // 8):
        return literal[0]
    digits = "".join(f"{packed[i // 8] >> i % 8 & 1:02X}" for i in range(count))
    return f'dense<"0x{digits}"> : tensor<{literal["sizes"]}i1>'


def with_locations(text: str) -> str:
    """The program with locations that MLIR parses: of each operation, the name of its node."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#loc"):
            continue
        line = _OF_ARGUMENT.sub("", line)
        if operation := _OF_OPERATION.search(line):
            name = _NAME.search(operation[0])
            where = f'"{name["name"]}"' if name else "unknown"
            line = f"{line[: operation.start()]} loc({where})"
        lines.append(line)
    return "\n".join(lines) + "\n"
