"""The triads and products of timing/machine_limits.py, compiled by IREE."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts.core import process, tensors
from scripts.features.limits import programs
from scripts.features.limits.programs import CHECKED_ROWS, LONG, PROBES, SIZES, TOO_LONG
from scripts.iree import session
from scripts.iree.backends import Backend, compile_flags
from scripts.iree.session import Module, Session
from scripts.iree.tools import tool
from scripts.timing.machine_limits import PRODUCT, TRIAD, Sample

CHAIN = 8
"""Products of a call. A layout of the right matrix that suits the device is made once for all of them, as it is
for weights."""
BEST = {"cpu": ("O3", ("--iree-dispatch-creation-data-tiling",))}
"""The optimization level and the flags that make products fastest, by kind of device (docs/performance.md); for
others, the backend's own."""
DTYPES = {"f32": "float32", "bf16": "bfloat16"}

_TRIAD = """\
#same = affine_map<(d0) -> (d0)>
func.func @main(%b: tensor<{n}xf32>, %c: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %scale = arith.constant {scale:e} : f32
  %empty = tensor.empty() : tensor<{n}xf32>
  %a = linalg.generic
      {{indexing_maps = [#same, #same, #same], iterator_types = ["parallel"]}}
      ins(%b, %c : tensor<{n}xf32>, tensor<{n}xf32>) outs(%empty : tensor<{n}xf32>) {{
  ^bb0(%x: f32, %y: f32, %out: f32):
    %scaled = arith.mulf %y, %scale : f32
    %sum = arith.addf %x, %scaled : f32
    linalg.yield %sum : f32
  }} -> tensor<{n}xf32>
  return %a : tensor<{n}xf32>
}}
"""
_PRODUCTS = """\
func.func @main(%left: tensor<{n}x{n}x{dtype}>, %b: tensor<{n}x{n}x{dtype}>) -> tensor<{n}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{n}x{n}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
{products}\
  return %c{last} : tensor<{n}x{n}xf32>
}}
"""
_PRODUCT = """\
  %c{i} = linalg.matmul ins(%{left}, %b : tensor<{n}x{n}x{dtype}>, tensor<{n}x{n}x{dtype}>)
      outs(%zeros : tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
"""
_ROUNDED = """\
  %r{i} = arith.truncf %c{i} : tensor<{n}x{n}xf32> to tensor<{n}x{n}x{dtype}>
"""


@dataclass(frozen=True)
class Program:
    """A compiled triad, or products. `size`: elements of an array, or n of n × n matrices."""

    module: Module
    what: str
    dtype: str
    size: int


def prepare(backend: Backend, path: str, threads: int, folder: Path) -> list[Program]:
    """Compile all programs for the architectures of a backend that a device has, on `threads` cores; `path`: the device, by
    the driver's name. A program that does not compile is left out, with a note, and so are larger ones of its dtype."""
    programs: list[Program] = []
    refused: set[tuple[str, str, str]] = set()
    for arch in backend.limit_archs:
        texts = list(_texts(backend.device_kind, threads))
        names = ["-".join(filter(None, (*map(str, text[:3]), arch))) for text in texts]
        commands = [
            _command(backend, arch, folder / name, text[3])
            for name, text in zip(names, texts, strict=True)
        ]
        # Nothing else runs on the machine meanwhile.
        with ThreadPoolExecutor(threads) as pool:
            compiled = list(pool.map(_succeeds, commands))
        for (what, dtype, size, _), name, is_made in zip(texts, names, compiled, strict=True):
            vmfb = folder / f"{name}.vmfb"
            if (what, dtype, arch) in refused:
                continue
            if not is_made:
                print(f"note: IREE does not compile {name}; it is left out", flush=True)
                refused.add((what, dtype, arch))
                continue
            if lacking := session.lacking_of_profile(vmfb, backend.device, path):
                print(f"note: {name} is left out: the device lacks {lacking}", flush=True)
                break
            programs.append(Program(Module(vmfb, None, backend.device), what, dtype, size))
    return programs


