"""Link the lowered programs given as JSON with scripts.frontends.lowering.link; print the texts of the linked ones, or the errors, as JSON.

Run with the Python of an environment that has IREE's compiler; used by test_link.py.
"""

from __future__ import annotations

import json
import sys

from scripts.core.tensors import TensorType
from scripts.frontends.lowering.link import Input, LinkError, Lowered, Parameter, link_located


def main() -> None:
    case = json.load(sys.stdin)
    a, b = (TensorType(name, (4, 4), "float32") for name in ("a", "b"))
    taken = TensorType("x", (case["rows"], 4), "float32")
    arguments = (Parameter(a), Parameter(b), Input(taken, 0))

    def linked(text: str) -> str:
        try:
            lowered = Lowered(text, "main", arguments)
            return link_located(lowered, [taken], "text", case["changing"])[0].decode()
        except LinkError as error:
            return str(error)

    print(json.dumps(list(map(linked, case["programs"]))))


if __name__ == "__main__":
    main()
