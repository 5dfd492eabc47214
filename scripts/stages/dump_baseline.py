"""Write what a baseline did: profiles, XLA's metrics and IR, dynamo's counters, for each repetition.

The files are in <out-folder>/<repetition>/, as far as the runtime provides them: profile.txt and
trace.json (PyTorch's profiler), xla_metrics.txt, ir.txt (text, hlo or stablehlo; ir.<format>.txt if
several formats are requested), hlo_modules/ (what XLA compiled, before and after its passes) and
dynamo_counters.json. <out-folder>/profile.txt has the profiles of all repetitions. Nothing here is
timed for a row.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.core import atomic, commands, exits, process
from scripts.core.commands import option
from scripts.features.profile import dumping
from scripts.matrix.choices import BASELINE_DUMPS, IR_FORMATS
from scripts.timing.calls import run_calls
from scripts.torch_runtime.arguments import Work, prepare_process
from scripts.torch_runtime.runtime import open_runtime, settle

IR = "ir.txt"
SAVED_IR, SAVED_HLO, INDUCTOR = "ir", "hlo", "inductor-cache"
"""In the scratch folder: what the names of the files begin with in which PyTorch/XLA saves the graphs of a call,
the folder in which XLA saves the modules that it compiles, and inductor's cache. (The folders in that have two letters of a
hash, so "ir" may be among them.)"""


def _formats(text: str) -> list[str]:
    """The formats that `--save-ir` names. argparse reports a wrong one."""
    formats = json.loads(text) if text.startswith("[") else [text]
    if unknown := [name for name in formats if name not in IR_FORMATS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: one of {', '.join(IR_FORMATS)}")
    return formats


@dataclass(frozen=True, kw_only=True)
class Options(dumping.Out):
    work: Work
    kinds: Sequence[str] = option(BASELINE_DUMPS, help='JSON list, such as ["profile", "ir"]')
    save_ir: Sequence[str] = option(
        ("stablehlo",), type=_formats, help='a format, or a JSON list: ["hlo", "text"]'
    )
    repeat: int = option(1, help="repetitions; each has a folder")
    iterations: int = option(1, help="calls per repetition")


def main() -> None:
    args = commands.parse_options(Options)
    cell = args.work
    with tempfile.TemporaryDirectory(dir=args.out_listing.parent, prefix="dump-") as folder:
        scratch = Path(folder).absolute()
        prepare_process(cell)
        if cell.program:
            exits.fail(
                f"{cell.runtime} runs a program, of which PyTorch's profiler sees nothing",
                exits.UNSUPPORTED,
            )
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / INDUCTOR)
        # PyTorch/XLA and XLA read these settings once, on import.
        os.environ["XLA_SAVE_TENSORS_FILE"] = str(scratch / SAVED_IR)
        os.environ["XLA_SAVE_TENSORS_FMT"] = args.save_ir[0]
        if "hlo_modules" in args.kinds:
            # After the baseline's own flags: if a flag is given twice, the last one counts.
            flags = f"--xla_dump_to={scratch / SAVED_HLO} --xla_dump_hlo_as_text"
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
        dump(args, scratch)
        if len(args.save_ir) > 1 and (args.out_folder / "0" / IR).exists():
            _dump_other_formats(args, scratch)
    atomic.write_json(args.out_listing, dumping.listing(args.out_folder))


def dump(args: Options, scratch: Path) -> None:
    """Run the repetitions, each under the profiler, and write their files."""
    from scripts.torch_runtime import profiling

    runtime, device = open_runtime(args.work)
    commands.report_working()
    session = runtime.open_session(args.work, device)
    dumping.clear(args.out_folder)
    tables = []
    for number in range(args.repeat):
        folder = args.out_folder / str(number)
        folder.mkdir(parents=True)
        device.clear_metrics()
        _take_ir(scratch)
        shutil.rmtree(scratch / SAVED_HLO, ignore_errors=True)
        if "profile" not in args.kinds:
            run_calls(session, device, args.iterations)
        else:
            profiled = profiling.profiled(session, device, args.iterations)
            by = "self_cuda_time_total" if device.kind == "cuda" else "self_cpu_time_total"
            table = profiled.key_averages().table(sort_by=by, row_limit=500)
            atomic.write_text(folder / "profile.txt", table)
            profiled.export_chrome_trace(str(folder / "trace.json"))
            tables.append(f"# repetition {number}\n{table}")
        if "ir" in args.kinds and (ir := _take_ir(scratch)):
            atomic.write_text(folder / IR, ir)
        # XLA's LLVM IR and object files stay behind.
        for path in sorted((scratch / SAVED_HLO).glob("*.txt")):
            (folder / "hlo_modules").mkdir(exist_ok=True)
            shutil.move(path, folder / "hlo_modules" / path.name)
        if "xla_metrics" in args.kinds and (report := device.metrics_report()):
            atomic.write_text(folder / "xla_metrics.txt", report)
        if "dynamo_counters" in args.kinds and (counters := profiling.dynamo_counters()):
            atomic.write_json(folder / "dynamo_counters.json", counters)
    if tables:
        atomic.write_text(args.out_folder / dumping.TABLES, "\n".join(tables))
    settle(runtime)


def _take_ir(scratch: Path) -> str:
    """What PyTorch/XLA has saved since the last call of this function; "" if nothing."""
    text = ""
    for path in sorted(scratch.glob(f"{SAVED_IR}*")):  # one a device: ir.0
        text += path.read_text(encoding="utf-8", errors="replace")
        path.unlink()
    return text


def _dump_other_formats(args: Options, scratch: Path) -> None:
    """Write the IR in each further format with a process of its own: PyTorch/XLA reads the format once.

    The files are then named after their formats.
    """
    # Without the supervisor's channel: the supervisor has already answered this stage's request.
    variables = {k: v for k, v in os.environ.items() if k != commands.CHANNEL_VARIABLE}
    first, *others = args.save_ir
    for name in others:
        folder = scratch / f"format-{name}"
        command = [
            *(sys.executable, "-m", "scripts.stages.dump_baseline", *sys.argv[1:]),
            *("--kinds", '["ir"]', "--save-ir", name, "--out-folder", str(folder)),
            *("--out-listing", str(scratch / f"{name}.json")),
        ]
        if (ended := subprocess.run(command, env=variables, check=False)).returncode:
            process.exit_like(ended.returncode)
        _name_by_format(args, folder, name)
    _name_by_format(args, args.out_folder, first)


def _name_by_format(args: Options, folder: Path, ir_format: str) -> None:
    """Move the IR of each repetition from `folder` to its destination, named after its format.

    A repetition that traced no new graph has no IR.
    """
    for number in range(args.repeat):
        ir = folder / str(number) / IR
        if ir.exists():
            os.replace(ir, args.out_folder / str(number) / f"ir.{ir_format}.txt")


if __name__ == "__main__":
    main()
