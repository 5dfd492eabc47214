"""Link the lowered programs given as JSON with scripts.lowering.link; print the texts of the linked ones as JSON.

Run with the Python of an environment that has IREE's compiler; used by test_link.py.
"""

from __future__ import annotations

import json
import sys

from scripts.core.tensors import TensorType
from scripts.lowering.link import Input, Lowered, Parameter, link


def main() -> None:
    case = json.load(sys.stdin)
    taken, a, b = (TensorType(name, (4, 4), "float32") for name in ("x", "a", "b"))
    arguments = (Parameter(a), Parameter(b), Input(taken, 0))
    texts = [
        link(Lowered(text, "main", arguments), [taken], changing=case["changing"]).decode()
        for text in case["programs"]
    ]
    print(json.dumps(texts))


if __name__ == "__main__":
    main()
