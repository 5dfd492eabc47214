"""What the code of each dispatch needs of a GPU, as compilers say it: AMD's assembly with its metadata, PTX with what ptxas prints of it, and
modules of MLIR's SPIR-V dialect."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from re import Pattern

from scripts.core import checkout, process
from scripts.iree import assembly

PTXAS = "ptxas"
"""The environment with NVIDIA's assembler, which is optional, and its program."""
LIMIT_S = 120.0
"""Of one run of ptxas."""
REGISTER_BYTES = 4


@dataclass(frozen=True)
class Kernel:
    """The code of a dispatch. `registers`: 32-bit ones of a thread; on AMD with its accumulation registers. `shared_bytes`: local memory of a
    workgroup. `spilled_bytes`: of registers of a thread that are kept in memory; `scratch_bytes`: memory of a thread in all. What no compiler has said
    is None. `matrix`, `fma`: instructions of matrix units, and other multiply-adds. `element`: type of the operands of the
    matrix instructions. `loads`: the bytes that a load of a thread from global memory takes, each size once."""

    registers: int | None
    shared_bytes: int
    spilled_bytes: int | None
    scratch_bytes: int | None
    matrix: int
    fma: int
    element: str
    loads: tuple[int, ...]


@dataclass(frozen=True)
class _Language:
    """What instructions look like: of matrix units (group: their types), multiply-adds, and loads (groups: number of values, and their
    type)."""

    matrix: Pattern[str]
    fma: Pattern[str]
    load: Pattern[str]