def _command(backend: Backend, arch: str, file: Path, text: str) -> list[str]:
    """The command that compiles the text of a program to `file`.vmfb."""
    opt_level, extra = BEST.get(backend.device_kind, (None, ()))
    flags = compile_flags(backend.name, arch, opt_level, extra)
    program = Path(f"{file}.mlir")
    program.write_text(text, encoding="utf-8")
    return [tool("iree-compile"), *flags, str(program), "-o", f"{file}.vmfb"]


def _succeeds(command: list[str]) -> bool:
    return process.run_tool(command).returncode == 0


def _texts(kind: str, threads: int) -> Iterator[tuple[str, str, int, str]]:
    """Yield what each program is, its dtype, its size (see Program) and its text."""
    for each in programs.array_bytes(kind, threads):
        n = each // 4
        yield TRIAD, "f32", n, _TRIAD.format(n=n, scale=programs.SCALE)
    for dtype in DTYPES:
        probe = (PROBES[kind],) if kind in PROBES else ()
        for n in (*probe, *SIZES.get(kind, programs.OTHER_SIZES)):
            yield PRODUCT, dtype, n, _products(dtype, n)


def _products(dtype: str, n: int) -> str:
    """A program with CHAIN products, each of the result of the one before and the same right matrix."""
    products, left = "", "left"
    for i in range(CHAIN):
        products += _PRODUCT.format(i=i, left=left, n=n, dtype=dtype)
        left = f"c{i}"
        if dtype != "f32":
            products += _ROUNDED.format(i=i, n=n, dtype=dtype)
            left = f"r{i}"
    return _PRODUCTS.format(n=n, dtype=dtype, products=products, last=CHAIN - 1)


def take(compiled: Sequence[Program], kind: str, threads: int) -> Iterator[Sample]:
    """Yield the samples of a device of a kind. A product that would take more than TOO_LONG seconds is not run. If
    the kind has no SIZES, a product that is larger than one that takes LONG seconds is not run either. Raises
    WrongResult."""
    before: dict[str, tuple[int, float]] = {}
    for program in compiled:
        if program.what == PRODUCT and program.dtype in before:
            n, took_s = before[program.dtype]
            if took_s * (program.size / n) ** 3 > TOO_LONG:
                print(
                    f"note: the product {program.dtype} of n = {program.size} is left out: "
                    f"with n = {n}, a call takes {took_s:.1f} s",
                    flush=True,
                )
                continue
            if kind not in SIZES and took_s > LONG:
                continue
        inputs = _inputs(program)
        session = Session(program.module, threads)
        [result], _ = session.call(inputs)
        seconds = programs.timed(session.uploaded(inputs), lambda: None)
        session.close()
        _check(program, result)
        if program.what == TRIAD:
            yield Sample(TRIAD, "iree", program.dtype, 3 * 4 * program.size, seconds)
            continue
        before[program.dtype] = program.size, min(seconds)
        if program.size != PROBES.get(kind):
            each = tuple(s / CHAIN for s in seconds)
            yield Sample(PRODUCT, "iree", program.dtype, program.size, each)


def _inputs(program: Program) -> list[np.ndarray]:
    if program.what == TRIAD:
        values = (programs.ADDED, programs.SCALED)
        return [np.full(program.size, value, np.float32) for value in values]
    dtype = DTYPES[program.dtype]
    return [tensors.as_native(matrix, dtype) for matrix in _matrices(program.size)]


@functools.lru_cache(maxsize=1)
def _matrices(n: int) -> tuple[np.ndarray, np.ndarray]:
    return programs.signs(n)[0], programs.permutation(n)


def _check(program: Program, result: np.ndarray) -> None:
    if program.what == TRIAD:
        least, most = float(result.min()), float(result.max())
        programs.check_triad("triad of IREE", least, most)
    else:
        name, matrices = f"product {program.dtype} of IREE", _matrices(program.size)
        programs.check_product(name, result[:CHECKED_ROWS], *matrices, CHAIN)
