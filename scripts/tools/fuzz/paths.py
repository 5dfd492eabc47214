"""Takes graphs along a lowering path in a forked process: each is lowered, some are compiled as one function, which is run.

iree-compile takes as long for the passes over a function as for the code of its dispatches, so graphs share a function. Each keeps
the dispatches that it has alone.

A frontend or compiler that crashes or hangs ends only the fork. What was compiled then is tried in halves, until one graph is alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from scripts.core import tensors
from scripts.frontends.lowering import link
from scripts.frontends.torch_model import loading
from scripts.iree.backends import unused_plugins
from scripts.iree.compile_options import SERIAL
from scripts.iree.session import Module, Session
from scripts.tools.fuzz.generator import Graph, Input, Node, Of
from scripts.tools.fuzz.oracle import Reference

OK, WRONG, REFUSED, CRASHED, HANGS = "ok", "wrong", "refused", "crashed", "hangs"
UNDEFINED = "undefined"
"""A graph without a right result, which no path has run."""
EXPORT, COMPILE, RUN = "export", "compile", "run"
TOGETHER, IN_MODULE = 64, 16
"""Graphs of a fork, and those of a module. If the compiler refuses one, the others of its module are compiled again."""
LIMIT_S, EACH_S, WAITING = 30.0, 1.0, 20
"""CPU seconds that a fork may take, those for each of its graphs, and how many times as much time may pass."""
MOST_DETAIL = 2000
_FASTER = (SERIAL, "--iree-hal-memoization=false", "--iree-llvmcpu-debug-symbols=false")
"""Flags with which the code of dispatches is the same, and a module compiles in less time."""
_ERROR = re.compile(r"error: (.*)")
_AT = re.compile(r"program:(\d+):\d+: error: (.*)")
_NAME = re.compile(r"%(?=[\w$.-])")
_PLAIN = re.compile(
    r"module[^\n]* \{\n  func\.func @main\((?P<args>.*?)\) -> .* \{\n(?P<body>(?:    .*\n)*?)"
    r"    return (?P<results>.*) : (?P<types>.*)\n  \}\n\}\n*"
)
"""A program of one function without symbols; `.` is no end of a line."""
_FRAME = re.compile(r"\s*#\d+ \S+ (?:in )?([\w:~<>, ]+?)\(")
_NOISE = ("llvm::sys", "SignalHandler", "__restore_rt", "gsignal", "abort", "raise", "PrintStackTrace")  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a graph ended on a path: `status`, the `stage` that failed, and what was said there."""

    status: str
    stage: str = ""
    detail: str = ""

    @property
    def kind(self) -> str:
        """What failures of the same cause have in common: their message without numbers and names."""
        text = "" if self.status in (WRONG, HANGS) else self.detail
        if self.status == REFUSED:
            text, _, operation = text.partition("\n")[0].partition(": %")
            if named := re.search(r'name = "([^"]*)"', operation):
                text += f" {named[1]}"
        text = re.sub(r"tensor<[^>]*>|\[[\d,? ]*\]|-?\d+", "0", text)
        return " ".join(f"{self.status} {self.stage}: {text}".split())[:300]


Cases = Mapping[int, tuple[Graph, Reference]]


