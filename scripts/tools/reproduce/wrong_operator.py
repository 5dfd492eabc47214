"""Finds a wrong operator of a captured graph, and writes what shows it: program, inputs, expected values, commands and an issue.

The values of all nodes of the graph are compared, then the first wrong ones by themselves. A node whose value is wrong may only have been given wrong values. So each candidate is also lowered as a program of its
own, with the values of eager mode as its inputs.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import textwrap
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import fx

from scripts.config import plugins
from scripts.core import atomic, tensors
from scripts.frontends.lowering import capture, link, locations
from scripts.frontends.torch_model import convert
from scripts.frontends.torch_model.loading import FLAT_PREFIX, LoadedModel, named_weights
from scripts.iree import compile_options, shell
from scripts.iree.backends import BACKENDS, compile_flags
from scripts.iree.session import Module, Session
from scripts.iree.tools import Compiler
from scripts.supervise.diagnose import diagnose
from scripts.tools.reproduce import issue, mismatch
from scripts.tools.reproduce.mismatch import differs

CPU = "llvm-cpu"
PLAIN = tuple(compile_flags(CPU, None, "O0", ()))
"""Flags with which IREE is taken to be right: what is wrong then is wrong in the program."""
AROUND = (0, 1, 2, 4)
"""How many operators before one are lowered together with it, until the difference shows."""
CANDIDATES = 10
"""Nodes with wrong values that are tried by themselves, in the order of the graph."""
SIZES = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128)
"""Sizes of dimensions that are tried, the smallest first."""
UNSET = "empty"
"""In the names of operators whose results have no defined values (`aten.empty.memory_format`)."""
PROGRAM, SCRIPT, REPORT = "wrong.mlir", "wrong.py", "wrong.json"
PROGRAM_CHARS = 6000
"""How much of a program an issue shows."""


class NotFound(Exception):
    """No operator computes other values. Says what was compared."""


@dataclass(frozen=True)
class Graph:
    """A functional graph with its weights, and what its nodes compute in eager mode.

    `eager`: the tensors of inputs, weights and operators. `operators`: the nodes that compute one tensor, in order.
    """

    module: fx.GraphModule
    eager: dict[fx.Node, torch.Tensor]
    operators: tuple[fx.Node, ...]


@dataclass(frozen=True)
class Part:
    """Some operators of a graph, as a module that returns a list. `inputs`: what it is called with."""

    module: fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    nodes: tuple[fx.Node, ...]


@dataclass(frozen=True)
class Program:
    """What a part was lowered to, and what is needed to run it. `rewrites`: of the exporter. `module`: None if it did not
    compile, and `why` says how that failed."""

    text: str
    rewrites: tuple[str, ...] = ()
    module: Module | None = None
    inputs: Sequence[np.ndarray] = ()
    why: str = ""


@dataclass(frozen=True)
class Wrong:
    """A part of which `program` computes other values than eager mode. `eager`: its right result. `computed`: that of the
    program."""

    part: Part
    eager: torch.Tensor
    program: Program
    computed: np.ndarray


@dataclass(frozen=True)
class Found(Wrong):
    """The smallest part that shows that the value of `node` is wrong. `nodes`: of the graph; `wrong`: those with wrong values,
    None if this is not known."""

    node: fx.Node
    nodes: int
    wrong: int | None


@dataclass(frozen=True)
class Lowering:
    """A frontend (an exporter and its options) and a deadline, by time.monotonic. `folder`: for files; `threads`: of the CPU."""

    exporter: ModuleType
    options: Mapping[str, Any]
    folder: Path
    threads: int
    deadline: float

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    def compiled(self, part: Part) -> Program:
        """Lower a part, and compile it for the CPU."""
        return self.program_of(LoadedModel("part", part.module, part.inputs, {}, file=None))

    def program_of(self, model: LoadedModel) -> Program:
        """Lower a model, and compile it for the CPU."""
        try:
            lowered, _ = self.exporter.export(model, self.options)
        except Exception as error:  # each package has error classes of its own
            return Program("", why=f"{type(error).__name__}: {error}")
        types = [convert.tensor_type(name, tensor) for name, tensor in model.inputs]
        text = link.link(lowered, types).decode()
        limit_s = max(1.0, self.deadline - time.monotonic())
        vmfb, weights = self.folder / "module.vmfb", self.folder / "weights.irpa"
        compiler = Compiler(
            (*PLAIN, *compile_options.flags_keeping_float64(text, PLAIN)), self.folder
        )
        compiled = compiler.run(text, limit_s, vmfb)
        if compiled.returncode is None:
            return Program(text, lowered.rewrites, why=f"more than {limit_s:.0f} s")
        if compiled.returncode:
            why = diagnose(compiled.returncode, compiled.log).detail
            return Program(text, lowered.rewrites, why=why)
        stored = (convert.to_numpy(tensor) for _, tensor in model.inputs)
        inputs = [
            tensors.as_native(array, kind.dtype) for array, kind in zip(stored, types, strict=True)
        ]
        own, _ = named_weights(model.module)
        if own:
            tensors.write_archive(
                weights, ((key, convert.to_bytes(tensor)) for key, tensor in own.items())
            )
        module = Module(vmfb, weights if own else None, BACKENDS[CPU].device)
        return Program(text, lowered.rewrites, module, inputs)

    def outputs(self, program: Program) -> list[np.ndarray]:
        """The results of a program, bfloat16 as float32. Raises RuntimeError if it fails."""
        assert program.module is not None
        with contextlib.closing(Session(program.module, self.threads)) as session:
            outputs, _ = session.call(program.inputs)
        return [
            array.astype(np.float32) if array.dtype.name == "bfloat16" else array
            for array in outputs
        ]

    def wrong(self, part: Part) -> Wrong | None:
        """What a part computes, if that is not its value in eager mode; None also if it does not compile."""
        with torch.no_grad():
            [eager] = part.module(*part.inputs)
        program = self.compiled(part)
        if program.module is None:
            return None
        [computed] = self.outputs(program)
        if not differs(convert.to_numpy(eager), computed):
            return None
        return Wrong(part, eager, program, computed)


def find(loaded: LoadedModel, lowering: Lowering) -> Found:
    """Return the first operator of a model that is wrong, with inputs that are as small as possible.

    After the deadline, the smallest inputs found so far are kept. Raises NotFound, and what torch and the exporter raise.
    """
    graph = captured(loaded)
    count, wrong = len(graph.operators), _all_wrong(graph, lowering)
    if wrong == []:
        raise NotFound(f"at O0, the values of all {count} nodes are those of eager mode")
    for part, node in _candidates(graph, wrong):
        if lowering.is_over:
            break
        if wrong_part := lowering.wrong(part):
            known = None if wrong is None else len(wrong)
            return Found(**vars(_shrunk(wrong_part, lowering)), node=node, nodes=count, wrong=known)
    if wrong is None:
        raise NotFound(
            f"no node by itself has other values at O0 than in eager mode, of {count}, or the time was over"
        )
    raise NotFound(
        f"at O0, {len(wrong)} of {count} nodes have other values than in eager mode, the first is {wrong[0]}, "
        f"but none of the first {min(CANDIDATES, len(wrong))} has by itself, or the time was over"
    )


def _all_wrong(graph: Graph, lowering: Lowering) -> list[fx.Node] | None:
    """The nodes with other values than in eager mode; None if the program with the values of all nodes does not compile."""
    whole = lowering.compiled(_with_results(graph, graph.operators))
    if whole.module is None:
        print(f"the program with the values of all nodes does not compile: {whole.why}", flush=True)
        return None
    pairs = zip(graph.operators, lowering.outputs(whole), strict=True)
    return [node for node, value in pairs if differs(convert.to_numpy(graph.eager[node]), value)]


def _candidates(graph: Graph, wrong: list[fx.Node] | None) -> Iterator[tuple[Part, fx.Node]]:
    """The parts that are lowered by themselves: the first wrong nodes with more and more of the operators before them; if it
    is not known which nodes are wrong, each node."""
    if wrong is None:
        yield from ((_around(graph, node, 0), node) for node in graph.operators)
        return
    for steps in AROUND:
        for node in wrong[:CANDIDATES]:
            yield _around(graph, node, steps), node


def _shrunk(wrong: Wrong, lowering: Lowering) -> Wrong:
    """A wrong part with smaller inputs, as long as the difference shows. All dimensions of one size shrink together."""
    sizes = {size for tensor in wrong.part.inputs for size in tensor.shape if size > 1}
    for size in sorted(sizes, reverse=True):
        wrong = next(_smaller(wrong.part, size, lowering), wrong)
    return wrong


def _smaller(part: Part, size: int, lowering: Lowering) -> Iterator[Wrong]:
    """Parts with a smaller size in place of `size` that are wrong too."""
    for wanted in SIZES:
        if wanted >= size or lowering.is_over:
            return
        inputs = tuple(_cut(tensor, size, wanted) for tensor in part.inputs)
        wrong = None
        # Each package has error classes of its own for a size that an operator does not take.
        with contextlib.suppress(Exception):
            wrong = lowering.wrong(replace(part, inputs=inputs))
        if wrong:
            yield wrong


def _cut(tensor: torch.Tensor, size: int, wanted: int) -> torch.Tensor:
    """The beginning of each dimension of this size."""
    return tensor[tuple(slice(wanted if n == size else None) for n in tensor.shape)].contiguous()


def captured(loaded: LoadedModel) -> Graph:
    """The graph of a model, run once. Raises what torch.export raises, and capture.UnsupportedProgram."""
    # Only in a functional graph does each node have one value.
    program = capture.functional(capture.capture(loaded), {})
    capture.results(program)
    module = program.module(check_guards=False)
    recorder = _Recorder(module)
    with torch.no_grad():
        recorder.run(*(tensor for _, tensor in loaded.inputs))
    operators = tuple(
        node
        for node in recorder.eager
        if node.op == "call_function" and UNSET not in str(node.target)
    )
    return Graph(module, recorder.eager, operators)


class _Recorder(fx.Interpreter):
    """Runs a graph and keeps the tensors that its nodes compute."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.eager: dict[fx.Node, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op != "output":
            self.eager[n] = value.detach()
        return value


