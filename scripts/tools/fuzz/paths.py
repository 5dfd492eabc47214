"""Runs graphs on a lowering path: lowers each, compiles several as one function, and runs that.

iree-compile takes as long for the passes over a function as for the code of its dispatches, so graphs share a function. Each has
the same dispatches as alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import os
import re
import shlex
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import dynamic_shapes
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.proxy_tensor import make_fx

from scripts.core import atomic, requests, tensors
from scripts.core.requests import Folders
from scripts.frontends.lowering import link
from scripts.frontends.torch_model import loading
from scripts.iree.backends import unused_plugins
from scripts.iree.compile_options import SERIAL, TargetOptions
from scripts.iree.session import Module, Session
from scripts.tools.fuzz.forks import (
    COMPILE,
    EXPORT,
    OK,
    REFUSED,
    RUN,
    UNDEFINED,
    WRONG,
    Cases,
    Ended,
    ForkedPath,
    by_program,
)
from scripts.tools.fuzz.fuzz_graphs import FuzzRequest, serve
from scripts.tools.fuzz.generator import Graph, Input, Node, Value
from scripts.tools.fuzz.oracle import Reference

PROGRAM = "program.mlir"
IN_MODULE = 16
"""Graphs of a module. If the compiler refuses one, the others of its module are compiled again."""
_FASTER = (SERIAL, "--iree-hal-memoization=false", "--iree-llvmcpu-debug-symbols=false")
"""Flags with which the code of dispatches is the same, and a module compiles in less time."""
_AT = re.compile(r"program:(\d+):\d+: error: (.*)")
_NAME = re.compile(r"%(?=[\w$.-])")
_PLAIN = re.compile(
    r"module[^\n]* \{\n  func\.func @main\((?P<args>.*?)\) -> .* \{\n(?P<body>(?:    .*\n)*?)"
    r"    return (?P<results>.*) : (?P<types>.*)\n  \}\n\}\n*"
)
"""A program of one function without symbols; `.` is no end of a line."""


@dataclass(frozen=True, kw_only=True)
class LoweringRequest(FuzzRequest):
    """`packages`: the environment of another IREE, or ""."""

    target: TargetOptions
    device: str
    exporter: str
    exporter_options: Mapping[str, Any]
    packages: str = ""


def fuzz_lowering_path(request: LoweringRequest, folders: Folders) -> None:
    """Take graphs along a lowering path."""
    if request.packages:
        (site,) = Path(request.packages).glob("lib/python*/site-packages")
        sys.path.insert(0, str(site))
        for name in ("iree.compiler.api", "iree.compiler.ir", "iree.runtime"):
            importlib.import_module(name)
        sys.path.remove(str(site))
    scratch, flags = folders.results / "scratch", request.target.compiler_flags()
    path = LoweringPath(scratch, request.exporter, request.exporter_options, flags, request.device)
    serve(request, path, folders)


@dataclass
class LoweringPath(ForkedPath):
    """A lowering path. `exporter`: a module of scripts/frontends/exporters; `flags`: of iree-compile. Only one may be made in a process,
    because the compiler's flags are global."""

    exporter: str
    options: Mapping[str, Any]
    flags: Sequence[str]
    device: str

    def __post_init__(self) -> None:
        from iree.compiler.api import ctypes_dl

        super().__post_init__()
        self._context = self._lowering = None
        self._same_program: dict[int, list[int]] = {}  # the cases of a module, by their first one
        self._module = importlib.import_module(f"scripts.frontends.exporters.{self.exporter}")
        dialect = self.options.get("dialect", "stablehlo")
        plugins = unused_plugins(self.flags, f"{dialect} tm_tensor")
        words = [word.encode() for word in ("iree-compile", *self.flags, *_FASTER, *plugins)]
        self._arguments = (ctypes.c_char_p * len(words))(*words)
        faulthandler.disable()  # LLVM prints the stack of a crash, with the pass
        ctypes_dl._init_dylib()
        ctypes_dl._dylib.ireeCompilerSetupGlobalCL(len(words), self._arguments, b"", True)
        # What a fork would import and make again. MLIR's contexts have threads, so none is made here.
        for name in ("iree.compiler.ir", "iree.runtime", "scripts.frontends.lowering.locations"):
            importlib.import_module(name)
        negated = Node("aten.neg.default", (Value("x0"),), {}, ("v0",))
        captured(Graph({"x0": Input((1,), "float32", "normal", 0)}, (negated,), negated.results), {})  # fmt: skip

    def script(self) -> tuple[str, str]:
        if self.exporter == "torch_xla":
            return "from torch_xla import stablehlo", "stablehlo.exported_program_to_stablehlo(torch.export.export(Graph(), tuple(inputs))).get_stablehlo_text()"  # fmt: skip
        dialect = self.options["dialect"].replace("torch", "linalg-on-tensors")
        return "from torch_mlir import fx", f'fx.export_and_import(Graph(), *inputs, output_type="{dialect}")'  # fmt: skip

    def write(self, folder: Path, graph: Graph, reference: Reference, ended: Ended) -> None:
        """Write the program, and a script for IREE's tools."""
        super().write(folder, graph, reference, ended)
        if ended.stage == EXPORT:
            return
        atomic.write_text(folder / PROGRAM, self.program(graph, reference))
        command = shlex.join(["iree-compile", *self.flags, PROGRAM, "-o", "module.vmfb"])
        lines = ["#!/bin/sh", "set -ex", command]
        reference = reference.resized or reference
        if ended.stage == RUN:
            call = [f"iree-run-module --module=module.vmfb --function=main --device={self.device}"]
            for number, (array, kind) in enumerate(zip(reference.stored, reference.inputs, strict=True)):  # fmt: skip
                array.tofile(folder / f"input_{number}.bin")
                call.append(f"--input={kind.iree}=@input_{number}.bin")
            for number, array in enumerate(reference.expected.golden):
                kind = reference.expected.types[number]
                tensors.as_native(array, kind.dtype).tofile(folder / f"expected_{number}.bin")
                call.append(f"--expected_output={'x'.join([*map(str, kind.shape), tensors.DTYPES[kind.dtype][0]])}=@expected_{number}.bin")  # fmt: skip
            lines.append(" ".join(call))
        atomic.write_text(folder / "run.sh", "\n".join([*lines, ""]))

    def _open_compiler(self) -> None:
        from iree.compiler.api import Session as Compiler

        self._compiler = Compiler()
        self._context = self._compiler.context
        if hasattr(self._module, "export_graph"):
            self._lowering = self._module.ir.Context()

    def compiled_call(self, graph: Graph, reference: Reference) -> Callable[[], object]:
        self._open_compiler()
        module = self.folder / "timed.vmfb"
        if (log := self.compile(self.program(graph, reference), module)) is not None:
            raise ValueError(log)
        session, arrays = Session(Module(module, None, self.device), 1), reference.stored
        return lambda: session.call(arrays)

    def judge(self, cases: Cases) -> None:
        self._open_compiler()
        groups = by_program(cases)
        for at in range(0, len(groups), IN_MODULE):
            self._same_program = {group[0]: group for group in groups[at : at + IN_MODULE]}
            programs = self._converted(cases)
            for part in mergeable(programs):
                self._judge({n: programs[n] for n in part}, cases)

    def _converted(self, cases: Cases) -> dict[int, str]:
        """The programs of cases, without those that are refused when they are lowered, or when iree-compile converts its input."""
        programs: dict[int, str] = {}
        for first, group in self._same_program.items():
            graph, reference = cases[first]
            self._begin(group, EXPORT)
            try:
                program = self.program(graph, reference)
            except Exception as error:
                refused = Ended(REFUSED, EXPORT, self._diagnostic(error))
                self._end(group, Ended(UNDEFINED) if is_of_dynamic_size(error) else refused)
                continue
            self._begin(group, COMPILE)
            if (log := self.compile(program, None)) is None:
                programs[first] = program
            else:
                self._end(group, Ended(REFUSED, COMPILE, self._diagnostic(log)))
        return programs

    def program(self, graph: Graph, reference: Reference) -> str:
        """The text of a graph's program. Raises what the exporter raises."""
        lowered, types = None, list(reference.inputs)
        # Without torch.export, which takes longer than all else.
        export_graph = getattr(self._module, "export_graph", None)
        if export_graph and not graph.dimensions:
            with contextlib.suppress(NotFunctional):
                lowered = export_graph(functools.partial(captured, graph), reference.inputs, self.options, self._lowering)  # fmt: skip
        if lowered is None:
            dimensions = graph.dimensions if export_graph else ()  # PyTorch/XLA has none
            model = loading.LoadedModel("graph", GraphModule(graph).eval(), tuple(graph.tensors()), {}, file=None, dimensions=dimensions)  # fmt: skip
            lowered, _ = self._module.export(model, self.options)
            types = model.input_types
        return link.link(lowered, types, self._context).decode()

    def _judge(self, programs: Mapping[int, str], cases: Cases) -> None:
        """Compile programs as one function and run it, without those that are refused."""
        module, stage = self.folder / "module.vmfb", COMPILE
        numbers = [n for first in programs for n in self._same_program[first]]
        self._begin(numbers, stage)
        text, lines = merged(programs)
        blamed: dict[int, str] = {}
        problems: dict[int, list[str]] = {}
        if (log := self.compile(text, module)) is not None:
            errors = {int(match[1]): match[2] for match in reversed([*_AT.finditer(log)])}
            blamed = {n: e for n in programs for line, e in errors.items() if line in lines[n]}
        else:
            stage = RUN
            self._begin(numbers, stage)
            try:
                problems = self._problems(module, programs, cases)
            except Exception as error:
                log = f"{type(error).__name__}: {error}"
        if log is None:
            for n in numbers:
                problem = next(filter(None, problems[n]), "")
                self._end([n], Ended(WRONG, RUN, problem) if problem else Ended(OK))
            return
        if len(programs) == 1:
            (message,) = blamed.values() or [log]
            self._end(numbers, Ended(REFUSED, stage, message))
            return
        # The compiler may refuse in one function what it takes alone.
        left = [n for n in programs if n not in blamed]
        middle = len(left) if blamed else len(left) // 2
        for part in filter(None, (*([n] for n in blamed), left[:middle], left[middle:])):
            self._judge({n: programs[n] for n in part}, cases)

    def compile(self, text: str, module: Path | None) -> str | None:
        """Compile a program, or only convert its input if `module` is None. Returns the diagnostics if that fails."""
        from iree.compiler.api import Output, Source, ctypes_dl

        os.truncate(self._log, 0)
        with self._compiler.invocation() as invocation:
            invocation.enable_console_diagnostics()
            if not module:
                ctypes_dl._dylib.ireeCompilerInvocationSetCompileToPhase(ctypes.c_void_p(invocation._inv_p), b"input")  # fmt: skip
            ended = text.encode() + b"\0"
            source = Source.wrap_buffer(self._compiler, ended, buffer_name="program")
            if not (invocation.parse_source(source) and invocation.execute()):
                return self._log.read_text(errors="replace")
            if module:
                with Output.open_file(str(module)) as output:
                    invocation.output_vm_bytecode(output)
                    output.keep()
        return None

    def _problems(self, module: Path, programs: Iterable[int], cases: Cases) -> dict[int, list[str]]:  # fmt: skip
        """What is wrong with the results of each case of the programs of a module, at each of its sizes."""
        session = Session(Module(module, None, self.device), 1)
        calls: list[list[tuple[int, Reference]]] = []
        for first in programs:
            references = [(n, cases[n][1]) for n in self._same_program[first]]
            if hasattr(self._module, "export_graph"):  # PyTorch/XLA has no dynamic sizes
                references += [(n, r.resized) for n, r in references if r.resized]
            calls.append(references)
        problems: dict[int, list[str]] = defaultdict(list)
        for turn in range(max(map(len, calls))):
            # Programs that have had all of their calls repeat the last one.
            of_turn = [each[min(turn, len(each) - 1)] for each in calls]
            results = iter(session.call([array for _, r in of_turn for array in r.stored])[0])
            for n, r in of_turn:
                problems[n].append(r.problem([next(results) for _ in r.expected.golden]))
        return problems


