"""Takes graphs along a lowering path in a forked process: each is lowered, all are compiled as the functions of one module, and run.

A frontend or compiler that crashes or hangs ends only the fork. What was compiled then is tried in halves, until one graph is alone.
"""

from __future__ import annotations

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

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from scripts.core import tensors
from scripts.frontends.lowering import link
from scripts.frontends.torch_model import loading
from scripts.iree.backends import unused_plugins
from scripts.iree.compile_options import SERIAL
from scripts.iree.session import Module, Session
from scripts.tools.fuzz.generator import Graph, Input, Node, Of
from scripts.tools.fuzz.oracle import Reference

OK, WRONG, REFUSED, CRASHED, HANGS = "ok", "wrong", "refused", "crashed", "hangs"
EXPORT, COMPILE, RUN = "export", "compile", "run"
TOGETHER, IN_MODULE = 32, 6
"""Graphs of a fork, and functions of a module. If the code generator refuses one, the others of its module are compiled again."""
LIMIT_S, EACH_S, WAITING = 30.0, 2.0, 20
"""CPU seconds that a fork may take, those for each of its graphs, and how many times as much time may pass."""
MOST_DETAIL = 2000
_FASTER = (SERIAL, "--iree-hal-memoization=false", "--iree-llvmcpu-debug-symbols=false")
"""Flags with which the code of dispatches is the same, and a module compiles in less time."""
_ERROR = re.compile(r"error: (.*)")
_AT = re.compile(r"program:(\d+):\d+: error: (.*)")
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
        self._log, self._journal = self.folder / "said.txt", self.folder / "ends.jsonl"
        self._module = importlib.import_module(f"scripts.frontends.exporters.{self.exporter}")
        plugins = unused_plugins(self.flags, f"{self.options['dialect']} tm_tensor")
        words = [word.encode() for word in ("iree-compile", *self.flags, *_FASTER, *plugins)]
        self._arguments = (ctypes.c_char_p * len(words))(*words)
        faulthandler.disable()  # LLVM prints the stack of a crash, with the pass
        ctypes_dl._init_dylib()
        ctypes_dl._dylib.ireeCompilerSetupGlobalCL(len(words), self._arguments, b"", True)
        # What a fork would import and make again. MLIR's contexts have threads, so none is made here.
        for name in ("iree.compiler.ir", "iree.runtime", "scripts.frontends.lowering.locations"):
            importlib.import_module(name)
        _captured(Graph((Input((1,), "float32", "normal", 0),), (Node("aten.neg.default", (Of(0),), {}, 1),), (1,)), get_decomposition_table())  # fmt: skip

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
                left += [[n] for n in suspects]
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
        done = {each["end"]: Ended(*each["as"]) for each in entries if "end" in each}
        last = next((each for each in reversed(entries) if "begin" in each), None)
        suspects = [n for n in (last["begin"] if last else cases) if n not in done]
        detail = crash(self._log.read_text(errors="replace"), code)
        return done, Ended(status, last["stage"] if last else EXPORT, detail), suspects

    def _be_child(self, cases: Cases) -> NoReturn:
        code = 1
        try:
            out = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            programs: dict[int, str] = {}
            for n, (graph, reference) in cases.items():
                self._say(begin=[n], stage=EXPORT)
                os.truncate(self._log, 0)
                try:
                    programs[n] = self.program(graph, reference)
                except Exception as error:
                    named = _ERROR.search(self._log.read_text(errors="replace"))
                    self._end(n, Ended(REFUSED, EXPORT, named[1] if named else f"{type(error).__name__}: {error}"))  # fmt: skip
            # One by one, so that a program is known that is refused or crashes when its input is converted.
            for n in list(programs):
                self._say(begin=[n], stage=COMPILE)
                if (said := self.compile(programs[n], self.folder / "module.vmfb", "input")) is not None:  # fmt: skip
                    diagnostic = _ERROR.search(said)
                    self._end(n, Ended(REFUSED, COMPILE, diagnostic[1] if diagnostic else said))
                    del programs[n]
            for some in apart(programs):
                self._compiled({n: programs[n] for n in some}, cases)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _say(self, **entry: Any) -> None:
        with self._journal.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _end(self, n: int, ended: Ended) -> None:
        self._say(end=n, **{"as": [ended.status, ended.stage, ended.detail[:MOST_DETAIL]]})

    def program(self, graph: Graph, reference: Reference) -> str:
        """The text of a graph's program. Raises what the exporter raises."""

        captured = functools.partial(_captured, graph)
        try:
            lowered = self._module.export_graph(captured, reference.inputs, self.options)
        except _InPlace:
            model = loading.LoadedModel("graph", _Module(graph), tuple(graph.tensors()), {}, file=None)  # fmt: skip
            lowered, _ = self._module.export(model, self.options)
        return link.link(lowered, reference.inputs).decode()

    def _compiled(self, programs: Mapping[int, str], cases: Cases) -> None:
        """Compile programs as one module and run it, without those that the compiler refuses."""
        left, module = dict(programs), self.folder / "module.vmfb"
        while left:
            self._say(begin=[*left], stage=COMPILE)
            text, lines = together(left)
            if (said := self.compile(text, module)) is None:
                for n in left:
                    self._say(begin=[n], stage=RUN)
                    self._end(n, self._called(module, f"f{n}", cases[n][1]))
                return
            errors = {int(match[1]): match[2] for match in reversed([*_AT.finditer(said)])}
            blamed = {n: e for n in left for line, e in errors.items() if line in lines[n]}
            if not blamed and len(left) > 1:
                numbers = [*left]
                for half in (numbers[: len(left) // 2], numbers[len(left) // 2 :]):
                    self._compiled({n: left[n] for n in half}, cases)
                return
            for n, message in (blamed or dict.fromkeys(left, said)).items():
                self._end(n, Ended(REFUSED, COMPILE, message))
                del left[n]

    def compile(self, text: str, module: Path, phase: str = "end") -> str | None:
        """Compile a program up to a phase of iree-compile. Returns the diagnostics if that fails."""
        from iree.compiler.api import Output, Session, Source, ctypes_dl

        os.truncate(self._log, 0)
        with Session() as session, session.invocation() as invocation:
            invocation.enable_console_diagnostics()
            if phase != "end":
                ctypes_dl._dylib.ireeCompilerInvocationSetCompileToPhase(ctypes.c_void_p(invocation._inv_p), phase.encode())  # fmt: skip
            source = Source.wrap_buffer(session, text.encode() + b"\0", buffer_name="program")
            if not (invocation.parse_source(source) and invocation.execute()):
                return self._log.read_text(errors="replace")
            if phase != "end":
                return None
            with Output.open_file(str(module)) as output:
                invocation.output_vm_bytecode(output)
                output.keep()
        return None

    def _called(self, module: Path, function: str, reference: Reference) -> Ended:
        try:
            session = Session(Module(module, None, self.device, function), 1)
            outputs, _ = session.call([tensors.as_native(a, k.dtype) for a, k in zip(reference.arrays, reference.inputs, strict=True)])  # fmt: skip
        except Exception as error:
            return Ended(REFUSED, RUN, f"{type(error).__name__}: {error}")
        problem = reference.problem(outputs)
        return Ended(WRONG, RUN, problem) if problem else Ended(OK)


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
        given = [torch.empty(each.shape, dtype=getattr(torch, each.dtype)) for each in graph.inputs]
    with mode:
        made = make_fx(torch.func.functionalize(graph), dict(decompositions), "fake")(*given)
    if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in made.graph.nodes):  # fmt: skip
        raise _InPlace
    return made


def together(programs: Mapping[int, str]) -> tuple[str, dict[int, range]]:
    """One module of the functions of several programs, @f<number>, and the lines of each."""
    if len(programs) == 1:
        ((number, text),) = programs.items()
        return text.replace("@main(", f"@f{number}("), {number: range(text.count("\n") + 2)}
    parts, lines, at = ["module {"], {}, 2
    for number, text in programs.items():
        body = text.removeprefix("module {\n").rstrip().removesuffix("}").rstrip("\n")
        parts.append(body.replace("@main(", f"@f{number}("))
        lines[number] = range(at, at + body.count("\n") + 1)
        at = lines[number].stop
    return "\n".join([*parts, "}\n"]), lines


def apart(programs: Mapping[int, str]) -> Iterator[list[int]]:
    """The programs that can share a module, and the others, each alone: those with aliases, resources, or symbols beside @main."""

    def is_plain(text: str) -> bool:
        is_one = text.startswith("module {\n  func.func @main(") and text.rstrip().endswith("\n}")
        return is_one and text.count("\n  }") == 1 and "{-#" not in text

    shared = [n for n, text in programs.items() if is_plain(text)]
    yield from (shared[at : at + IN_MODULE] for at in range(0, len(shared), IN_MODULE))
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
