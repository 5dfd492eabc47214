"""Loads mutated model files as the stage `reference` does, in a forked process, and counts how it ends.

    .venvs/torch-mlir/bin/python -m benchmarks.mutated_files --count 2000

`loaded`: the change did no harm. `refused`: an error of the readers, which names the file. `raised` is any other exception, and `stuck` a
file that takes a minute: with one of these, the exit code is 1. `crashed`: a signal ended the process, in IREE's or ONNX Runtime's native
code; in a run, this is the outcome of its row. The readers of the driver: python -m pytest tests/unit/test_mutated_files.py
--hypothesis-profile=mutations
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import torch
from iree import runtime as rt
from iree.compiler import ir
from onnx import helper, numpy_helper
from transformers import BertConfig, BertModel

from scripts.frontends.sources import load_exported_program, load_mlir, load_onnx  # noqa: F401 - before the fork
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.errors import ModelError, ModelFileError
from tests import mutations

SECONDS = 60
_CODES = {0: "loaded", 10: "refused", 11: "raised"}
_MLIR = """\
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = util.global.load @w : tensor<4xf32>
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = stablehlo.add %x, %w : tensor<4xf32>
  %z = stablehlo.multiply %y, %c : tensor<4xf32>
  return %z : tensor<4xf32>
}
"""
Mutant = tuple[Path, dict[str, Any]]
"""The file of a model, and the options of its entry."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--count", type=int, default=200, help="of each kind")
    parser.add_argument("--kinds", nargs="+", help="default: all")
    args = parser.parse_args()
    unexpected = 0
    with tempfile.TemporaryDirectory() as folder:
        kinds = _kinds(Path(folder))
        for kind in args.kinds or kinds:
            began, ends = time.monotonic(), Counter[str]()
            most_mb = 0.0
            while (seed := ends.total()) < args.count:
                reported, mb = _ends(kinds[kind], range(seed, args.count), Path(folder))
                ends.update(reported)
                most_mb = max(most_mb, mb)
                for number, end in enumerate(reported, seed):
                    if end in ("raised", "stuck"):
                        print(f"{kind}, seed {number}: {end}", file=sys.stderr)
                        unexpected += 1
            seconds = time.monotonic() - began
            print(f"{kind:12} {', '.join(f'{n} {end}' for end, n in ends.most_common())}; {seconds:.0f} s, at most {most_mb:.0f} MB", flush=True)  # fmt: skip
    sys.exit(bool(unexpected))