class GraphModule(torch.nn.Module):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._graph(*inputs)


def is_of_dynamic_size(error: Exception) -> bool:
    """Whether torch.export says that a size cannot be dynamic, which eager accepts, or fails when it says so."""
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    of_sizes = symbolic_shapes.__file__, dynamic_shapes.__file__
    return isinstance(error, torch._dynamo.exc.UserError) or raised_in in of_sizes


class NotFunctional(Exception):
    """A decomposition works in place, which torch.export makes functional, or there is control flow, which it captures."""


def captured(graph: Graph, decompositions: Mapping[Any, Any]) -> torch.fx.GraphModule:
    """A graph of functional operators, under decompositions. Raises NotFunctional."""
    if any(node.op.startswith("flow.") for node in graph.nodes):
        raise NotFunctional
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        inputs = [
            torch.empty(i.shape, dtype=getattr(torch, i.dtype)) for i in graph.inputs.values()
        ]
    with mode:
        module = make_fx(torch.func.functionalize(graph), dict(decompositions), "fake")(*inputs)
    if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in module.graph.nodes):  # fmt: skip
        raise NotFunctional
    return module


def merged(programs: Mapping[int, str]) -> tuple[str, dict[int, range]]:
    """One function @main that computes several programs, and the lines of each; its inputs and results are theirs in order."""
    if len(programs) == 1:
        ((number, text),) = programs.items()
        return text, {number: range(text.count("\n") + 2)}
    parts: dict[str, list[str]] = {"args": [], "body": [], "results": [], "types": []}
    lines, at = {}, 3
    for number, text in programs.items():
        match = _PLAIN.fullmatch(_NAME.sub(f"%g{number}_", text))
        assert match, text
        for name, words in parts.items():
            words += filter(None, [match[name]])
        lines[number] = range(at, at + match["body"].count("\n") + 1)
        at = lines[number].stop
    args, results, types = (", ".join(parts[name]) for name in ("args", "results", "types"))
    head = f"module {{\n  func.func @main({args}) -> ({types}) {{"
    return "\n".join([head, *parts["body"], f"    return {results} : {types}\n  }}\n}}\n"]), lines


def mergeable(programs: Mapping[int, str]) -> Iterator[list[int]]:
    """The programs that can share a function, and the others, each alone: those with aliases, resources, or symbols beside @main."""
    shared = [n for n, text in programs.items() if _PLAIN.fullmatch(text)]
    yield from filter(None, [shared])
    yield from ([n] for n in programs if n not in shared)


if __name__ == "__main__":
    requests.run(LoweringRequest, fuzz_lowering_path)
