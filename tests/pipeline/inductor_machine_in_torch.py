"""Prints, as JSON, what inductor finds in the machine's folder and what it leaves there. Runs in the environment `torch-mlir`."""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch

from scripts.baselines import inductor
from scripts.core import process, temporary


def in_own_folder(machine: str, in_sandbox: bool = False) -> dict[str, list[str]]:
    """Prepare inductor in a process with a TMPDIR of its own; the libraries that asking the compiler leaves there, and the headers that were
    made there, in place of a link. `in_sandbox`: without writing to the machine's folder, and a kernel is compiled too."""

    def prepared() -> bytes:
        os.environ |= {"TMPDIR": own, temporary.MACHINE: machine}
        tempfile.tempdir = None
        if in_sandbox:
            os.access = lambda *_: False
        inductor.prepare_machine()
        found = {"asked": [path.name for path in Path(own).rglob("*.so")]}
        if in_sandbox:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{own}/cache"
            with torch._inductor.config.patch(compile_threads=1):
                torch.compile(torch.tanh)(torch.rand(64))
        headers = [path for path in Path(own).rglob("*.gch") if not path.is_symlink()]
        return json.dumps(found | {"made": [path.name for path in headers]}).encode()

    with tempfile.TemporaryDirectory() as own:
        code, said = process.forked(prepared)
        assert code == 0
        return json.loads(said)


with tempfile.TemporaryDirectory() as machine:
    first = in_own_folder(machine)
    [folder] = Path(machine).iterdir()
    kept = [path.name for path in folder.glob("*.gch")]
    again = in_own_folder(machine)
    sandboxed = in_own_folder(machine, in_sandbox=True)
    folder.chmod(0o777)
    unsafe = in_own_folder(machine)
json.dump(
    {"first": first, "kept": kept, "again": again, "sandboxed": sandboxed, "unsafe": unsafe},
    sys.stdout,
)
