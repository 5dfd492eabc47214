"""Writes the folder of a reproducer with the bare commands of IREE's tools, adds the smallest case of its failure, and packs it."""

from __future__ import annotations

import dataclasses
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.config import stages
from scripts.config.cell import Cell, Kind
from scripts.core import atomic, private, tensors
from scripts.core.tensors import PARAMETER_SCOPE, Signature, TensorType
from scripts.iree import compile_options, shell
from scripts.iree.backends import allocator_flags
from scripts.iree.session import runtime_flags
from scripts.results import wording
from scripts.run.recorded import NoCase, recorded
from scripts.supervise import outcome
from scripts.tools.profile import compile_page
from scripts.tools.reproduce import case as cases
from scripts.tools.reproduce import issue, mismatch
from scripts.tools.reproduce.case import COMPILE, TIME, WRONG_RESULT, Case
from scripts.tools.reproduce.reduced_program import REDUCED, REDUCTION

SCRIPT, LOG = "run.sh", "log.txt"
PROGRAM, WEIGHTS = "program.mlir", "weights.irpa"
REDUCED_SCRIPT = "run_reduced.sh"
EXECUTABLE, EXECUTABLE_SCRIPT = "executable.mlir", "run_executable.sh"
"""Of a compilation that reaches a limit: the source of the executable that does so alone, and what compiles it."""
RIGHT = {"onnx_importer": "ONNX Runtime", "as_it_is": "its golden results"}
"""What results are compared with, by exporter, where that is not PyTorch."""
SPLATS = "weights.flags"
"""Flags of iree-create-parameters, one per weight."""
SPLAT = "0.01"
"""The value of all weights where their own values do not matter."""


def write(case: Case, folder: Path, with_weights: bool) -> None:
    """Write the folder of a case, which must not exist. `with_weights`: with the model's own weights, although their
    values do not matter. Raises NoCase."""
    with tempfile.TemporaryDirectory(prefix="case-") as files:
        _write(cases.with_files(case, Path(files)), folder, with_weights)


def _write(case: Case, folder: Path, with_weights: bool) -> None:
    signature = Signature.read(case.files["signature.json"])
    runs = case.ended.stage != COMPILE
    own_weights = runs and (with_weights or case.ended.reason == WRONG_RESULT)
    # Golden outputs are those of eager mode with the model's own weights.
    has_golden = runs and case.compares_values and (own_weights or not signature.parameters)
    folder.mkdir(parents=True)
    for name in (PROGRAM, compile_options.SPEC_COPY, *([WEIGHTS] if own_weights else [])):
        if name in case.files:
            shutil.copyfile(case.files[name], folder / name)
    if runs:
        _write_tensors(folder / "inputs", case.files["inputs.npz"], "", signature.inputs)
    if has_golden:
        _write_tensors(folder / "golden", case.files["golden.npz"], "golden.", signature.outputs)
    steps = [compiling(case, PROGRAM, "module.vmfb")]
    if runs and signature.parameters and not own_weights:
        splats = ""
        for weight in signature.parameters:
            value = SPLAT if weight.dtype.startswith(("float", "bfloat")) else "1"
            splats += f"--splat={weight.name}={weight.iree}={value}\n"
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
    log = re.sub(rf"\S+/{PROGRAM}\b", PROGRAM, log)
    (folder / LOG).write_text(log, encoding="utf-8")
    _write_hanging(case, folder)
    write_issue(case, folder)


def _write_hanging(case: Case, folder: Path) -> None:
    """Write the executables that reach the limits by themselves, and what compiles the first of them."""
    for number, source in enumerate(case.hanging.values()):
        (folder / (EXECUTABLE if number == 0 else f"executable_{number}.mlir")).write_text(
            source, encoding="utf-8"
        )
    if case.hanging:
        compiler, *words = compiling(case, EXECUTABLE, "executable.bin")
        shell.write(
            folder / EXECUTABLE_SCRIPT,
            f"{case.cell}: the executable {next(iter(case.hanging))} alone, which does not compile within the limits.",
            str(case.versions["iree"]),
            [[compiler, "--compile-mode=hal-executable", *words]],
        )


def compiling(case: Case, program: str, module: str) -> list[str]:
    """The command that compiles a program with the flags of a case."""
    return ["iree-compile", *compile_options.flags_in_bundle(case.flags), program, "-o", module]


