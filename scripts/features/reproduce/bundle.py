"""Writes the folder of a reproducer, with the bare commands of IREE's tools, and an archive of it."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from scripts.core import tensors
from scripts.core.archive import SCOPE
from scripts.core.tensors import Signature, TensorType
from scripts.features.reproduce import issue
from scripts.features.reproduce.case import COMPILE, TIME, WRONG_RESULT, Case
from scripts.iree import shell, tuning_spec
from scripts.iree.backends import allocator_flags
from scripts.iree.session import runtime_flags
from scripts.matrix import stages

SCRIPT, LOG = "run.sh", "log.txt"
PROGRAM, WEIGHTS = "program.mlir", "weights.irpa"
SPLATS = "weights.flags"
"""Flags of iree-create-parameters, one per weight."""
SPLAT = "0.01"
"""The value of all weights where their own values do not matter."""


def write(case: Case, folder: Path, with_weights: bool) -> None:
    """Write the folder of a case, which must not exist. `with_weights`: with the model's own weights, although their
    values do not matter."""
    signature = Signature.read(case.files["signature.json"])
    runs = case.stage != COMPILE
    own_weights = runs and (with_weights or case.reason == WRONG_RESULT)
    # Golden outputs are those of eager mode with the model's own weights.
    has_golden = runs and case.compares_values and (own_weights or not signature.parameters)
    folder.mkdir(parents=True)
    for name in (PROGRAM, tuning_spec.COPY, *([WEIGHTS] if own_weights else [])):
        if name in case.files:
            shutil.copyfile(case.files[name], folder / name)
    if runs:
        _write_tensors(folder / "inputs", case.files["inputs.npz"], "", signature.inputs)
    if has_golden:
        _write_tensors(folder / "golden", case.files["golden.npz"], "golden.", signature.outputs)
    steps = [compiling(case, PROGRAM, "module.vmfb")]
    if runs and signature.parameters and not own_weights:
        splats = "".join(f"--splat={one.name}={_splat(one)}\n" for one in signature.parameters)
        (folder / SPLATS).write_text(splats, encoding="utf-8")
        steps.append(["iree-create-parameters", f"--flagfile={SPLATS}", f"--output={WEIGHTS}"])
    if runs:
        steps.append(_calling(case, signature, has_golden))
    shell.write(
        folder / SCRIPT,
        f"{case.cell}: shows what {issue.ISSUE} says, and exits with the code of the last command.",
        str(case.versions["iree"]),
        steps,
    )
    log = case.log.read_text(encoding="utf-8", errors="replace") if case.log.is_file() else ""
    log = log.replace(str(stages.STAGES["export"].path(case.exported, PROGRAM)), PROGRAM)
    (folder / LOG).write_text(log, encoding="utf-8")
    write_issue(case, folder)


def compiling(case: Case, program: str, module: str) -> list[str]:
    """The command that compiles a program with the flags of a case."""
    return ["iree-compile", *tuning_spec.in_bundle(case.flags), program, "-o", module]


def _calling(case: Case, signature: Signature, has_golden: bool) -> list[str]:
    """The command that shows what the module does: it times calls, or makes one and compares its results."""
    call = [
        "--module=module.vmfb",
        *([f"--parameters={SCOPE}={WEIGHTS}"] if signature.parameters else []),
        "--function=main",
        f"--device={case.device}",
        *(runtime_flags(case.device, case.threads) if case.threads else []),
        *(f"--input={one.iree}=@inputs/{n}.bin" for n, one in enumerate(signature.inputs)),
    ]
    if case.status == "ok" or case.stage == TIME:
        times = ["--benchmark_min_warmup_time=0.5", "--benchmark_repetitions=10"]
        return ["iree-benchmark-module", *call, *allocator_flags(case.device), *times]
    if not has_golden:
        return ["iree-run-module", *call, "--output="]
    golden = enumerate(signature.outputs)
    call += [f"--expected_output={one.iree}=@golden/{n}.bin" for n, one in golden]
    return ["iree-run-module", *call, f"--expected_f32_threshold={case.tol or 1e-3:g}"]


def _splat(weight: TensorType) -> str:
    is_float = weight.iree.rpartition("x")[2].startswith(("f", "bf"))
    return f"{weight.iree}={SPLAT if is_float else '1'}"


def _write_tensors(folder: Path, file: Path, prefix: str, types: tuple[TensorType, ...]) -> None:
    """Write arrays of an .npz as raw bytes, one file each, in the types that the tools expect."""
    folder.mkdir()
    stored = tensors.load_npz(file, prefix)
    for number, kind in enumerate(types):
        tensors.as_native(stored[f"{prefix}{number}"], kind.dtype).tofile(folder / f"{number}.bin")


def write_issue(case: Case, folder: Path, reduced: str = "") -> None:
    """Write the issue of a case beside its run.sh and log. `reduced`: the program of few operations that fails in the same
    way, if there is one."""
    if case.stage == COMPILE:
        what = "does not compile"
    elif case.reason == WRONG_RESULT:
        what = "compiles, but computes other values than PyTorch in eager mode"
    elif case.status == "ok":
        what = f"takes {case.latency_ms:.3g} ms per call" if case.latency_ms else "runs"
    else:
        what = f"compiles, and fails when it runs ({case.status})"
    log = issue.clipped((folder / LOG).read_text(encoding="utf-8"), case.detail)
    happened = f"A program that {case.exporter} exported (input dialect: {case.dialect}) {what}:\n\n{issue.fenced('text', log)}"
    small = ""
    if reduced:
        happened += f"\n\nReduced to few operations that fail in the same way:\n\n{issue.fenced('mlir', reduced)}"
        small = " (`./run_reduced.sh`: the reduced program)"
    versions = dict(case.versions)
    issue.write(
        folder,
        issue.IREE,
        f"[{case.reason or case.status}] {issue.shortened(case.detail, case.cell)}",
        {
            "What happened?": happened,
            "Steps to reproduce your issue": f"`./{SCRIPT}` in the attached folder does this, with nothing but the wheels of IREE{small}:\n\n"
            + issue.fenced("sh", shell.steps(folder / SCRIPT)),
            "Version information": issue.listed(
                {case.exporter if name == "frontend" else name: versions[name] for name in versions}
            ),
            "Additional context": f"Cell `{case.cell}` of vmfbench: {case.status} ({case.reason or 'no failure'}).",
        },
    )


def pack(folder: Path) -> Path:
    """Write <folder>.tar.zst next to a folder, without the names and numbers of this machine's users."""
    import zstandard

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    archive = folder.with_name(f"{folder.name}.tar.zst")
    with (
        archive.open("wb") as out,
        zstandard.ZstdCompressor(level=10).stream_writer(out) as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as tar,
    ):
        tar.add(folder, arcname=folder.name, filter=plain)
    return archive