def _with_results(graph: Graph, nodes: Sequence[fx.Node]) -> Part:
    """The whole graph with the values of these nodes as its results."""
    copy, known = fx.Graph(), dict[fx.Node, fx.Node]()
    copy.graph_copy(graph.module.graph, known)
    copy.output([known[node] for node in nodes])
    inputs = (graph.eager[n] for n in graph.module.graph.nodes if n.op == "placeholder")
    return Part(fx.GraphModule(graph.module, copy), tuple(inputs), tuple(nodes))


def _around(graph: Graph, node: fx.Node, steps: int) -> Part:
    """An operator with the ones up to `steps` before it. All other tensors that it uses are inputs, also weights."""
    nodes = border = {node} | _not_tensors(graph, {node})
    for _ in range(steps):
        before = {used for near in border for used in near.all_input_nodes} - nodes
        border = {used for used in before if used.op == "call_function"}
        border |= _not_tensors(graph, border)
        nodes = nodes | border
    ordered = [each for each in graph.module.graph.nodes if each in nodes]
    outer = dict.fromkeys(
        used for each in ordered for used in each.all_input_nodes if used not in nodes
    )
    copy = fx.Graph()
    known = {used: copy.placeholder(f"input_{number}") for number, used in enumerate(outer)}
    for each in ordered:
        known[each] = copy.node_copy(each, known.__getitem__)
        known[each].meta = {}
        _name_arguments(known[each])
    copy.output([known[node]])
    inputs = tuple(graph.eager[used] for used in outer)
    operators = tuple(each for each in ordered if each.op != "get_attr")
    return Part(fx.GraphModule(graph.module, copy), inputs, operators)


def _not_tensors(graph: Graph, nodes: Collection[fx.Node]) -> set[fx.Node]:
    """The nodes behind others that compute something else than one tensor, such as a tuple."""
    behind: set[fx.Node] = set()
    left = list(nodes)
    while left:
        new = {used for used in left.pop().all_input_nodes if used not in graph.eager} - behind
        behind |= new
        left += new
    return behind


def _name_arguments(node: fx.Node) -> None:
    """Give the arguments of an operator that are no tensors their names (`ceil_mode=True`), for people."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    names = [argument.name for argument in node.target._schema.arguments]
    first = next((n for n, value in enumerate(node.args) if not isinstance(value, fx.Node)), None)
    if first is not None:
        node.kwargs = dict(zip(names[first:], node.args[first:], strict=False)) | node.kwargs
        node.args = node.args[:first]


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
