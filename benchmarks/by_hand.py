"""Run the iree-benchmark-module command of every verified IREE row, and compare its median with the row's latency.

The columns at the end say by how much the generations of the row differ, and the repetitions by hand. The row's latency is that of
calls that nothing disturbed, and in other seconds, so the ratio may be a little above 1.

python -m benchmarks.by_hand --cell 'conv/*' --cell 'resnet/*/llvm-cpu'
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path

from scripts.config import cell
from scripts.core import commands
from scripts.iree import session
from scripts.results.results_file import cell_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_hand", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/results.jsonl"))
    commands.add_cell_option(parser)
    args = parser.parse_args()
    wanted = args.cell or ["*/*/llvm-cpu"]
    print(
        f"{'cell':44} {'row ms':>10} {'by hand ms':>10} {'ratio':>7} {'row within':>10} {'by hand':>10}"
    )
    for line in args.results.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        name, latency = str(cell_of(record)), record["latency"]
        if latency and record["run"]["command"] and cell.selects(wanted, name):
            again = measure(record["run"]["command"])
            row, by_hand = latency["ms"], statistics.median(again)
            within = [max(of) / min(of) - 1 for of in (latency["values_ms"], again)]
            print(
                f"{name:44} {row:10.3f} {by_hand:10.3f} {by_hand / row:7.3f} {within[0]:10.1%} {within[1]:10.1%}"
            )


def measure(command: str) -> list[float]:
    """Ten repetitions of the recorded command."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--benchmark_min_warmup_time=0.2", "--benchmark_min_time=0.1s", "--benchmark_repetitions=10"]  # fmt: skip
        output = [f"--benchmark_out={report}", "--benchmark_out_format=json"]
        subprocess.run([*shlex.split(command), *options, *output], check=True, capture_output=True)
        return session.read_ms(report)


if __name__ == "__main__":
    main()
