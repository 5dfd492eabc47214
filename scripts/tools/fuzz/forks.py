"""Runs graphs on a path in a forked process, so that a crash or a hang ends only that.

What it was working on is tried again in parts, until one graph is alone in a process: some crashes of torch do not repeat.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import json
import math
import os
import re
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from scripts.core import atomic, process
from scripts.supervise import journal
from scripts.tools.fuzz.generator import Graph
from scripts.tools.fuzz.oracle import Reference

OK, WRONG, REFUSED, CRASHED, HANGS = "ok", "wrong", "refused", "crashed", "hangs"
UNDEFINED = "undefined"
"""A graph without a right result, which no path has run."""
EXPORT, COMPILE, RUN = "export", "compile", "run"
TIMED_S = 0.2
"""Seconds of the calls of which the fastest is taken."""
LIMIT_S, WAITING = 30, 10
"""CPU seconds that a part of a fork's work may take beside those of its graphs, and how many times as much time may pass."""
MEMORY = 4 << 30
"""Bytes that a fork may allocate."""
PARTS = 4
"""In how many forks the programs are tried again that a fork was working on when it crashed."""
MOST_DETAIL = 2000
_ERROR = re.compile(r"error: (.*)")
_FRAME = re.compile(r"\s*#\d+ \S+ (?:in )?([\w:~<>, ]+?)\(")
_NOISE = ("llvm::sys", "SignalHandler", "__restore_rt", "gsignal", "abort", "raise", "PrintStackTrace")  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a graph ended on a path: `status`, the `stage` that failed, and its diagnostic."""

    status: str
    stage: str = ""
    detail: str = ""

    @property
    def kind(self) -> str:
        """The message without numbers and names, which failures of one cause often share."""
        text = "" if self.status in (WRONG, HANGS) else self.detail
        if self.status == REFUSED:
            text, _, operation = text.partition("\n")[0].partition(": %")
            if named := re.search(r'name = "([^"]*)"', operation):
                text += f" {named[1]}"
        text = re.sub(r"tensor<[^>]*>|\[[\d,? ]*\]|0x[\da-f]+|-?\d+", "0", text)
        return " ".join(f"{self.status} {self.stage}: {text}".split())[:300]


Cases = Mapping[int, tuple[Graph, Reference]]


def by_program(cases: Cases) -> list[list[int]]:
    """The numbers of cases that have the same program, and differ in the values of inputs."""
    groups: dict[str, list[int]] = defaultdict(list)
    for n, (graph, _) in cases.items():
        program = graph.with_inputs(lambda i: dataclasses.replace(i, values="", seed=0))
        groups[repr(program)].append(n)
    return [*groups.values()]


@dataclass
class ForkedPath(abc.ABC):
    """Runs graphs in a fork. `folder`: for scratch files."""

    folder: Path
    each_s: ClassVar[int] = 1
    """CPU seconds that a graph may take."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log, self._journal = self.folder / "log.txt", self.folder / "ends.jsonl"

    @abc.abstractmethod
    def judge(self, cases: Cases) -> None:
        """Compute graphs in the fork, and say of each how it ends (`_end`)."""

    @abc.abstractmethod
    def script(self) -> tuple[str, str]:
        """The imports of a script, and the expression by which it runs the module Graph() with its `inputs` on this path."""

    def write(self, folder: Path, graph: Graph, reference: Reference, ended: Ended) -> None:
        """Write a reproducer that needs the wheels alone."""
        folder.mkdir(parents=True, exist_ok=True)
        imported, result = self.script()
        lines = ["import torch", *filter(None, [imported]), "", "", "class Graph(torch.nn.Module):"]
        names = "".join(f", {name}" for name in graph.inputs)
        lines += [f"    def forward(self{names}):", *(f"        {line}" for line in graph.source().splitlines())]  # fmt: skip
        lines += ["", "", "nan, inf = float('nan'), float('inf')", "inputs = ["]
        for array, argument in zip(reference.stored, graph.inputs.values(), strict=True):
            values = array if array.dtype.kind in "iub" else array.astype(np.float64)
            lines.append(f"    torch.tensor({values.tolist()}, dtype=torch.{argument.dtype}).reshape({argument.shape}),")  # fmt: skip
        lines += ["]", "print(Graph()(*inputs))", f"print({result})", ""]
        atomic.write_text(folder / "graph.py", "\n".join(lines))

    @abc.abstractmethod
    def compiled_call(self, graph: Graph, reference: Reference) -> Callable[[], object]:
        """Compile a graph, in a fork; return a call of it. Raises if it fails."""

    def milliseconds(self, graph: Graph, reference: Reference) -> float | None:
        """How long a call of a graph takes, the fastest of TIMED_S; None if it fails."""

        def fastest_s() -> bytes:
            _limit_memory()
            self._limit(1)
            call = self.compiled_call(graph, reference)
            call()
            until = time.monotonic() + TIMED_S
            each_s: list[float] = []
            while not each_s or time.monotonic() < until:
                begun = time.perf_counter()
                call()
                each_s.append(time.perf_counter() - begun)
            return str(min(each_s)).encode()

        code, seconds = process.forked(fastest_s)
        return None if code else float(seconds) * 1e3

    def run(self, cases: Cases) -> dict[int, Ended]:
        """How each case ends."""
        ends: dict[int, Ended] = {}
        left = [list(cases)]
        while left:
            part = left.pop()
            done, stopped, suspects = self._forked({n: cases[n] for n in part})
            ends |= done
            rest = [n for n in part if n not in done and n not in suspects]
            if rest:
                left.append(rest)
            programs = by_program({n: cases[n] for n in suspects})
            if stopped.stage == RUN and len(programs) == 1:
                programs = [[n] for n in suspects]  # whose values may make it crash
            if programs == [part]:
                ends |= dict.fromkeys(suspects, stopped)
                continue
            left += [list(itertools.chain(*programs[at::PARTS])) for at in range(min(PARTS, len(programs)))]  # fmt: skip
        return ends

    def _forked(self, cases: Cases) -> tuple[dict[int, Ended], Ended, list[int]]:
        """The cases that ended in a fork, how the fork ended, and the cases that it was working on then."""
        self._journal.write_text("")

        def judged() -> bytes:
            _limit_memory()
            self._limit(0)
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            self.judge(cases)
            return b""

        code, _ = process.forked(judged)
        status = HANGS if code in (-signal.SIGXCPU, -signal.SIGALRM) else CRASHED
        entries = [json.loads(line) for line in self._journal.read_text().splitlines()]
        done = {n: Ended(*entry["as"]) for entry in entries for n in entry.get("end", ())}
        last = next((entry for entry in reversed(entries) if "begin" in entry), None)
        suspects = [n for n in (last["begin"] if last else cases) if n not in done]
        detail = crash(self._log.read_text(errors="replace"), code)
        return done, Ended(status, last["stage"] if last else EXPORT, detail), suspects

    def _limit(self, graphs: int) -> None:
        """End this process by a signal if what it does next with some graphs takes too long."""
        seconds = LIMIT_S + self.each_s * graphs
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))
        signal.alarm(WAITING * seconds)

    def _begin(self, numbers: list[int], stage: str) -> None:
        self._limit(len(numbers))
        os.truncate(self._log, 0)
        journal.append(self._journal, {"begin": numbers, "stage": stage})

    def _end(self, numbers: list[int], ended: Ended) -> None:
        how = [ended.status, ended.stage, ended.detail[:MOST_DETAIL]]
        journal.append(self._journal, {"end": numbers, "as": how})

    def _diagnostic(self, otherwise: object) -> str:
        """The first error in the log. `otherwise`: an exception, or what is said if there is none."""
        if named := _ERROR.search(self._log.read_text(errors="replace")):
            return named[1]
        return f"{type(otherwise).__name__}: {otherwise}" if isinstance(otherwise, BaseException) else str(otherwise)  # fmt: skip


def _limit_memory() -> None:
    """Let no allocation of this process succeed after MEMORY."""
    pages, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(pages) * resource.getpagesize() + MEMORY, most))


def crash(log: str, code: int) -> str:
    """The end of a process (process.forked) in words: its signal, an assertion, and the functions of the compiler on its stack."""
    name = signal.Signals(-code).name if code < 0 else f"exit {code}"
    messages = [line.strip() for line in log.splitlines() if "Assertion" in line or "LLVM ERROR" in line or "error:" in line]  # fmt: skip
    frames = [f for f in _FRAME.findall(log) if not any(noise in f for noise in _NOISE)]
    return "\n".join([name, *messages[:2], *frames[:4]])
