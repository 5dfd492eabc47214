"""Measure what the static columns cost: the CPU seconds of the compilations of a run for GPUs, with and without them, in turns.

Run it in the folder of a run that has compiled for GPUs, with the Python of the environment `iree`.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from scripts.core import requests
from scripts.iree.backends import BACKENDS
from scripts.iree.compile_options import CompileRequest
from scripts.iree.tools import tool
from scripts.tools.gpu_static import facts


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.static_columns_cost", description=__doc__
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--turns", type=int, default=1, help="of each compilation, both ways")
    args = parser.parse_args()
    without_s, with_s, count = defaultdict[str, float](float), defaultdict[str, float](float), defaultdict[str, int](int)  # fmt: skip
    for module in sorted((args.results / "compile").glob("*/*/*/module.vmfb")):
        request = requests.decode(CompileRequest, requests.read(module.parent).fields)
        if BACKENDS[request.backend].device_kind == "cpu" or not module.stat().st_size:
            continue
        count[request.backend] += 1
        ways = [False, True] * args.turns
        random.shuffle(ways)
        for has_columns in ways:
            sums = with_s if has_columns else without_s
            sums[request.backend] += _compile_s(request, has_columns) / args.turns
    for backend, number in count.items():
        more = with_s[backend] - without_s[backend]
        print(f"{backend}: {number} programs: {without_s[backend]:.1f} CPU s without, {more:+.1f} with the columns")  # fmt: skip


def _compile_s(request: CompileRequest, has_columns: bool) -> float:
    """The CPU seconds of a compilation and of what is read from it."""
    flags = request.compiler_flags()
    before = _cpu_s()
    with tempfile.TemporaryDirectory(prefix="vmfbench-cost-") as folder:
        command = [tool("iree-compile"), *flags, *request.faster_flags(flags), str(request.program), "-o", f"{folder}/module.vmfb"]  # fmt: skip
        if not has_columns:
            _run(command)
        else:
            with facts.dumps(request.backend, Path(folder)) as dumps:
                _run([*command, *dumps.flags])
                dumps.report(request.backend, request.arch)
    return _cpu_s() - before


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def _cpu_s() -> float:
    """CPU seconds of this process and its children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