def _ends(
    write: Callable[[Random, Path], Mutant], seeds: range, folder: Path
) -> tuple[list[str], float]:
    """How loading the mutants of some seeds ends, up to the first that ends the process, and the peak memory of the process in MB."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            if not os.environ.get("SHOW"):
                os.dup2(nowhere.fileno(), 2)
        for seed in seeds:
            signal.alarm(SECONDS)
            with tempfile.TemporaryDirectory(dir=folder) as mutant:
                os.write(writing, bytes([_load(*write(Random(seed), Path(mutant)))]))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as reports:
        ends = [_CODES[code] for code in reports.read()]
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        ends.append("stuck" if code == -signal.SIGALRM else "crashed" if code < 0 else "raised")
    return ends, used.ru_maxrss / 1024


def _load(path: Path, options: dict[str, Any]) -> int:
    try:
        load_model(ModelChoice("m", path, options))
    except (ModelError, ModelFileError) as error:
        return 10 if str(path.parent) in str(error) else 11
    except SystemExit:  # too large, which footprint.require says
        return 10
    except BaseException:
        traceback.print_exc()
        return 11
    return 0


def _kinds(folder: Path) -> dict[str, Callable[[Random, Path], Mutant]]:
    """A function for each kind of file that writes a mutant into a folder."""
    arrays = {"x": np.ones(4, np.float32)}
    np.savez(folder / "inputs.npz", **arrays)
    with _quiet():
        program = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),))
        torch.export.save(program, folder / "m.pt2")
        _write_bert(folder / "hf")
    with ir.Context():
        text = _MLIR.replace('#flow.parameter.named<"model"::"w">', "dense<1.0>")
        ir.Module.parse(text).operation.write_bytecode(str(folder / "m.mlirbc"))
    weight = np.ones(4, np.float32)
    index = rt.ParameterIndex()
    index.add_buffer("w", weight.tobytes())
    index.create_archive_file(str(folder / "w.irpa"))
    (folder / "w.safetensors").write_bytes(_safetensors(weight))
    (folder / "w.gguf").write_bytes(_gguf(weight))

    def of_file(name: str) -> Callable[[Random, Path], Mutant]:
        content = (folder / name).read_bytes()

        def write(random: Random, to: Path) -> Mutant:
            (to / name).write_bytes(mutations.of_bytes(random, content))
            return to / name, {}

        return write

    def of_option(key: str, name: str) -> Callable[[Random, Path], Mutant]:
        def write(random: Random, to: Path) -> Mutant:
            (to / "m.mlir").write_text(_MLIR)
            path, _ = of_file(name)(random, to)
            return to / "m.mlir", {key: [str(path)] if key == "parameters" else str(path)}

        return write

    (folder / "m.mlir").write_text(_MLIR)
    return {
        "pt2": lambda random, to: _write_program(folder / "m.pt2", random, to),
        "onnx": _write_onnx,
        "hugging-face": lambda random, to: _write_folder(folder / "hf", random, to),
        "mlir": of_file("m.mlir"),
        "mlirbc": of_file("m.mlirbc"),
        "inputs": of_option("inputs", "inputs.npz"),
        "golden": of_option("golden", "inputs.npz"),
        **{ending: of_option("parameters", f"w.{ending}") for ending in ("irpa", "safetensors", "gguf")},
    }  # fmt: skip


def _write_onnx(random: Random, to: Path) -> Mutant:
    weight = numpy_helper.from_array(np.ones((64, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ("batch", 64))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ("batch", 3))], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = to / "m.onnx"
    if random.randint(0, 1):
        mutations.of_message(random, model)
        path.write_bytes(model.SerializePartialToString())
    else:
        path.write_bytes(mutations.of_bytes(random, model.SerializeToString()))
    return path, {}


def _write_program(valid: Path, random: Random, to: Path) -> Mutant:
    """A program with changed bytes, or with a changed text in an archive that is whole."""
    path = to / "m.pt2"
    if random.randint(0, 2) == 0:
        path.write_bytes(mutations.of_bytes(random, valid.read_bytes()))
        return path, {}
    with zipfile.ZipFile(valid) as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as mutant:
        names = whole.namelist()
        changed = random.choice([name for name in names if name.endswith(".json")])
        for name in names:
            data = whole.read(name)
            mutant.writestr(name, mutations.json_bytes(random, json.loads(data)) if name == changed else data)  # fmt: skip
    return path, {}


def _write_folder(valid: Path, random: Random, to: Path) -> Mutant:
    """A folder with one file that is changed; the others are links."""
    files = sorted(valid.iterdir())
    changed = random.choice(files)
    for file in files:
        (to / file.name).unlink(missing_ok=True)
        content = file.read_bytes()
        if file is changed and file.suffix == ".json":
            content = mutations.json_bytes(random, json.loads(content))
        elif file is changed:
            content = mutations.of_bytes(random, content)
        (to / file.name).write_bytes(content)
    return to / "config.json", {"seq_len": 4}


def _write_bert(folder: Path) -> None:
    config = BertConfig(hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=32, max_position_embeddings=16)  # fmt: skip
    BertModel(config).save_pretrained(folder)


def _safetensors(weight: np.ndarray) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, weight.nbytes]}})
    return len(header).to_bytes(8, "little") + header.encode() + weight.tobytes()


def _gguf(weight: np.ndarray) -> bytes:
    """https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: a tensor of float32, and no metadata."""
    name = b"w"
    head = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + (0).to_bytes(8, "little")  # fmt: skip
    head += len(name).to_bytes(8, "little") + name + (1).to_bytes(4, "little")
    head += len(weight).to_bytes(8, "little") + bytes(4) + bytes(8)
    return head + bytes(-len(head) % 32) + weight.tobytes()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):  # fmt: skip
        yield


if __name__ == "__main__":
    main()
