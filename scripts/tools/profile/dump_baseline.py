"""Write what a baseline did: profiles, XLA's metrics and IR, dynamo's counters, for each repetition.

The files are in <repetition>/, as far as the runtime provides them: profile.txt and
trace.json (PyTorch's profiler), xla_metrics.txt, ir.txt (text, hlo or stablehlo; ir.<format>.txt if
several formats are requested), hlo_modules/ (what XLA compiled, before and after its passes) and
dynamo_counters.json. profile.txt has the profiles of all repetitions. Nothing here is
timed for a row.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.baselines.sessions.runtime import Work, open_runtime, prepare_process, settle
from scripts.config.choices import BASELINE_DUMPS
from scripts.core import atomic, commands, exits, process, requests
from scripts.core.requests import Folders
from scripts.measure.timing.calls import run_calls
from scripts.tools.profile import dumping

IR = "ir.txt"
SAVED_IR, SAVED_HLO, INDUCTOR = "ir", "hlo", "inductor-cache"
"""In the scratch folder: what the names of the files begin with in which PyTorch/XLA saves the graphs of a call,
the folder in which XLA saves the modules that it compiles, and inductor's cache. (The folders in that have two letters of a
hash, so "ir" may be among them.)"""


@dataclass(frozen=True, kw_only=True)
class BaselineDumpRequest:
    """`kinds`: of dumps, such as `profile`. `save_ir`: formats of the IR. `repeat`: repetitions, each of which has a
    folder. `iterations`: calls per repetition."""

    work: Work
    kinds: Sequence[str] = BASELINE_DUMPS
    save_ir: Sequence[str] = ("stablehlo",)
    repeat: int = 1
    iterations: int = 1


def dump_baseline(args: BaselineDumpRequest, folders: Folders) -> None:
    """Write the dumps, and the list of them. Exits if the runtime cannot be looked into."""
    cell = args.work
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="dump-") as folder:
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
        dump(args, folders.own, scratch)
        if len(args.save_ir) > 1 and (folders.own / "0" / IR).exists():
            _dump_other_formats(args, folders.own, scratch)
    atomic.write_json(folders.results / dumping.LISTING, dumping.listing(folders.own))


def dump(args: BaselineDumpRequest, out: Path, scratch: Path) -> None:
    """Run the repetitions, each under the profiler, and write their files to `out`."""
    from scripts.baselines.sessions import torch_session

    runtime, device = open_runtime(args.work)
    commands.report_working()
    session = runtime.open_session(args.work, device)
    dumping.clear(out)
    tables = []
    for number in range(args.repeat):
        folder = out / str(number)
        folder.mkdir(parents=True)
        device.clear_metrics()
        _take_ir(scratch)
        shutil.rmtree(scratch / SAVED_HLO, ignore_errors=True)
        if "profile" not in args.kinds:
            run_calls(session, device, args.iterations)
        else:
            profiled = torch_session.profiled(session, device, args.iterations)
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
        if "dynamo_counters" in args.kinds and (counters := torch_session.dynamo_counters()):
            atomic.write_json(folder / "dynamo_counters.json", counters)
    if tables:
        atomic.write_text(out / dumping.TABLES, "\n".join(tables))
    settle(runtime)


def _take_ir(scratch: Path) -> str:
    """What PyTorch/XLA has saved since the last call of this function; "" if nothing."""
    text = ""
    for path in sorted(scratch.glob(f"{SAVED_IR}*")):  # one a device: ir.0
        text += path.read_text(encoding="utf-8", errors="replace")
        path.unlink()
    return text


def _dump_other_formats(args: BaselineDumpRequest, out: Path, scratch: Path) -> None:
    """Write the IR in each further format with a process of its own: PyTorch/XLA reads the format once.

    The files are then named after their formats.
    """
    # Without the supervisor's channel: the supervisor has already answered this stage's request.
    variables = {k: v for k, v in os.environ.items() if k != commands.CHANNEL_VARIABLE}
    first, *others = args.save_ir
    for name in others:
        folder = scratch / f"format-{name}"
        request = requests.read(out).replaced(kinds=["ir"], save_ir=[name])
        request = replace(request, python=sys.executable)
        request.write(folder)
        command = request.command(folder)
        if (ended := subprocess.run(command, env=variables, check=False)).returncode:
            process.exit_like(ended.returncode)
        _name_by_format(folder, out, name)
    _name_by_format(out, out, first)


def _name_by_format(folder: Path, out: Path, ir_format: str) -> None:
    """Move the IR of each repetition that traced a new graph from `folder` to `out`, named after its format."""
    for ir in folder.glob(f"[0-9]*/{IR}"):
        os.replace(ir, out / ir.parent.name / f"ir.{ir_format}.txt")


if __name__ == "__main__":
    requests.run(BaselineDumpRequest, dump_baseline)