_AMD = _Language(
    re.compile(r"^\s*v_(?:mfma|smfmac|wmma|swmmac)_(\S+)", re.MULTILINE),
    re.compile(r"^\s*v_(?:pk_|dual_)?(?:fmac?|mac|mad_mix|fma_mix|dot\w+?)_", re.MULTILINE),
    re.compile(r"^\s*(?:buffer|global|flat)_load_(?:d16_(?:hi_)?)?()([a-z]+(?:x\d|\d+)?)", re.MULTILINE),
)  # fmt: skip
_PTX = _Language(
    re.compile(r"\bmma(?:_async)?\.sync\.(\S+)"),
    re.compile(r"\b(?:fma\.rn|dp4a)\."),
    re.compile(r"\bld\.global[\w.:]*?(?:\.v(\d))?\.([bfus]\d+)\s"),
)
_SPIRV = _Language(
    re.compile(r"CooperativeMatrixMulAdd [^\n]*?x([a-z]+\d+), \w+, MatrixA>"),
    re.compile(r"spirv\.(?:GL\.Fma|CL\.fma|[SU]Dot)\b"),
    re.compile(r'spirv\.Load "StorageBuffer" %\S+(?: \[.*\])? : (?:vector<(\d)x)?([a-z]+\d+)'),
)
_TYPE = re.compile(r"bf16|x?f32|tf32|f64|f16|fp8|bf8|e4m3|e5m2|i?u?8|s8")
_TYPES = {"xf32": "tf32", "bf16": "f16", **dict.fromkeys(("fp8", "bf8", "e4m3", "e5m2"), "f8"), **dict.fromkeys(("u8", "s8", "iu8", "si8"), "i8")}  # fmt: skip
_NARROW = ("i8", "f8", "f16", "tf32", "f32", "f64")
"""The types of operands; those of sums are not narrower."""
_AMD_LOADS = {"byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2, "dword": 4}
_METADATA = re.compile(r"^(?: {4})?\.(\w+): +'?([^\s']+)'?$", re.MULTILINE)
_LOCAL = re.compile(
    r"spirv\.GlobalVariable @\S+ : .*?array<(\d+)(?:, stride=\d+)? x (?:vector<(\d+)x)?[a-z]+(\d+).*, Workgroup>"
)
_ENTRY = re.compile(r'spirv\.EntryPoint "\w+" @"?([\w$.]+)')
_OF_PTXAS = re.compile(
    r"Compiling entry function '(?P<name>[^']+)'.*?(?P<stack>\d+) bytes stack frame, (?P<spilled>\d+) bytes spill stores"
    r".*?Used (?P<registers>\d+) registers(?:[^\n]*? (?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


def kernels(folder: Path, arch: str) -> dict[str, Kernel]:
    """The code of each dispatch, by its name, from the files of the compiler in a folder. `arch`: of ptxas (sm_80)."""
    by_name: dict[str, Kernel] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".rocmasm":
            by_name.update(_of_rocm(path.read_text(encoding="utf-8", errors="replace")))
        elif path.suffix == ".ptx":
            said = assembled(path, arch)
            by_name.update(_of_ptx(path.read_text(encoding="utf-8", errors="replace"), said))
        elif path.name.endswith(assembly.SPIRV):
            by_name.update(_of_spirv(path.read_text(encoding="utf-8")))
    return by_name


def _kernel(text: str, language: _Language, shared_bytes: int, registers: int | None = None, spilled_bytes: int | None = None, scratch_bytes: int | None = None) -> Kernel:  # fmt: skip
    matrix = language.matrix.findall(text)
    types = {_TYPES.get(name, name) for name in _TYPE.findall(" ".join(set(matrix)))}
    element = next((name for name in _NARROW if name in types), "")
    if language is _PTX and element == "f32":
        element = "f16"  # wmma names the types of sums alone
    sizes = {_load_bytes(*load) for load in set(language.load.findall(text))}
    fma = len(language.fma.findall(text))
    return Kernel(registers, shared_bytes, spilled_bytes, scratch_bytes, len(matrix), fma, element, tuple(sorted(sizes)))  # fmt: skip


def _load_bytes(count: str, kind: str) -> int:
    word, _, dwords = kind.partition("x")
    if word in _AMD_LOADS:
        return _AMD_LOADS[word] * int(dwords or 1)
    return int(count or 1) * int(re.sub(r"\D", "", kind)) // 8


def _of_rocm(text: str) -> Iterator[tuple[str, Kernel]]:
    """LLVM writes the metadata also into the code object, where the driver reads it (LLVM, "User Guide for AMDGPU Backend", Code Object V5
    Metadata). Spilled scalar registers are in lanes of vector registers, and not counted."""
    bodies = dict(assembly.bodies(text.splitlines()))
    for entry in re.split(r"^  - ", text.partition("amdhsa.kernels:")[2], flags=re.MULTILINE)[1:]:
        said = dict(_METADATA.findall(entry))
        if "name" not in said:
            break  # the list of another key
        yield (
            said["name"],
            _kernel(
                "\n".join(bodies[said["name"]]),
                _AMD,
                int(said["group_segment_fixed_size"]),
                int(said["vgpr_count"]),
                int(said["vgpr_spill_count"]) * REGISTER_BYTES,
                int(said["private_segment_fixed_size"]),
            ),
        )


def _of_ptx(text: str, assembled: str) -> Iterator[tuple[str, Kernel]]:
    said = {match["name"]: match for match in _OF_PTXAS.finditer(assembled)}
    for name, body in assembly.bodies(text.splitlines()):
        own = said.get(name)
        known = [int(own[key]) for key in ("registers", "spilled", "stack")] if own else ()
        yield name, _kernel("\n".join(body), _PTX, int(own["shared"] or 0) if own else 0, *known)


def _of_spirv(text: str) -> Iterator[tuple[str, Kernel]]:
    sizes = (map(int, (size[1], size[2] or 1, size[3])) for size in _LOCAL.finditer(text))
    shared_bytes = sum(number * lanes * bits // 8 for number, lanes, bits in sizes)
    if entry := _ENTRY.search(text):
        yield entry[1], _kernel(text, _SPIRV, shared_bytes)


def assembled(ptx: Path, arch: str) -> str:
    """What ptxas says of a file; "" without its environment, or if it fails."""
    program = ptxas()
    if program is None:
        return ""
    command = [str(program), "-v", f"-arch={arch}", str(ptx), "-o", "/dev/null"]
    try:
        done = process.captured(command, timeout_s=LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"note: ptxas took more than {LIMIT_S:.0f} s, so registers are not known", file=sys.stderr)  # fmt: skip
        return ""
    if done.returncode:
        print(f"note: ptxas, so registers are not known: {done.stderr.strip()}", file=sys.stderr)
    return done.stderr + done.stdout


def ptxas() -> Path | None:
    """The program in the environment PTXAS; None if that has not been made."""
    shared = checkout.shared_environments()
    places = shared.glob(f"*/{PTXAS}") if shared else [checkout.ROOT / ".venvs" / PTXAS]
    programs = (path for place in places for path in place.glob("lib/python*/site-packages/nvidia/*/bin/ptxas"))  # fmt: skip
    return next(programs, None)
