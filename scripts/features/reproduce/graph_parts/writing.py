"""Writes what shows a wrong operator: program, inputs, expected values, commands, a script and the text of an issue."""

from __future__ import annotations

import importlib.metadata
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx

from scripts.core import atomic
from scripts.features.reproduce.graph_parts.wrong import Found
from scripts.iree import shell
from scripts.iree.backends import BACKENDS, compile_flags
from scripts.lowering import locations
from scripts.lowering.capture import PREFIX
from scripts.matrix import plugins
from scripts.torch_model import convert

PROGRAM, SCRIPT, ISSUE, REPORT = "wrong.mlir", "wrong.py", "ISSUE.md", "wrong.json"
SHOWN = 64
"""Tensors of at most this many values are printed in the issue."""
PROGRAM_CHARS = 6000


@dataclass(frozen=True)
class Frontend:
    """How the tool of an exporter is shown: the tracker, and Python text that lowers `Operator()` called with `inputs`."""

    name: str
    tracker: str
    imports: str
    lowered: str


def frontend(exporter: str, options: Mapping[str, Any]) -> Frontend:
    """The frontend of an exporter of this project."""
    if exporter == "torch_xla":
        return Frontend(
            "PyTorch/XLA",
            "https://github.com/pytorch/xla/issues",
            "from torch_xla.stablehlo import exported_program_to_stablehlo",
            "exported_program_to_stablehlo(torch.export.export(Operator(), inputs)).get_stablehlo_text()",
        )
    dialect = {"torch": "TORCH"}.get(options["dialect"], options["dialect"].upper())
    return Frontend(
        "torch-mlir",
        "https://github.com/llvm/torch-mlir/issues",
        "from torch_mlir import fx",
        f"fx.export_and_import(Operator(), *inputs, output_type=fx.OutputType.{dialect.replace('-', '_')})",
    )


def versions(exporter: str, tool: Frontend) -> dict[str, str]:
    """The versions of IREE and of what an exporter is made of, as an issue names them."""
    installed = plugins.installed(plugins.exporter(exporter).versions)
    named = {tool.name if key == "frontend" else key: value for key, value in installed.items()}
    return {"IREE": importlib.metadata.version("iree-base-compiler"), **named}


@dataclass(frozen=True)
class Case:
    """A wrong operator of a model, and what it was lowered with. `versions`: by package."""

    model: str
    found: Found
    frontend: Frontend
    options: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def operators(self) -> list[str]:
        """The operators of the part, such as `aten.max_pool2d.default`."""
        return [str(node.target) for node in self.found.part.nodes]

    @property
    def module(self) -> str | None:
        """The path of the nn.Module that the operator is of."""
        origins = locations.of_nodes([self.found.node], PREFIX)
        return origins.nodes[self.found.node.name].module


def write(case: Case, folder: Path) -> None:
    """Write the files of a case into a folder that exists."""
    part, found = case.found.part, case.found
    (folder / PROGRAM).write_text(found.compiled.text, encoding="utf-8")
    for number, tensor in enumerate(part.inputs):
        np.save(folder / f"input_{number}.npy", convert.to_numpy(tensor))
    np.save(folder / "expected_0.npy", convert.to_numpy(found.eager))
    shell.write(
        folder / "run_wrong.sh",
        f"Exits with 1 if {PROGRAM} computes other values than PyTorch.",
        case.versions["IREE"],
        commands(part.inputs, found.eager),
    )
    (folder / SCRIPT).write_text(standalone(case), encoding="utf-8")
    (folder / ISSUE).write_text(issue(case), encoding="utf-8")
    atomic.write_json(folder / REPORT, report(case))


def report(case: Case) -> dict[str, Any]:
    """The case as JSON."""
    return {
        "model": case.model,
        "frontend": case.frontend.name,
        "options": dict(case.options),
        "node": case.found.node.name,
        "operators": case.operators,
        "module": case.module,
        "rewrites": list(case.found.compiled.rewrites),
        "nodes": case.found.nodes,
        "wrong": case.found.wrong,
        "shapes": [list(one.shape) for one in case.found.part.inputs],
    }


