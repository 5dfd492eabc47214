"""Writes what shows a wrong operator: program, inputs, expected values, commands, a script and the text of an issue."""

from __future__ import annotations

import importlib.metadata
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

from scripts.core import atomic
from scripts.features.reproduce import issue
from scripts.features.reproduce.graph_parts.wrong import CPU, PLAIN, Found
from scripts.features.reproduce.reduction import mismatch
from scripts.iree import shell
from scripts.iree.backends import BACKENDS
from scripts.lowering import locations
from scripts.matrix import plugins
from scripts.torch_model import convert
from scripts.torch_model.loading import FLAT_PREFIX

PROGRAM, SCRIPT, REPORT = "wrong.mlir", "wrong.py", "wrong.json"
PROGRAM_CHARS = 6000


@dataclass(frozen=True)
class Frontend:
    """The tool of an exporter, as an issue names it: the tracker, and Python text that lowers `Operator()` called with `inputs`.
    `dialect`: that it writes. `versions`: of IREE and of what the tool is made of, by package."""

    name: str
    tracker: str
    imports: str
    lowered: str
    dialect: str
    versions: Mapping[str, str]


def frontend(exporter: str, options: Mapping[str, Any]) -> Frontend:
    """The frontend of an exporter of this project."""
    dialect = options.get("dialect", "stablehlo")
    name, tracker = issue.TOOLS[exporter]
    if exporter == "torch_xla":
        imports = "from torch_xla.stablehlo import exported_program_to_stablehlo"
        lowered = "exported_program_to_stablehlo(torch.export.export(Operator(), inputs)).get_stablehlo_text()"
    else:
        imports = "from torch_mlir import fx"
        kind = dialect.upper().replace("-", "_")
        lowered = f"fx.export_and_import(Operator(), *inputs, output_type=fx.OutputType.{kind})"
    versions = {"IREE": importlib.metadata.version("iree-base-compiler")}
    for key, version in plugins.installed(plugins.exporter(exporter).versions).items():
        versions[name if key == "frontend" else key] = version
    return Frontend(name, tracker, imports, lowered, dialect, versions)


def write(wrong: Found, model: str, tool: Frontend, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:  # fmt: skip
    """Write the files of a wrong operator of a model into a folder that exists; return the report. `options`: of the exporter."""
    part = wrong.part
    (folder / PROGRAM).write_text(wrong.program.text, encoding="utf-8")
    mismatch.save(
        folder, input=map(convert.to_numpy, part.inputs), expected=[convert.to_numpy(wrong.eager)]
    )
    # The tool compares tensors of equal types: half types are saved as float32.
    is_plain = all(tensor.dtype is not torch.bfloat16 for tensor in (*part.inputs, wrong.eager))
    run = mismatch.calling("wrong.vmfb", BACKENDS[CPU].device, len(part.inputs), int(is_plain))
    run += [] if is_plain else ["--output=-"]
    shell.write(
        folder / "run_wrong.sh",
        f"Exits with 1 if {PROGRAM} computes other values than PyTorch.",
        tool.versions["IREE"],
        [["iree-compile", *PLAIN, PROGRAM, "-o", "wrong.vmfb"], run],
    )
    report = {
        "model": model,
        "frontend": tool.name,
        "options": dict(options),
        "node": wrong.node.name,
        "operators": [str(node.target) for node in part.nodes],
        "module": locations.of_nodes([wrong.node], FLAT_PREFIX).nodes[wrong.node.name].module,
        "rewrites": list(wrong.program.rewrites),
        "nodes": wrong.nodes,
        "wrong": wrong.wrong,
        "shapes": [list(tensor.shape) for tensor in part.inputs],
    }
    atomic.write_json(folder / REPORT, report)
    operator = f"class Operator(torch.nn.Module):\n{textwrap.indent(_code(part.module), '    ')}"
    dtypes = ", ".join(str(tensor.dtype) for tensor in part.inputs)
    script = _SCRIPT.format(
        name=report["operators"][-1], tool=tool, operator=operator, dtypes=dtypes
    )
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    _write_issue(wrong, report, tool, operator, folder)
    return report


_SCRIPT = '''\
"""{name} through {tool.name}: prints the values of PyTorch and the program."""

import numpy
import torch
{tool.imports}


{operator}


dtypes = [{dtypes}]
inputs = tuple(
    torch.from_numpy(numpy.load(f"input_{{n}}.npy")).to(dtype) for n, dtype in enumerate(dtypes)
)
print(Operator()(*inputs))
print({tool.lowered})
'''


def _code(module: fx.GraphModule) -> str:
    """The text of `forward` of a part, without the statements that release values."""
    lines = [line.split(";  ")[0] for line in module.code.strip().splitlines() if line.strip()]
    return "\n".join(lines)


def _write_issue(
    wrong: Found, report: Mapping[str, Any], tool: Frontend, operator: str, folder: Path
) -> None:
    """Write the issue for the tracker of the frontend. `operator`: Python text."""
    program = wrong.program.text.strip()
    if len(program) > PROGRAM_CHARS:
        program = f"{program[:PROGRAM_CHARS]}\n… ({PROGRAM})"
    rewrites = ", ".join(report["rewrites"])
    shows = [
        f"The {tool.dialect} program that {tool.name} makes of this operator computes other values than PyTorch:",
        issue.fenced("python", operator),
        issue.values(
            [convert.to_numpy(tensor) for tensor in wrong.part.inputs],
            convert.to_numpy(wrong.eager),
            wrong.computed,
            ("PyTorch", "the program"),
        ),
        "It becomes:",
        issue.fenced("mlir", program),
        f"The program was rewritten before or after lowering: {rewrites}." if rewrites else "",
        f"`{SCRIPT}` prints both (`input_<n>.npy` are the inputs), and `run_wrong.sh` compiles the program with IREE at O0 and compares its\n"
        "results with `expected_0.npy`.",
    ]
    where = f"module `{report['module']}`" if report["module"] else "the model itself"
    compared = "It is the first node of the model that is wrong by itself."
    if wrong.wrong is not None:
        compared = (
            f"{wrong.wrong} of {wrong.nodes} nodes of the model have wrong values;\n"
            "this is the first one that is wrong with the right inputs."
        )
    issue.write(
        folder,
        tool.tracker,
        f"[{tool.dialect}] `{report['operators'][-1]}` computes wrong values",
        {
            "": "\n\n".join(filter(None, shows)),
            "Versions": issue.listed(tool.versions),
            "Where it was found": f"In {report['model']}, as node `{wrong.node.name}` of {where}. {compared}",
        },
    )
