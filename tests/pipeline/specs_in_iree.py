"""Dispatches of a small program, other lowering configurations for them, and the search for a tuning spec: facts as JSON.

Run with the Python of the iree environment; used by test_tuning_specs.py.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from iree import runtime

from scripts.core import process
from scripts.core.requests import Folders
from scripts.core.tensors import Signature, TensorType
from scripts.features.profile.iree_profile import CalledModule
from scripts.features.variants.specs import dispatches, spec
from scripts.features.variants.specs.dispatches import LoweringConfig
from scripts.features.variants.specs.search import DispatchTrials
from scripts.iree import compile_options
from scripts.iree.backends import compile_flags
from scripts.iree.tools import tool
from scripts.stages import tune_dispatches

PROGRAM = """
func.func @main(%a: tensor<37x64xf32>, %b: tensor<64x96xf32>) -> tensor<37x96xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<37x96xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<37x96xf32>) -> tensor<37x96xf32>
  %product = linalg.matmul ins(%a, %b : tensor<37x64xf32>, tensor<64x96xf32>) outs(%filled : tensor<37x96xf32>) -> tensor<37x96xf32>
  return %product : tensor<37x96xf32>
}
"""
RELU = """
#same = affine_map<(i, j) -> (i, j)>
func.func @main(%a: tensor<37x64xf32>) -> tensor<37x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<37x64xf32>
  %relu = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<37x64xf32>) outs(%empty : tensor<37x64xf32>) {
  ^bb0(%x: f32, %out: f32):
    %positive = arith.maximumf %x, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<37x64xf32>
  return %relu : tensor<37x64xf32>
}
"""
"""Its operation uses a constant that is defined outside."""
TILING = "--iree-dispatch-creation-data-tiling"
PLAIN, TILED = (compile_flags("llvm-cpu", "", "O3", more) for more in ([], [TILING]))


def main() -> None:
    folder = Path(sys.argv[1])
    program, relu = folder / "program.mlir", folder / "relu.mlir"
    program.write_text(PROGRAM, encoding="utf-8")
    relu.write_text(RELU, encoding="utf-8")
    found, others = dispatches.configured(relu, PLAIN, folder / "relu")
    facts = {
        "plain": plain(program, folder / "plain"),
        "tiled": tiled(program, folder / "tiled"),
        "relu": [len(found), len(others)],
        "command": command(program, folder / "command"),
    }
    print(json.dumps(facts))


def plain(program: Path, folder: Path) -> dict:
    """The one dispatch of the program, its trials, and the program with a spec."""
    [one], others = dispatches.configured(program, PLAIN, folder / "dispatches")
    start = one.operation.config
    trials = DispatchTrials(one, PLAIN, folder / "trials", "local-task", 1, time.monotonic() + 60)
    refused = LoweringConfig(tuple((name, (4096,) * len(sizes)) for name, sizes in start.levels))
    around = list(start.neighbours(one.operation.largest))[:2]
    path = folder / "spec.mlir"
    path.write_text(spec.text({one.operation: around[0]}), encoding="utf-8")
    return {
        "functions": one.functions,
        "others": others,
        "operation": one.operation.text,
        "times": list(trials.times([*around, refused]).values()),
        "ratio": trials.ratio(start, around[0]),
        "ratio of refused": trials.ratio(start, refused),
        "matched": len(spec.matched([one], program, PLAIN, folder / "matched")),
        "right": is_right(
            program, [*PLAIN, f"{compile_options.SPEC_FLAG}={path}"], folder / "module.vmfb"
        ),
    }


def tiled(program: Path, folder: Path) -> dict:
    """With data tiling: the product has another form when the spec is read."""
    found, _ = dispatches.configured(program, TILED, folder / "dispatches")
    product = next(one for one in found if "linalg.mmt4d" in one.operation.text)
    matched = spec.matched([product], program, TILED, folder / "matched")
    return {"dispatches": len(found), "matched": len(matched)}


def command(program: Path, folder: Path) -> dict:
    """What scripts.stages.tune_dispatches finds for the program."""
    folder.mkdir()
    vmfb, weights, inputs = (folder / name for name in ("m.vmfb", "weights.irpa", "inputs.npz"))
    is_right(program, PLAIN, vmfb)
    runtime.save_archive_file({"unused": np.zeros(1, np.float32)}, weights)
    a, b = arrays()
    np.savez(inputs, **{"0": a, "1": b})
    types = tuple(TensorType(name, m.shape, "float32") for name, m in (("a", a), ("b", b)))
    made = Signature("m", "f32", 1, types, (), (), {}, {}, "", False, None, True)
    made.write(folder / "signature.json")
    out = {name: folder / name for name in ("spec.mlir", "report.json")}
    signature = folder / "signature.json"
    called = CalledModule(
        vmfb=vmfb,
        weights=weights,
        inputs=inputs,
        signature=signature,
        device="local-task",
        threads=1,
    )
    request = tune_dispatches.SpecRequest(
        program=program, backend="llvm-cpu", opt_level="O3", called=called, budget_s=4.0
    )
    tune_dispatches.tune_dispatches(request, Folders(folder, folder))
    text = out["spec.mlir"].read_text(encoding="utf-8")
    flags = [
        *PLAIN,
        *([] if text == spec.NONE else [f"{compile_options.SPEC_FLAG}={out['spec.mlir']}"]),
    ]
    return {
        "report": json.loads(out["report.json"].read_text(encoding="utf-8")),
        "has spec": text != spec.NONE,
        "right": is_right(program, flags, folder / "with.vmfb"),
    }


def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.random(shape, dtype=np.float32) for shape in ((37, 64), (64, 96))]


def is_right(program: Path, flags: list[str], module: Path) -> bool:
    """Whether the compiled program computes the product."""
    done = process.run_tool([tool("iree-compile"), *flags, str(program), "-o", str(module)])
    assert done.returncode == 0
    a, b = arrays()
    loaded = runtime.load_vm_flatbuffer_file(str(module), driver="local-task")
    return bool(np.allclose(loaded.main(a, b).to_host(), a @ b, atol=1e-4))


if __name__ == "__main__":
    main()
