"""Delete files that runs leave on the disk, one step at a time; docs/disk.md explains the steps."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import psutil

from scripts.config.cell import EntryName
from scripts.config.stages import STAGES
from scripts.core import checkout, commands, exits
from scripts.run import environments, progress
from scripts.tools import registry

FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "dumps": {
        "dump_iree": ("",),
        "profile": ("",),
        "read_code": ("",),
        "profile_compile": ("",),
    },
    "weights": {
        "reference": ("weights.irpa", "inputs.npz", "golden.npz"),
        "gradients": ("weights.irpa", "inputs.npz", "golden.npz"),
        "verify": ("*/*/inputs",),
        "baseline": ("*/*/cache/converted",),
    },
}
"""By step and stage: globs of the files to delete in a model's folder; "" is the folder itself."""
ENVS = "envs"


def main() -> int:
    registry.load()
    parser = argparse.ArgumentParser(prog="python -m scripts.stages.clean", description=__doc__)
    parser.add_argument("step", choices=(*FILES, ENVS))
    parser.add_argument("--models", nargs="*", default=[], help="of these alone; default: of all")
    args = parser.parse_args()
    lock = no_other_run()
    if args.step == ENVS and not (checkout.is_here() or checkout.shared_environments()):
        exits.fail(
            f"the environments are shared by the runs of all folders: run it in {checkout.ROOT}"
        )
    paths = list(environment_folders() if args.step == ENVS else files(args.step, args.models))
    if args.step == ENVS and (users := using(paths)):
        exits.fail(
            f"process {users[0]} of a run in another folder uses them; wait for it or stop it"
        )
    freed = sum(map(delete, paths))
    print(f"{args.step}: {len(paths)} files and folders deleted, {freed / 1e6:,.0f} MB")
    if lock is not None:
        lock.close()
    return 0


def files(step: str, models: Sequence[str]) -> Iterator[Path]:
    """Yield the files that a step deletes for these models, or for all models if none is given."""
    for stage, globs in FILES[step].items():
        root = Path("results", STAGES[stage].folder)
        named = [root / model for model in models if (root / model).exists()]
        for folder in named if models else sorted(root.glob("*")):
            for pattern in globs:
                yield from sorted(folder.glob(pattern)) if pattern else [folder]


def environment_folders() -> Iterator[Path]:
    """Yield the folders of the stages' environments, also those of toolchains, without the driver's environment."""
    for file in sorted((checkout.ROOT / "envs").glob("*.yaml")):
        folder = Path(environments.prefix(file.stem))
        folders = [folder, *sorted(folder.parent.glob(str(EntryName(folder.name, toolchain="*"))))]
        yield from (path for path in folders if path.is_dir())


def using(folders: Iterable[Path]) -> list[int]:
    """The processes with one of the folders in their command line, as stages and those that start them have."""
    beginnings = tuple(str(folder.absolute()) for folder in folders)
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(word.startswith(beginnings) for word in process.info["cmdline"] or ())
    ]


def delete(path: Path) -> int:
    """Delete a file, link or folder; return the number of bytes that it used on the disk."""
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
    freed = sum(file.lstat().st_blocks * 512 for file in (path, *inside))
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    return freed


def no_other_run() -> TextIO | None:
    """Return the lock of the results, which prevents runs from starting while it is open.

    Returns None inside the run that holds the lock. Exits if another run holds it.
    """
    try:
        return progress.take_lock()
    except progress.OtherRunError as error:
        if error.holder in {str(parent.pid) for parent in psutil.Process().parents()}:
            return None
        exits.fail(str(error))


if __name__ == "__main__":
    commands.run(main)