def _calling(case: Case, signature: Signature, has_golden: bool) -> list[str]:
    """The command that shows what the module does: it times calls, or makes one and compares its results."""
    call = [
        "--module=module.vmfb",
        *([f"--parameters={PARAMETER_SCOPE}={WEIGHTS}"] if signature.parameters else []),
        "--function=main",
        f"--device={case.device}",
        *(runtime_flags(case.device, case.threads) if case.threads else []),
        *(f"--input={tensor.iree}=@inputs/{n}.bin" for n, tensor in enumerate(signature.inputs)),
    ]
    if case.ended.status == outcome.OK or case.ended.stage == TIME:
        times = ["--benchmark_min_warmup_time=0.5", "--benchmark_repetitions=10"]
        return ["iree-benchmark-module", *call, *allocator_flags(case.device), *times]
    if not has_golden:
        return ["iree-run-module", *call, "--output="]
    golden = enumerate(signature.outputs)
    call += [f"--expected_output={tensor.iree}=@golden/{n}.bin" for n, tensor in golden]
    return ["iree-run-module", *call, f"--expected_f32_threshold={case.tol or 1e-3:g}"]


def _write_tensors(folder: Path, file: Path, prefix: str, types: tuple[TensorType, ...]) -> None:
    """Write arrays of an .npz as raw bytes, one file each, in the types that the tools expect."""
    folder.mkdir()
    stored = tensors.load_npz(file, prefix)
    for number, kind in enumerate(types):
        tensors.as_native(stored[f"{prefix}{number}"], kind.dtype).tofile(folder / f"{number}.bin")


def _milliseconds(latency: Mapping[str, Any]) -> str:
    """Return `3.1 ms (99 % interval: 3 to 3.2)`, or the latency alone if it has no interval."""
    low, high = latency["low_ms"], latency["high_ms"]
    interval = f" (99 % interval: {low:.3g} to {high:.3g})" if low is not None else ""
    return f"{latency['ms']:.3g} ms{interval}"


def write_issue(case: Case, folder: Path) -> None:
    """Write the issue of a case beside its run.sh and log. It has the reduced program of the folder, if there is one."""
    if case.ended.stage == COMPILE:
        what = "does not compile"
    elif case.ended.reason == WRONG_RESULT:
        what = f"compiles, but computes other values than {RIGHT.get(case.exporter, 'PyTorch in eager mode')}"
    elif case.ended.status == outcome.OK:
        what = f"takes {_milliseconds(case.latency)} per call" if case.latency else "runs"
    else:
        what = f"compiles, and fails when it runs ({case.ended.status})"
    log = issue.clipped((folder / LOG).read_text(encoding="utf-8"), case.ended.detail)
    of_file = (
        "A program"
        if case.golden
        else f"A program that {case.exporter} exported (input dialect: {case.dialect})"
    )
    happened = f"{of_file} {what}:\n\n{issue.fenced('text', log)}"
    script, whole = SCRIPT, ""
    if reduced := described_reduction(folder):
        happened += f"\n\n{reduced}"
        script, whole = REDUCED_SCRIPT, f" (`./{SCRIPT}`: with the whole program)"
    if case.hanging:
        first, *others = case.hanging
        happened += (
            f"\n\nThe executable `{first}` (`{EXECUTABLE}`) does so when it is compiled alone."
        )
        if others:
            happened += f" Others that do: {', '.join(f'`{name}`' for name in others)}."
        script, whole = EXECUTABLE_SCRIPT, f" (`./{SCRIPT}`: with the whole program)"
    versions = dict(case.versions)
    context = f"Cell `{case.cell}` of vmfbench: {case.ended.status} ({case.ended.reason or 'no failure'})."
    if case.owner:
        context += f"\n\nLikely owner: {case.owner.name}. {case.owner.evidence}"
    issue.write(
        folder,
        case.owner.tracker if case.owner else issue.IREE,
        f"[{case.ended.reason or case.ended.status}] {issue.shortened(case.ended.detail, case.cell)}",
        {
            "What happened?": happened,
            "Steps to reproduce your issue": f"`./{script}` in the attached folder does this, with nothing but the wheels of IREE{whole}:\n\n"
            + issue.fenced("sh", shell.steps(folder / script)),
            "Version information": issue.listed(
                {case.exporter if name == "frontend" else name: versions[name] for name in versions}
            ),
            "Additional context": context,
        },
    )


def described_reduction(folder: Path) -> str:
    """What an issue says of the reduced program in the folder of a bundle: its text, the opt levels, and the values if they are
    wrong; "" if there is none."""
    if not (folder / REDUCED).is_file():
        return ""
    report = atomic.read_json(folder / REDUCTION)
    program = (folder / REDUCED).read_text(encoding="utf-8")
    parts = [
        f"Reduced from {report['of']} operations to few that fail in the same way:",
        issue.fenced("mlir", program),
    ]
    if levels := report["opt_levels"]:
        table = wording.table(("--iree-opt-level", "reduced program"), levels.items())
        parts.append(f"With the other flags as below:\n\n{table.strip()}")
    if right := mismatch.saved(folder, "expected"):
        n = report["output"]
        inputs, wrong = mismatch.saved(folder, "input"), mismatch.saved(folder, "computed")
        parts.append(issue.values(inputs, right[n], wrong[n], ("right (O0)", "computed")))
    return "\n\n".join(parts)


