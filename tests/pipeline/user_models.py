"""Take model files through load, reference and export, and if requested through IREE, in one process.

Run with the Python of an environment that loads models; used by test_user_models.py. Reads
{"work", "flags", "cases": [{"name", "file", "options", "paths": [[exporter, options], …], "run"}]} as JSON and
prints a line of JSON: for each case its error, or its inputs and outputs and how each lowering path ended.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from scripts.core import tensors
from scripts.frontends.lowering import capture, link
from scripts.frontends.sources.load_model import load_model
from scripts.frontends.torch_model import convert, errors, golden, source
from scripts.frontends.torch_model.arguments import ModelChoice
from scripts.frontends.torch_model.loading import named_weights
from scripts.frontends.torch_model.step import EvalStep
from scripts.measure.verify import verify


def main() -> None:
    asked = json.load(sys.stdin)
    work = Path(asked["work"])
    print(json.dumps([_case(case, work, asked.get("flags", [])) for case in asked["cases"]]))


def _case(case: dict[str, Any], work: Path, flags: list[str]) -> dict[str, Any]:
    try:
        loaded = load_model(ModelChoice(case["name"], Path(case["file"]), case["options"]))
        inputs = [(convert.tensor_type(name, t), convert.to_numpy(t)) for name, t in loaded.inputs]
        weights, _ = named_weights(loaded.module)
        stored = work / f"{case['name']}.irpa"
        tensors.write_archive(stored, ((key, convert.to_bytes(w)) for key, w in weights.items()))
        del weights
        paths = {}
        for exporter, options in case["paths"]:
            name = " ".join([exporter, *options.values()])
            try:
                lowered = _lowered(case, exporter, options)
                program = link.link(lowered, [kind for kind, _ in inputs])
                paths[name] = {"bytes": len(program), "rewrites": lowered.rewrites}
                if case["run"]:
                    paths[name]["outputs"] = _run(program, stored, inputs, work, flags)
            except capture.UnsupportedProgram as error:
                paths[name] = {"unsupported": str(error)}
            except errors.ModelError:
                raise
            except Exception as error:
                paths[name] = {"raised": f"{type(error).__name__}: {error}"[:600]}
        found = golden.observe(loaded, EvalStep, case["file"], case["options"].get("dtype", "f32"))
    except (errors.ModelError, source.ModelFileError) as error:
        return {"error": str(error), "reason": error.reason}
    for ended in paths.values():
        if "outputs" in ended:
            ended["verdict"] = _verdict(ended.pop("outputs"), found)
    return {
        "inputs": [kind.iree for kind, _ in inputs],
        "outputs": [f"{kind.name} {kind.iree}" for kind in found.types],
        "left_out": found.left_out,
        "paths": paths,
        "resolved": loaded.file.resolved_options() if loaded.file else {},
    }


def _lowered(case: dict[str, Any], exporter: str, options: dict[str, str]) -> link.Lowered:
    """Load a new model for each lowering path, because each may change it."""
    fresh = load_model(ModelChoice(case["name"], Path(case["file"]), case["options"]))
    return importlib.import_module(f"scripts.frontends.exporters.{exporter}").export(
        fresh, options
    )[0]


def _run(
    program: bytes, weights: Path, inputs: list, work: Path, flags: list[str]
) -> list[np.ndarray]:
    """Outputs of the program on llvm-cpu."""
    from iree.compiler import tools

    from scripts.iree.session import Module, Session

    compiled = work / "module.vmfb"
    compiled.write_bytes(
        tools.compile_str(
            program.decode(), target_backends=["llvm-cpu"], input_type="auto", extra_args=["--iree-llvmcpu-target-cpu=host", *flags]
        )
    )  # fmt: skip
    session = Session(Module(compiled, weights, "local-task"), 2)
    return session.call([tensors.as_native(array, kind.dtype) for kind, array in inputs])[0]


def _verdict(outputs: list[np.ndarray], found: golden.Golden) -> str:
    expected = verify.Expected(found.types, found.eager, found.fp64, found.deterministic, "f32")
    seen = verify.verify(outputs, expected, {})
    return f"{seen.code} {seen.detail}".strip()


if __name__ == "__main__":
    main()