def commands(inputs: Sequence[torch.Tensor], expected: torch.Tensor) -> list[list[str]]:
    """The commands of run_wrong.sh: they compile the program, and compare its results with the expected ones."""
    flags = compile_flags("llvm-cpu", None, "O0", ())
    given = [f"--input=@input_{number}.npy" for number in range(len(inputs))]
    run = ["iree-run-module", "--module=wrong.vmfb", "--function=main"]
    run += [f"--device={BACKENDS['llvm-cpu'].device}", *given]
    # The tool compares tensors of equal types: half types are saved as float32.
    plain = all(one.dtype is not torch.bfloat16 for one in (*inputs, expected))
    run += ["--expected_output=@expected_0.npy"] if plain else ["--output=-"]
    return [["iree-compile", *flags, PROGRAM, "-o", "wrong.vmfb"], run]


def standalone(case: Case) -> str:
    """wrong.py: the operator in PyTorch, and what the frontend makes of it."""
    inputs = case.found.part.inputs
    dtypes = ", ".join(str(one.dtype) for one in inputs)
    return f'''\
"""{case.operators[-1]} through {case.frontend.name}: prints the values of PyTorch and the program."""

import numpy
import torch
{case.frontend.imports}


class Operator(torch.nn.Module):
{textwrap.indent(code(case.found.part.module), "    ")}


dtypes = [{dtypes}]
inputs = tuple(
    torch.from_numpy(numpy.load(f"input_{{n}}.npy")).to(dtype) for n, dtype in enumerate(dtypes)
)
print(Operator()(*inputs))
print({case.frontend.lowered})
'''


def code(module: fx.GraphModule) -> str:
    """The text of `forward` of a part, without the statements that release values."""
    lines = [line.split(";  ")[0] for line in module.code.strip().splitlines() if line.strip()]
    return "\n".join(lines)


def issue(case: Case) -> str:
    """ISSUE.md: the text of an issue for the tracker of the frontend."""
    found, name = case.found, case.operators[-1]
    dialect = case.options.get("dialect", "stablehlo")
    versions = "".join(f"- {key}: {value}\n" for key, value in case.versions.items())
    where = f"module `{case.module}`" if case.module else "the model itself"
    rewritten = (
        f"\nThe program was rewritten before or after lowering: {', '.join(found.compiled.rewrites)}.\n"
        if found.compiled.rewrites
        else ""
    )
    return f"""\
<!-- Tracker: {case.frontend.tracker} -->

# [{dialect}] `{name}` computes wrong values

The {dialect} program that {case.frontend.name} makes of this operator computes other values than PyTorch:

```python
class Operator(torch.nn.Module):
{textwrap.indent(code(found.part.module), "    ")}
```

{_values(found)}
It becomes:

```mlir
{clipped(found.compiled.text, PROGRAM)}
```
{rewritten}
`wrong.py` prints both (`input_<n>.npy` are the inputs), and `run_wrong.sh` compiles the program with IREE at O0 and compares its
results with `expected_0.npy`.

### Versions

{versions}
### Where it was found

In {case.model}, as node `{found.node.name}` of {where}. {_compared(found)}
"""


def _compared(found: Found) -> str:
    if found.wrong is None:
        return "It is the first node of the model that is wrong by itself."
    return (
        f"{found.wrong} of {found.nodes} nodes of the model have wrong values;\n"
        "this is the first one that is wrong with the right inputs."
    )


def _values(found: Found) -> str:
    """Inputs, expected and computed values, if they are small; else the largest difference."""
    right, wrong = convert.to_numpy(found.eager), found.computed
    shown = [(f"input {n}", convert.to_numpy(one)) for n, one in enumerate(found.part.inputs)]
    shown += [("PyTorch", right), ("the program", wrong)]
    if all(array.size <= SHOWN for _, array in shown):
        body = "\n".join(f"{name} =\n{np.array2string(array, precision=4)}" for name, array in shown)  # fmt: skip
        return f"```text\n{body}\n```\n"
    if right.shape != wrong.shape:
        return f"The result has shape {list(wrong.shape)}, expected {list(right.shape)}.\n"
    error = np.abs(wrong.astype(np.float64) - right.astype(np.float64))
    at = tuple(int(i) for i in np.unravel_index(int(np.nan_to_num(error, nan=np.inf).argmax()), error.shape))  # fmt: skip
    return f"The largest difference is at {list(at)}: {wrong[at]:g}, expected {right[at]:g}.\n"


def clipped(text: str, file: str) -> str:
    """The beginning of a program; `file`: where all of it is."""
    text = text.strip()
    return text if len(text) <= PROGRAM_CHARS else f"{text[:PROGRAM_CHARS]}\n… ({file})"
