"""Run random graphs of operators on lowering paths, and report their failures by cause.

vmfbench fuzz --minutes 60
vmfbench fuzz --seed 3 --frontends 'torchmlir-*' --operators 'conv*' neg --dtypes float16
vmfbench fuzz --frontends torchmlir-torch,torchxla-stablehlo --levels O0 O3 --toolchains pinned,iree-3.12
vmfbench fuzz --baselines inductor,onnxruntime,openvino --models resnet,gpt2-prefill
vmfbench run results/fuzz.csv --config fuzz='{parts: 8, minutes: 60}' -- --profile workflow/profiles/slurm

Expected results are eager's. Writes results/fuzz.csv, fuzz.md and a reproducer of each cause to results/fuzz/. A later call with the same
seed and options continues the run.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from scripts.config import expansion, settings
from scripts.config.reading import ConfigError
from scripts.core import atomic, checkout, commands, exits, machine, process
from scripts.core.requests import StageRequest
from scripts.iree.backends import OPT_LEVELS, runs_on_cpu
from scripts.results import known_failures
from scripts.results.page_sections import as_text
from scripts.run import environments
from scripts.run.params import target_fields
from scripts.supervise import journal, outcome
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.outcome import ProblemEnd
from scripts.tools.fuzz import rows, triage
from scripts.tools.fuzz.triage import Cause, Failure
from scripts.tools.operators.batch.batch_stage import Host

BLOCK, OF_BASELINE = 64, 8
"""Graphs of a task, and of one of a baseline, which takes seconds for each."""
FASTEST = 600
"""Graphs per minute that no core exceeds: how many tasks are prepared."""
SEARCHED, REDUCED, MUTATED = 0.5, 0.8, 0.9
"""The shares of the time until which new graphs are drawn, those that failed are reduced, and reduced graphs are mutated. With --models, the first quarter
mutates parts of the models. In the rest, failures among mutations are reduced, reduced graphs are taken along the other lowering paths, and large
graphs are timed."""
TASK_S, MEMORY_MB = 1800.0, 6000
PROGRESS_S = 60
"""Seconds between lines of progress."""
DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
FAILED = "failed.jsonl"
"""The tasks that have ended their worker."""
EXPORTERS, RUNTIMES = ("torch_mlir", "torch_xla"), ("inductor", "onnxruntime", "openvino")
"""Of lowering paths, and of baselines, that take graphs."""


@dataclass(frozen=True)
class Lane:
    """A lowering path or baseline: its name, the interpreter of its worker, and the worker's request. `folder`: of its work."""

    name: str
    python: str
    fields: Mapping[str, Any]
    folder: Path

    @property
    def block(self) -> int:
        return OF_BASELINE if "runtime" in self.fields else BLOCK

    def ended(self) -> list[dict[str, Any]]:
        """The results of the tasks that have ended, each with its `task`, by the journals of all workers."""
        results: dict[str, dict[str, Any]] = {}
        for name in ("journal.jsonl", "worker/journal.jsonl", FAILED):
            for file in sorted(self.folder.glob(f"*/{name}")):
                for line in file.read_bytes().splitlines():
                    with contextlib.suppress(
                        ValueError
                    ):  # a killed process may have left half a line
                        result = json.loads(line).get("result") or {}
                        if result.get("done"):
                            results[json.dumps(result["task"], sort_keys=True)] = result
        return list(results.values())


def main() -> None:
    args = _arguments()
    os.environ.update(checkout.variables())
    lanes = _lanes(args)
    until = time.time() + args.minutes * 60
    try:
        for phase, share in ((_layers, 0.1), (_mutations, 0.25), (_blocks, SEARCHED), (_reductions, REDUCED), (_mutations, MUTATED), (_reductions, 0.93), (_checks, 0.96), *[(_timings, 1.0)] * triage.TURNS):  # fmt: skip
            _run(lanes, args, phase, until - (1 - share) * args.minutes * 60)
    except KeyboardInterrupt:
        print("stopped; what was found so far:")
    if args.reports:
        _write(lanes, args)