@dataclass
class LoweringPath:
    """A lowering path. `exporter`: a module of scripts/frontends/exporters with `export_graph`; `flags`: of iree-compile; `folder`: for
    scratch files. Only one may be made in a process, because the compiler's flags are global."""

    exporter: str
    options: Mapping[str, Any]
    flags: Sequence[str]
    device: str
    folder: Path

    def __post_init__(self) -> None:
        from iree.compiler.api import ctypes_dl

        self.folder.mkdir(parents=True, exist_ok=True)
        self._context = self._lowering = None
        self._log, self._journal = self.folder / "said.txt", self.folder / "ends.jsonl"
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
        _captured(Graph((Input((1,), "float32", "normal", 0),), (Node("aten.neg.default", (Of(0),), {}, 1),), (1,)), {})  # fmt: skip

    def run(self, cases: Cases) -> dict[int, Ended]:
        """How each case ends."""
        ends: dict[int, Ended] = {}
        left = [list(cases)]
        while left:
            some = left.pop()
            done, stopped, suspects = self._forked({n: cases[n] for n in some})
            ends |= done
            rest = [n for n in some if n not in done and n not in suspects]
            if rest:
                left.append(rest)
            if len(suspects) == 1:
                ends[suspects[0]] = stopped
            else:
                middle = len(suspects) // 2
                left += filter(None, (suspects[middle:], suspects[:middle]))
        return ends

    def _forked(self, cases: Cases) -> tuple[dict[int, Ended], Ended, list[int]]:
        """The cases that ended in a fork, how the fork ended, and the cases that it was working on then."""
        self._journal.write_text("")
        sys.stdout.flush()
        child = os.fork()
        if not child:
            self._be_child(cases)
        limit, status, pid, code = LIMIT_S + EACH_S * len(cases), CRASHED, 0, 0
        deadline = time.monotonic() + WAITING * limit
        while not pid and time.monotonic() < deadline and cpu_seconds(child) < limit:
            time.sleep(0.005)
            pid, code = os.waitpid(child, os.WNOHANG)
        if not pid:
            os.kill(child, signal.SIGKILL)
            _, code = os.waitpid(child, 0)
            status = HANGS
        entries = [json.loads(line) for line in self._journal.read_text().splitlines()]
        done = {entry["end"]: Ended(*entry["as"]) for entry in entries if "end" in entry}
        last = next((entry for entry in reversed(entries) if "begin" in entry), None)
        suspects = [n for n in (last["begin"] if last else cases) if n not in done]
        detail = crash(self._log.read_text(errors="replace"), code)
        return done, Ended(status, last["stage"] if last else EXPORT, detail), suspects

    def _be_child(self, cases: Cases) -> NoReturn:
        code = 1
        try:
            out = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            from iree.compiler.api import Session as Compiler

            self._compiler = Compiler()
            self._context = self._compiler.context
            if hasattr(self._module, "export_graph"):
                self._lowering = self._module.ir.Context()
            numbers = [*cases]
            for at in range(0, len(numbers), IN_MODULE):
                programs = self._converted({n: cases[n] for n in numbers[at : at + IN_MODULE]})
                for some in apart(programs):
                    self._judge({n: programs[n] for n in some}, cases)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _converted(self, cases: Cases) -> dict[int, str]:
        """The programs of cases, without those that are refused when they are lowered, or when iree-compile converts its input."""
        programs: dict[int, str] = {}
        for n, (graph, reference) in cases.items():
            self._say(begin=[n], stage=EXPORT)
            os.truncate(self._log, 0)
            try:
                program = self.program(graph, reference)
            except Exception as error:
                named = _ERROR.search(self._log.read_text(errors="replace"))
                self._end(n, Ended(REFUSED, EXPORT, named[1] if named else f"{type(error).__name__}: {error}"))  # fmt: skip
                continue
            self._say(begin=[n], stage=COMPILE)
            if (said := self.compile(program, None)) is None:
                programs[n] = program
            else:
                diagnostic = _ERROR.search(said)
                self._end(n, Ended(REFUSED, COMPILE, diagnostic[1] if diagnostic else said))
        return programs

    def _say(self, **entry: Any) -> None:
        with self._journal.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _end(self, n: int, ended: Ended) -> None:
        self._say(end=n, **{"as": [ended.status, ended.stage, ended.detail[:MOST_DETAIL]]})

    def program(self, graph: Graph, reference: Reference) -> str:
        """The text of a graph's program. Raises what the exporter raises."""

        lowered = None
        # Without torch.export, which takes longer than all else.
        if export_graph := getattr(self._module, "export_graph", None):
            with contextlib.suppress(_InPlace):
                lowered = export_graph(functools.partial(_captured, graph), reference.inputs, self.options, self._lowering)  # fmt: skip
        if lowered is None:
            model = loading.LoadedModel("graph", _Module(graph), tuple(graph.tensors()), {}, file=None)  # fmt: skip
            lowered, _ = self._module.export(model, self.options)
        return link.link(lowered, reference.inputs, self._context).decode()

    def _judge(self, programs: Mapping[int, str], cases: Cases) -> None:
        """Compile programs as one function and run it, without those that are refused."""
        module, stage = self.folder / "module.vmfb", COMPILE
        self._say(begin=[*programs], stage=stage)
        text, lines = together(programs)
        said, blamed = self.compile(text, module), dict[int, str]()
        if said is not None:
            errors = {int(match[1]): match[2] for match in reversed([*_AT.finditer(said)])}
            blamed = {n: e for n in programs for line, e in errors.items() if line in lines[n]}
        else:
            stage = RUN
            self._say(begin=[*programs], stage=stage)
            try:
                outputs = iter(self._called(module, [cases[n][1] for n in programs]))
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
        if said is None:
            for n in programs:
                reference = cases[n][1]
                problem = reference.problem([next(outputs) for _ in reference.expected.golden])
                self._end(n, Ended(WRONG, RUN, problem) if problem else Ended(OK))
            return
        if len(programs) == 1:
            blamed = blamed or dict.fromkeys(programs, said)
        for n, message in blamed.items():
            self._end(n, Ended(REFUSED, stage, message))
        left = [n for n in programs if n not in blamed]
        middle = len(left) if blamed else len(left) // 2
        for some in filter(None, (left[:middle], left[middle:])):
            self._judge({n: programs[n] for n in some}, cases)

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

    def _called(self, module: Path, references: Sequence[Reference]) -> list[np.ndarray]:
        """The outputs of all programs of a module."""
        session = Session(Module(module, None, self.device), 1)
        given = [tensors.as_native(a, k.dtype) for r in references for a, k in zip(r.arrays, r.inputs, strict=True)]  # fmt: skip
        return session.call(given)[0]


