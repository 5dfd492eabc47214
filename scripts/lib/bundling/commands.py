"""The bare commands of IREE's tools for a case, with paths within the bundle."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from scripts.lib.artifacts.archive import SCOPE
from scripts.lib.artifacts.tensors import Signature, TensorType
from scripts.lib.bundling.case import COMPILE, Case
from scripts.lib.iree.backends import allocator_flags
from scripts.lib.iree.session import runtime_flags
from scripts.lib.iree.specs import spec

PROGRAM, MODULE, WEIGHTS = "program.mlir", "module.vmfb", "weights.irpa"
SPLATS = "weights.flags"
"""Flags of iree-create-parameters, one per weight."""
SPLAT = "0.01"
"""The value of all weights where their own values do not matter."""


def compiling(case: Case) -> list[str]:
    """The command that compiles the program."""
    given = [
        f"{spec.FLAG}={spec.COPY}" if flag.startswith(f"{spec.FLAG}=") else flag
        for flag in case.flags
    ]
    return ["iree-compile", *given, PROGRAM, "-o", MODULE]


def weights() -> list[str]:
    """The command that makes an archive of weights with the same shapes, which takes no space."""
    return ["iree-create-parameters", f"--flagfile={SPLATS}", f"--output={WEIGHTS}"]


def splats(signature: Signature) -> str:
    """The contents of the file SPLATS."""
    return "".join(f"--splat={one.name}={_splat(one)}\n" for one in signature.parameters)


def _splat(one: TensorType) -> str:
    kind = one.iree
    value = SPLAT if kind.rpartition("x")[2].startswith(("f", "bf")) else "1"
    return f"{kind}={value}"


def running(case: Case, signature: Signature, compared: bool) -> list[str]:
    """The command that runs the module once; `compared`: and compares its results with the golden ones."""
    expected = (
        [f"--expected_output={one.iree}=@golden/{n}.bin" for n, one in enumerate(signature.outputs)]
        if compared
        else []
    )
    tolerance = case.tol or 1e-3
    return [
        "iree-run-module",
        *_common(case, signature),
        *expected,
        *([f"--expected_f32_threshold={tolerance:g}"] if compared else []),
        *([] if compared else ["--output="]),
    ]


def timing(case: Case, signature: Signature) -> list[str]:
    """The command that times calls of the module."""
    return [
        "iree-benchmark-module",
        *_common(case, signature),
        *allocator_flags(case.device),
        "--benchmark_min_warmup_time=0.5",
        "--benchmark_repetitions=10",
    ]


def _common(case: Case, signature: Signature) -> list[str]:
    return [
        f"--module={MODULE}",
        *([f"--parameters={SCOPE}={WEIGHTS}"] if signature.parameters else []),
        "--function=main",
        f"--device={case.device}",
        *(runtime_flags(case.device, case.threads) if case.threads else []),
        *(f"--input={one.iree}=@inputs/{n}.bin" for n, one in enumerate(signature.inputs)),
    ]


def script(case: Case, signature: Signature, own_weights: bool) -> str:
    """run.sh: makes an environment of IREE's wheels unless a folder of tools is given, and runs the commands."""
    version = case.versions["iree"]
    steps = [compiling(case)]
    if case.stage != COMPILE:
        if signature.parameters and not own_weights:
            steps.append(weights())
        compared = own_weights or not signature.parameters
        steps.append(
            timing(case, signature) if case.status == "ok" else running(case, signature, compared)
        )
    return _SCRIPT.format(
        cell=case.cell,
        version=version,
        commands="\n".join(_shown(step) for step in steps),
    )


def _shown(command: Sequence[str]) -> str:
    """A command on several lines; a value stays in the line of its option."""
    lines: list[str] = []
    for word in command:
        if lines and lines[-1] == "-o":
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return " \\\n    ".join(lines)


_SCRIPT = """\
#!/bin/sh
# {cell}: shows what ISSUE.md says, and exits with the code of the last command.
#
#   ./run.sh            makes an environment in ./venv with IREE {version} (needs Python 3.11 or later, and PyPI)
#   ./run.sh <folder>   uses the tools in this folder, for example of a build of IREE
set -eu
cd "$(dirname "$0")"
if [ $# -gt 0 ]; then
    tools=$1
else
    [ -x venv/bin/iree-compile ] || {{
        python3 -m venv venv
        venv/bin/python -m pip install -q iree-base-compiler=={version} iree-base-runtime=={version}
    }}
    tools=$PWD/venv/bin
fi
PATH=$tools:$PATH
set -x
{commands}
"""
