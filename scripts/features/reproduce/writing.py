"""Writes the folder of a reproducer, and an archive of it."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from scripts.core import tensors
from scripts.core.tensors import Signature, TensorType
from scripts.features.reproduce import commands, issue
from scripts.features.reproduce.case import COMPILE, Case
from scripts.iree import shell, tuning_spec

SCRIPT = "run.sh"


def write(case: Case, folder: Path, with_weights: bool) -> None:
    """Write the folder of a case, which must not exist. `with_weights`: with the model's own weights, although their
    values do not matter."""
    signature = Signature.read(case.files["signature.json"])
    own_weights = case.stage != COMPILE and (with_weights or case.needs_weights)
    folder.mkdir(parents=True)
    shutil.copyfile(case.files["program"], folder / commands.PROGRAM)
    if tuning_spec.COPY in case.files:
        shutil.copyfile(case.files[tuning_spec.COPY], folder / tuning_spec.COPY)
    if case.stage != COMPILE:
        _write_tensors(folder / "inputs", case.files["inputs.npz"], "", signature.inputs)
        if commands.has_golden(case, signature, own_weights):
            _write_tensors(
                folder / "golden", case.files["golden.npz"], "golden.", signature.outputs
            )
    if own_weights:
        shutil.copyfile(case.files["weights.irpa"], folder / commands.WEIGHTS)
    elif case.stage != COMPILE and signature.parameters:
        (folder / commands.SPLATS).write_text(commands.splats(signature), encoding="utf-8")
    shell.write(
        folder / SCRIPT,
        f"{case.cell}: shows what ISSUE.md says, and exits with the code of the last command.",
        str(case.versions["iree"]),
        commands.steps(case, signature, own_weights),
    )
    log = case.log.read_text(encoding="utf-8", errors="replace") if case.log.is_file() else ""
    log = log.replace(case.program_path, commands.PROGRAM)
    (folder / "log.txt").write_text(log, encoding="utf-8")
    write_issue(case, folder, log)


def write_issue(case: Case, folder: Path, log: str, reduced: str = "") -> None:
    """Write ISSUE.md, with the commands of run.sh."""
    text = issue.text(case, shell.steps(folder / SCRIPT), log, reduced)
    (folder / "ISSUE.md").write_text(text, encoding="utf-8")


def _write_tensors(folder: Path, file: Path, prefix: str, types: tuple[TensorType, ...]) -> None:
    """Write arrays of an .npz as raw bytes, one file each, in the types that the tools expect."""
    folder.mkdir()
    stored = tensors.load_npz(file, prefix)
    for number, kind in enumerate(types):
        tensors.as_native(stored[f"{prefix}{number}"], kind.dtype).tofile(folder / f"{number}.bin")


def pack(folder: Path) -> Path:
    """Write <folder>.tar.zst next to a folder."""
    import zstandard

    archive = folder.with_name(f"{folder.name}.tar.zst")
    with (
        archive.open("wb") as out,
        zstandard.ZstdCompressor(level=10).stream_writer(out) as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as tar,
    ):
        tar.add(folder, arcname=folder.name, filter=_plain)
    return archive


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without the names and numbers of this machine's users."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