class _Module(torch.nn.Module):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._graph(*inputs)


class _InPlace(Exception):
    """A decomposition works in place, which torch.export makes functional."""


def _captured(graph: Graph, decompositions: Mapping[Any, Any]) -> torch.fx.GraphModule:
    """A graph of functional operators, under decompositions."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        given = [
            torch.empty(argument.shape, dtype=getattr(torch, argument.dtype))
            for argument in graph.inputs
        ]
    with mode:
        captured = make_fx(torch.func.functionalize(graph), dict(decompositions), "fake")(*given)
    if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in captured.graph.nodes):  # fmt: skip
        raise _InPlace
    return captured


def together(programs: Mapping[int, str]) -> tuple[str, dict[int, range]]:
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


def apart(programs: Mapping[int, str]) -> Iterator[list[int]]:
    """The programs that can share a function, and the others, each alone: those with aliases, resources, or symbols beside @main."""
    shared = [n for n, text in programs.items() if _PLAIN.fullmatch(text)]
    yield from filter(None, [shared])
    yield from ([n] for n in programs if n not in shared)


def cpu_seconds(process: int) -> float:
    """What a child process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crash(said: str, code: int) -> str:
    """The end of a process in words: its signal, an assertion, and the functions of the compiler on its stack."""
    number = os.waitstatus_to_exitcode(code)
    name = signal.Signals(-number).name if number < 0 else f"exit {number}"
    messages = [line.strip() for line in said.splitlines() if "Assertion" in line or "LLVM ERROR" in line or "error:" in line]  # fmt: skip
    frames = [f for f in _FRAME.findall(said) if not any(noise in f for noise in _NOISE)]
    return "\n".join([name, *messages[:2], *frames[:4]])
