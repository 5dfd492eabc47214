"""Run every verified IREE row's iree-benchmark-module command again and compare the medians.

python -m benchmarks.by_hand --cell 'conv/*' --cell 'resnet/*/llvm-cpu'
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tempfile
from pathlib import Path

from scripts.lib.config import cell
from scripts.lib.iree import gbench
from scripts.lib.report.results_file import cell_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_hand", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/results.jsonl"))
    cell.add_arguments(parser)
    args = parser.parse_args()
    wanted = args.cell or ["*/*/llvm-cpu"]
    print(f"{'cell':44} {'row ms':>10} {'by hand ms':>10} {'ratio':>7} {'cv of both':>14}")
    for line in args.results.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        name, latency = str(cell_of(record)), record["latency"]
        if latency and record["run"]["command"] and cell.selects(wanted, name):
            again = measure(record["run"]["command"])
            row = latency["median_ms"]
            spread = " / ".join(f"{cv or 0:.1%}" for cv in (latency["cv"], again.cv))
            print(
                f"{name:44} {row:10.3f} {again.median:10.3f} {again.median / row:7.3f} {spread:>14}"
            )


def measure(command: str) -> gbench.Latency:
    """The recorded command as it stands, its JSON read."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        output = [f"--benchmark_out={report}", "--benchmark_out_format=json"]
        subprocess.run([*shlex.split(command), *output], check=True, capture_output=True)
        return gbench.read_latency(report)


if __name__ == "__main__":
    main()
