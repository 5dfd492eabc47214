"""Generate with a prefill and then a decode program; run with the Python of the iree environment.

`generate_in_iree.py RESULTS FAMILY FRONTEND TARGET` prints token ids as JSON,
[batch_size][steps].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from scripts.core import tensors
from scripts.iree.session import Module, Session


class Program:
    """A compiled program of the results folder, called by the names of its inputs."""

    def __init__(self, results: Path, model: str, frontend: str, target: str) -> None:
        reference = results / "reference" / model
        vmfb = results / "compile" / model / frontend / target / "module.vmfb"
        self.signature = tensors.Signature.read(reference / "signature.json")
        self.start = list(tensors.load_npz(reference / "inputs.npz").values())
        self.session = Session(Module(vmfb, reference / "weights.irpa", "local-task"), 2)

    def __call__(self, inputs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """The best token, [batch_size, 1], and the cache."""
        logits, *cache = self.session.call(inputs)[0]
        return logits.argmax(-1, keepdims=True), cache


def main(results: Path, family: str, frontend: str, target: str) -> None:
    prefill = Program(results, f"{family}-prefill", frontend, target)
    decode = Program(results, f"{family}-decode", frontend, target)
    length = decode.start[2].shape[2]
    token, cache = prefill(prefill.start)
    position = np.array([prefill.start[0].shape[1]])
    pad = [(0, 0), (0, 0), (0, length - position[0]), (0, 0)]
    cache = [np.pad(array, pad) for array in cache]
    tokens = [token]
    for step in range(len(decode.signature.generation["tokens"][0])):
        token, cache = decode([token.astype(np.int64), position + step, *cache])
        tokens.append(token)
    print(json.dumps(np.concatenate(tokens, 1).tolist()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