def add_reduced(case: Case, folder: Path, budget_s: float) -> None:
    """Add the reduced program of a case to its bundle and to the issue, or a note why there is none. Of wrong results, a wrong operator
    of the frontend comes first; of a compilation that reached a limit, it is the executable that does so alone."""
    try:
        if cases.is_stopped(case.ended):
            _add_hanging(case, folder, budget_s)
        elif not _has_wrong_operator(case, folder, budget_s):
            _reduce(case, folder, budget_s)
    except NoCase as error:
        print(f"note: {case.cell}: {error}")


def _reduce(case: Case, folder: Path, budget_s: float) -> None:
    """Reduce a failure to compile, or wrong results on a CPU. Raises NoCase."""
    ended, mode = case.ended, dict[str, Any]()
    if ended.reason == WRONG_RESULT and case.threads:
        mode = {"right_flags": case.right_flags, "device": case.device, "threads": case.threads}
    elif ended.stage != COMPILE or ended.status not in outcome.FAILED:
        why = f" ({ended.reason})" if ended.reason else f" on {case.device}"
        raise NoCase(
            "only failures to compile and wrong results on a CPU are reduced; "
            f"this is {ended.stage}: {ended.status}{why}"
        )
    place = folder.absolute()
    fields = {"program": place / PROGRAM, "flags": case.flags, "budget": budget_s, **mode}
    if case.compilation.run("scripts.tools.reproduce.reduce_program", fields, place) != 0:
        raise NoCase("it was not reduced; the messages above say why")
    steps = [compiling(case, REDUCED, "reduced.vmfb")]
    inputs, outputs = (len(mismatch.saved(folder, name)) for name in ("input", "expected"))
    if outputs:
        largest = atomic.read_json(place / REDUCTION)["largest_value"]
        steps.append(
            [
                *mismatch.calling("reduced.vmfb", case.device, inputs, outputs, largest),
                *runtime_flags(case.device, case.threads or 1),
            ]
        )
    shell.write(
        folder / REDUCED_SCRIPT,
        f"{case.cell}: the few operations of {REDUCED}, which fail in the same way.",
        str(case.versions["iree"]),
        steps,
    )
    write_issue(case, folder)


def _add_hanging(case: Case, folder: Path, budget_s: float) -> None:
    """Compile each executable alone, `budget_s` seconds at most, if that was not done yet, and add those that reach that limit. Raises
    NoCase."""
    if case.hanging:
        return
    if case.golden:
        raise NoCase("executables that hang are looked for in compilations of targets")
    fields = {
        **case.compilation.request.fields,
        "locations": stages.STAGES["export"].path(case.exported, "locations.json"),
        "compiled": stages.status_path(COMPILE, case.module),
        "limit_s": budget_s,
    }
    with tempfile.TemporaryDirectory() as scratch:
        if (
            case.compilation.run("scripts.tools.profile.profile_compile", fields, Path(scratch))
            != 0
        ):
            raise NoCase("its executables were not compiled; the messages above say why")
        compiled = atomic.read_json(Path(scratch, compile_page.FILE))
    times = compile_page.CompileTime(Cell.parse(case.cell, Kind.IREE), compiled)
    print(compile_page.page(times))
    case = dataclasses.replace(case, hanging=times.hanging)
    _write_hanging(case, folder)
    write_issue(case, folder)


def _has_wrong_operator(case: Case, folder: Path, budget_s: float) -> bool:
    """Whether an operator is wrong in the captured graph of a case with wrong results, unless its program is known to be right. It is looked
    for in the environment of its frontend, and written. Raises NoCase."""
    if case.ended.reason != WRONG_RESULT:
        return False
    if case.exported.dynamic:
        raise NoCase(
            "wrong results of programs for all sizes are not reduced; that for one size may be wrong too"
        )
    if case.owner and case.owner.is_program_right:
        return False
    try:
        export = recorded(case.root, "export", str(case.exported))
        fields = export.request.only(*cases.MODEL, "exporter", "exporter_options")
        fields["budget"] = budget_s
        return (
            export.run("scripts.tools.reproduce.find_wrong_operator", fields, folder.absolute())
            == 0
        )
    except NoCase as error:
        print(f"note: {case.cell}: {error}")
        return False


def pack(folder: Path) -> Path:
    """Write <folder>.tar.zst next to a folder. Neither has what identifies this machine and its users (core/private.py)."""
    import zstandard

    private.clean(folder)

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
