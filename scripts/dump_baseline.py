"""Dump what a baseline did: profiles, XLA's metrics and IR, dynamo's counters, by repetition.

Into <out-folder>/<repetition>/, so far as the runtime has it: profile.txt and trace.json (PyTorch's
profiler), xla_metrics.txt, ir.txt (text, hlo or stablehlo), dynamo_counters.json; and the profiles of
all repetitions one after the other as <out-folder>/profile.txt. Nothing here is timed for a row.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.lib.baseline.arguments import Work, argument_parser, prepare_process, work
from scripts.lib.baseline.runtime import open_runtime, settle
from scripts.lib.config.choices import BASELINE_DUMPS, IR_FORMATS
from scripts.lib.core import atomic, channel, exits
from scripts.lib.report.dumping import TABLES, clear, listing
from scripts.lib.timing.calls import run_calls
from scripts.lib.verification import arguments as check_arguments
from scripts.lib.verification.arguments import Check


@dataclass(frozen=True)
class Wanted:
    """What to write: `kinds` of choices.BASELINE_DUMPS, into a folder for each of `repeat` repetitions."""

    kinds: list[str]
    repeat: int
    iterations: int
    folder: Path


def main() -> None:
    parser = argument_parser("scripts.dump_baseline", __doc__)
    parser.add_argument(
        "--kinds", default=json.dumps(BASELINE_DUMPS), type=json.loads, help="JSON list"
    )
    parser.add_argument("--save-ir", default="stablehlo", choices=IR_FORMATS)
    parser.add_argument("--repeat", default=1, type=int, help="repetitions, a folder each")
    parser.add_argument("--iterations", default=1, type=int, help="calls a repetition")
    parser.add_argument("--out-folder", required=True, type=Path)
    parser.add_argument("--out-listing", required=True, type=Path, help="JSON: file to bytes")
    args = parser.parse_args()
    wanted = Wanted(args.kinds, args.repeat, args.iterations, args.out_folder)
    with tempfile.TemporaryDirectory(dir=args.out_listing.parent, prefix="dump-") as folder:
        scratch = Path(folder).absolute()
        cell = work(args, scratch)
        prepare_process(cell)
        if cell.program:
            exits.fail(
                f"{cell.runtime} runs a program, of which PyTorch's profiler sees nothing",
                exits.UNSUPPORTED,
            )
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch)
        saved = scratch / "ir"
        # PyTorch/XLA reads both once, and appends each graph that it runs or compiles.
        os.environ["XLA_SAVE_TENSORS_FILE"] = str(saved)
        os.environ["XLA_SAVE_TENSORS_FMT"] = args.save_ir
        dump(cell, check_arguments.check(args), wanted, saved)
    atomic.write_json(args.out_listing, listing(args.out_folder))


def dump(cell: Work, check: Check, wanted: Wanted, saved: Path) -> None:
    """Run the repetitions, each under the profiler, and write what they leave.

    `saved`: what PyTorch/XLA saves the graphs of a call to.
    """
    from scripts.lib.torch_runtime import profiling

    runtime, device = open_runtime(cell)
    channel.working()
    session = runtime.open_session(cell, check, device)
    clear(wanted.folder)
    tables = []
    for number in range(wanted.repeat):
        folder = wanted.folder / str(number)
        folder.mkdir(parents=True)
        device.clear_metrics()
        _take_ir(saved)
        if "profile" not in wanted.kinds:
            run_calls(session, device, wanted.iterations)
        else:
            taken = profiling.profiled(session, device, wanted.iterations)
            by = "self_cuda_time_total" if device.kind == "cuda" else "self_cpu_time_total"
            table = taken.key_averages().table(sort_by=by, row_limit=500)
            atomic.write_text(folder / "profile.txt", table)
            taken.export_chrome_trace(str(folder / "trace.json"))
            tables.append(f"# repetition {number}\n{table}")
        if "ir" in wanted.kinds and (ir := _take_ir(saved)):
            atomic.write_text(folder / "ir.txt", ir)
        _write_accounts(wanted.kinds, folder, device, profiling.dynamo_counters())
    if tables:
        atomic.write_text(wanted.folder / TABLES, "\n".join(tables))
    settle(runtime)


def _write_accounts(kinds: list[str], folder: Path, device: Any, counters: dict) -> None:
    if "xla_metrics" in kinds and (report := device.metrics_report()):
        atomic.write_text(folder / "xla_metrics.txt", report)
    if "dynamo_counters" in kinds and counters:
        atomic.write_json(folder / "dynamo_counters.json", counters)


def _take_ir(saved: Path) -> str:
    """What PyTorch/XLA has saved since the last time, "" where there is nothing of it."""
    text = ""
    for path in sorted(saved.parent.glob(f"{saved.name}*")):  # one a device: ir.0
        text += path.read_text(encoding="utf-8", errors="replace")
        path.unlink()
    return text


if __name__ == "__main__":
    main()