def runtime_minutes(minutes: float) -> int:
    """How long a call with `--minutes` may take: its last tasks have begun in time."""
    return math.ceil(minutes + TASK_S / 60)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="default: 10; 0: report only")
    parser.add_argument("--seed", type=int, default=0, help="of the graphs (default: 0)")
    parser.add_argument(
        "--targets", default="llvm-cpu", help="names or globs, with commas (default: llvm-cpu)"
    )
    parser.add_argument(
        "--frontends",
        default="torchmlir-torch",
        help="names or globs, with commas (default: torchmlir-torch)",
    )
    parser.add_argument(
        "--baselines", default="", help="names or globs, with commas: also run on these"
    )
    parser.add_argument("--toolchains", default="", help="names in the configuration, with commas")
    parser.add_argument(
        "--models", default="", help="names or globs, with commas: parts of these, mutated"
    )
    parser.add_argument("--levels", nargs="+", default=[], choices=OPT_LEVELS, help="of iree-compile (default: the target's)")  # fmt: skip
    parser.add_argument(
        "--operators", nargs="+", default=[], metavar="GLOB", help="limit graphs to these"
    )
    parser.add_argument(
        "--dtypes", nargs="+", default=[], choices=DTYPES, help="limit inputs to these"
    )
    parser.add_argument("--part", type=_part, metavar="K/N", help="one of N shares of the graphs; writes no report")  # fmt: skip
    parser.add_argument(
        "--cores", type=int, default=machine.physical_cores(), help="default: all physical ones"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder")
    args = parser.parse_args()
    args.reports, args.part = args.part is None, args.part or (1, 1)
    return args


def _part(text: str) -> tuple[int, int]:
    """The numbers of K/N. Raises ValueError."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return number, count


def _is_in(part: tuple[int, int], task: Mapping[str, Any]) -> bool:
    """Whether a task belongs to a part. All parts agree, whatever each of them has seen of the others."""
    number, count = part
    return zlib.crc32(json.dumps(task, sort_keys=True).encode()) % count == number - 1


def _lanes(args: argparse.Namespace) -> list[Lane]:
    """The lowering paths that are asked for. Exits with what is wrong with the options."""
    kinds = ("targets", "frontends", "toolchains", "baselines", "models")
    selection = {kind: v for kind in kinds if (v := getattr(args, kind))}
    try:
        declared, selected = settings.load(selection, [checkout.path("config.yaml")], checkout.ROOT)
        matrix = expansion.expand(declared, selected, checkout.ROOT)
    except ConfigError as error:
        exits.fail(str(error))
    limits = {"operators": args.operators, "dtypes": args.dtypes}
    lanes: list[Lane] = []
    for frontend, target, level in itertools.product(matrix.frontends.values(), matrix.targets.values(), args.levels or ("",)):  # fmt: skip
        in_a_toolchain = any(t.takes(frontend.env, target.env) for t in matrix.toolchains.values())
        if (
            frontend.exporter not in EXPORTERS
            or not runs_on_cpu(target.device)
            or not in_a_toolchain
        ):
            continue
        fields = target_fields(target, level or target.opt_level, target.flags)
        # Targets on the CPU have the same flags in all toolchains.
        packages = environments.prefix(target.env) if fields.pop("toolchain", "") else ""
        fields |= {
            "packages": packages,
            "device": target.device,
            "exporter": frontend.exporter,
            # The rewrites would hide what they avoid.
            "exporter_options": {**frontend.options, "rewrites": "none"},
        }
        name = f"{frontend.name}/{target.name}{f'-{level}' if level else ''}"
        lanes.append(_lane(args, name, frontend.env, fields | limits))
    if not lanes:
        exits.fail(f"no frontend of exporter {' or '.join(EXPORTERS)} with a target on the CPU is selected")  # fmt: skip
    for baseline in matrix.baselines.values() if args.baselines else ():
        if baseline.runtime not in RUNTIMES or not baseline.on_cpu or baseline.rewrites:
            exits.fail(f"--baselines: {baseline.name}; those that take graphs are {', '.join(RUNTIMES)}")  # fmt: skip
        fields = {"runtime": baseline.runtime}
        lanes.append(_lane(args, baseline.name, baseline.env, fields | limits))
    args.models = matrix.models if args.models else {}
    if args.operators:
        _require_operators(args.operators, lanes[0].python)
    try:
        for lane in lanes:
            lane.folder.mkdir(parents=True, exist_ok=True)
            atomic.write_text(lane.folder / "path.txt", f"{lane.name}\n")
    except OSError as error:
        exits.fail(f"{args.results}: {error}; give another folder by --results")
    return lanes


def _lane(args: argparse.Namespace, name: str, env: str, fields: Mapping[str, Any]) -> Lane:
    python = str(Path(environments.prefix(env), "bin/python"))
    for needed in filter(None, (python, fields.get("packages"))):
        if not Path(needed).exists():
            exits.fail(f"no {needed}: a run of `vmfbench run --quick` with the same --frontends, --targets, --baselines and --toolchains makes the environments")  # fmt: skip
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:8]
    folder = args.results / "fuzz" / f"{name.replace('/', '-')}-{digest}"
    return Lane(name, python, fields, folder)


def _require_operators(globs: Sequence[str], python: str) -> None:
    """Exit if a glob matches no operator that graphs are made of."""
    listed = process.captured([python, "-m", "scripts.tools.fuzz.operators"])
    names = listed.stdout.split()
    for glob in globs if names else ():
        if not fnmatch.filter(names, glob):
            exits.fail(f"--operators {glob}: no operator of graphs; they have {' '.join(names)}")


def _blocks(lane: Lane, lanes: Sequence[Lane], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The next blocks of graphs of a seed."""
    tasks = (result["task"] for result in lane.ended())
    done = {task["first"] for task in tasks if "first" in task and "origin" not in task and task["seed"] == args.seed}  # fmt: skip
    size = lane.block
    count = len(done) + int(args.minutes * SEARCHED * FASTEST * args.cores * args.part[1] / size) + 1  # fmt: skip
    new = [first for first in range(0, count * size, size) if first not in done]
    return [{"seed": args.seed, "first": first, "count": size} for first in new]


def _reductions(
    lane: Lane, lanes: Sequence[Lane], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """The failures of a lowering path that are to be reduced."""
    done = {result["task"].get("name") for result in lane.ended()}
    return [
        {
            "seed": f.seed,
            "number": f.number,
            "values": f.values,
            "kind": f.kind,
            "name": f.name,
            **({"origin": f.origin} if f.origin else {}),
        }
        for f in triage.to_reduce(failures([lane]))
        if f.name not in done
    ]


def _layers(lane: Lane, lanes: Sequence[Lane], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The models whose layers are to be mutated."""
    done = [result["task"].get("model") for result in lane.ended()]
    models = [{"name": m.name, "file": m.file, "options": m.options} for m in args.models.values()]
    return [{"model": model} for model in models if model not in done]


def _mutations(lane: Lane, lanes: Sequence[Lane], args: argparse.Namespace) -> list[dict[str, Any]]:  # fmt: skip
    """The layers of models, and the reduced graphs of a path, that were not mutated: a block of mutations of each."""
    results = lane.ended()
    mutated = [result["task"].get("origin") for result in results if "count" in result["task"]]
    graphs = [result["graph"] for result in results if result.get("reduced")]
    graphs += [layer for result in results for layer in result.get("layers", ())]
    block = {"seed": args.seed, "first": 0, "count": lane.block}
    return [{**block, "origin": graph} for graph in graphs if graph not in mutated]


def _checks(lane: Lane, lanes: Sequence[Lane], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The reduced graphs of other lowering paths that a path has not taken."""
    done = [result["task"].get("graph") for result in lane.ended()]
    others = [result for other in lanes if other is not lane for result in other.ended()]
    graphs = [result["graph"] for result in others if result.get("reduced")]
    return [{"graph": graph} for graph in graphs if graph not in done]


def _timings(lane: Lane, lanes: Sequence[Lane], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The graphs of the first path that are to be timed once more, if there are others to compare it with."""
    times = Counter(json.dumps(r["task"]["timed"]) for r in lane.ended() if "timed" in r["task"])
    tasks = []
    for result in lanes[0].ended() if len(lanes) > 1 else ():
        if largest := result.get("largest"):
            turn, origin = times[json.dumps(largest["graph"])], result["task"].get("origin")
            task = {"timed": largest["graph"], "turn": turn, "seed": result["task"]["seed"], "number": largest["number"]}  # fmt: skip
            tasks += [task | ({"origin": origin} if origin else {})] * (turn < triage.TURNS)
    return tasks


def failures(lanes: Sequence[Lane]) -> list[Failure]:
    """All failures that were found so far."""
    return [
        Failure(
            lane.name,
            result["task"]["seed"],
            **{**failed, "operators": tuple(failed["operators"])},
            origin=result["task"].get("origin"),
        )
        for lane in lanes
        for result in lane.ended()
        for failed in result.get("failures", ())
    ]


def _run(lanes: Sequence[Lane], args: argparse.Namespace, phase: Any, until: float) -> None:
    """Run a phase until its time is over, a process for each core. Raises KeyboardInterrupt."""
    fork = multiprocessing.get_context("fork")
    begun, share = time.time(), (until - time.time()) / len(lanes)
    for number, lane in enumerate(lanes):
        tasks = [task for task in phase(lane, lanes, args) if _is_in(args.part, task)]
        if not tasks or share <= 0:
            continue
        ends = begun + (number + 1) * share
        first = (args.part[0] - 1) * args.cores
        hosts = [
            fork.Process(target=_host, args=(lane, first + core, tasks[core :: args.cores], ends))
            for core in range(args.cores)
        ]
        for host in hosts:
            host.start()
        try:
            running = {host.sentinel for host in hosts}
            while running:
                running -= (ended := {*connection.wait(running, PROGRESS_S)})
                if not (running and ended):
                    print(_progress(lane), file=sys.stderr)
        except KeyboardInterrupt:
            for host in hosts:
                host.join()
            raise


def _progress(lane: Lane) -> str:
    """How many graphs a path has run so far, and how many failed."""
    results = lane.ended()
    graphs = sum(sum(result.get("counts", {}).values()) for result in results)
    kinds = [failed["kind"] for result in results for failed in result.get("failures", ())]
    reduced = sum("reduced" in result for result in results)
    return f"{time.strftime('%H:%M:%S')} {lane.name}: {graphs} graphs, {len(kinds)} failures of {len(set(kinds))} kinds, {reduced} reductions"


def _host(lane: Lane, core: int, tasks: Sequence[dict[str, Any]], until: float) -> None:
    """Run the tasks of a core, which is its number among all parts, under the supervisor."""
    folder = lane.folder / str(core)
    worker = "baselines" if "runtime" in lane.fields else "paths"
    request = StageRequest(f"scripts.tools.fuzz.{worker}", lane.python, {**lane.fields, "until": until})  # fmt: skip
    job = Job("fuzz", lane.name, folder / outcome.STATUS, folder / "log.txt", request.command(folder), TASK_S, MEMORY_MB, request=request)  # fmt: skip
    by_name = {json.dumps(task, sort_keys=True): task for task in tasks}

    def done(line: ProblemEnd) -> None:
        """Note a task that has ended its worker, with what was said; the others are in the journals."""
        if line.outcome.status != outcome.OK:
            task = by_name[line.problem]
            if "model" in task:
                print(line.outcome.detail)
            failed: dict[str, Any] = {"number": task.get("first"), "operators": [], "kind": f"worker {line.outcome.reason}", "status": "crashed", "stage": "worker", "detail": line.outcome.detail}  # fmt: skip
            failed_graphs = [failed] if "first" in task else []
            journal.append(folder / FAILED, {"result": {"done": True, "task": task, "failures": failed_graphs}})  # fmt: skip

    with contextlib.suppress(Interrupted):
        Host(job, folder, done, lambda line: not line.result.get("done")).run(by_name)


def _write(lanes: Sequence[Lane], args: argparse.Namespace) -> None:
    """Write the results, and print the causes."""
    results = [(lane.name, result) for lane in lanes for result in lane.ended()]
    reductions = {(path, r["task"]["name"]): r for path, r in results if "name" in r["task"]}
    passed = [(path, r["task"]["graph"]) for path, r in results if r.get("status") == outcome.OK]

    def right_on(cause: Cause) -> list[str]:
        """The other lowering paths on which the reduced graph of a cause does not fail."""
        return [path for path, graph in passed if graph == cause.reduced.get("graph")]

    slow = triage.slow((path, r) for path, r in results if "timed" in r["task"])
    reductions |= {name: dict(result) for name, (_, result) in slow.items()}
    failed = [*failures(lanes), *(failure for failure, _ in slow.values())]
    causes = triage.causes(failed, reductions, known_failures.read_known(), right_on)
    counts: Counter[tuple[str, str]] = Counter()
    for path, result in results:
        counts.update({(path, status): n for status, n in result.get("counts", {}).items()})
    records = rows.records(causes, {lane.name: lane.folder for lane in lanes})
    try:
        rows.ROW_SET.write(rows.of_causes(records, counts), args.results)
    except OSError as error:
        exits.fail(f"{args.results}: {error}; give another folder by --results")
    print(as_text(rows.sections(records, counts)), end="")
    print(args.results / "fuzz.csv")


if __name__ == "__main__":
    commands.run(main)
