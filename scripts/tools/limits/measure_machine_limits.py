"""Measure what a device can do at most: the bandwidth of its memory, and its largest products.

The CPU and CUDA GPUs are measured through PyTorch and IREE, other devices through IREE alone; torch is
imported when it is used.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scripts.baselines.sessions.runtime import NoDevice as NoTorchDevice
from scripts.config import plugins
from scripts.core import commands, exits, machine, process, requests, tensors
from scripts.core.commands import option
from scripts.core.machine import cache_bytes, load_watched
from scripts.core.requests import Folders
from scripts.iree import session
from scripts.iree.backends import BACKENDS, Backend, compile_flags
from scripts.iree.session import Module, NoDevice, Session, device_info
from scripts.iree.tools import tool
from scripts.measure.timing import machine_limits
from scripts.measure.timing.machine_limits import PRODUCT, TRIAD, MachineLimits, Sample

if TYPE_CHECKING:
    from scripts.baselines.sessions.torch_device import TorchDevice

VERSIONS = {"torch": "torch", "iree-base-compiler": "iree"}
BY_DEVICE = {backend.device_kind: backend for backend in BACKENDS.values()}
DTYPES = {"f32": "float32", "bf16": "bfloat16"}
SCALE, ADDED, SCALED = 3.0, 1.0, 2.0
"""s, and the values of b and c, of a = b + s × c."""
RESULT = ADDED + SCALE * SCALED
"""The values of a."""
SIZES = {"cpu": (1024, 2048), "cuda": (4096, 8192)}
"""n of the products of two n × n matrices, by kind of device."""
PROBES = {"cpu": 256}
"""n of a product that is no sample, and shows how long the others would take."""
OTHER_SIZES = (512, 1024, 2048, 4096, 8192)
"""n of the products on other kinds of device, up to the first of which a call takes LONG seconds."""
LONG = 0.1
TOO_LONG = 8.0
"""A product that would take more seconds, by the time of a smaller one of its dtype, is not run. (IREE 3.13 computes
products of bf16 thirty times slower than those of f32 on a CPU without instructions for it: a call with n = 1024 took
19 s.)"""
SECONDS = 0.3
"""How long each sample is timed, after one call that does not count."""
AT_LEAST, AT_MOST_S = 5, 3.0
"""The minimum number of calls of a sample, unless they take more seconds than AT_MOST_S."""
ARRAY_BYTES = (64 * 2**20, 512 * 2**20)
"""Minimum and maximum bytes of each array of the largest triad. STREAM requests four times the last-level
caches."""
CACHED_ARRAY_BYTES = tuple(2**exponent for exponent in range(17, 30, 2))
"""Bytes of each array of the small triads: 128 KiB, and four times as many for each next one."""
CHECKED_ROWS = 4
"""Rows of a product that are compared with numpy's."""


@dataclass(frozen=True, kw_only=True)
class LimitsRequest:
    """`device`: its kind."""

    device: str = option(choices=list(BY_DEVICE))
    threads: int = machine.threads_option()


def measure_machine_limits(args: LimitsRequest, folders: Folders) -> None:
    """Write the limits. Exits if the device is absent."""
    commands.report_working()
    with tempfile.TemporaryDirectory(dir=folders.results, prefix="limits-") as scratch:
        try:
            limits = measure(args.device, args.threads, Path(scratch))
        except NoDevice as error:
            exits.fail(f"no device {args.device}: {error}", exits.UNAVAILABLE)
        except WrongResult as error:
            exits.fail(str(error), exits.WRONG_RESULT)
    if not machine_limits.complete(limits.samples):
        exits.fail(f"no triad or no product ran on {limits.device_name}; the notes above say why")
    for sample in limits.samples:
        unit = "GB/s" if sample.what == machine_limits.TRIAD else "GFLOP/s"
        print(f"{sample.name}, size {sample.size}: {sample.rate:.4g} {unit}")
    for doubt in limits.doubts:
        print(f"note: {doubt}")
    limits.write(folders.results / machine_limits.FILE)


def measure(kind: str, number: int, scratch: Path) -> MachineLimits:
    """The limits of a device with a number of CPU threads. Raises NoDevice and WrongResult."""
    started = time.time()
    backend = BY_DEVICE[kind]
    device = device_info(backend.device, number)
    programs = prepare(backend, device["path"], number, scratch)
    of_torch = _through_torch(kind, number) if kind in plugins.DEVICES else ()
    of_iree = iree_samples(programs, kind, number)
    on_cpu = kind == "cpu"
    with load_watched() as load:
        samples = (*of_torch, *of_iree)
    others = load.others(number if on_cpu else 1)
    return MachineLimits(
        device=kind,
        device_name=device["name"],
        threads=number if on_cpu else None,
        measured_at=started,
        samples=samples,
        versions=plugins.installed(VERSIONS),
        doubts=machine_limits.doubts(samples, others.foreign + others.steal),
    )


def _through_torch(kind: str, number: int) -> Iterable[Sample]:
    """What takes PyTorch's samples; nothing is taken before it is iterated over. Empty, with a note, if this PyTorch
    does not have the device."""
    from scripts.baselines.sessions.torch_device import TorchDevice

    try:
        return torch_samples(TorchDevice(kind, number), number)
    except NoTorchDevice as error:
        print(f"note: PyTorch's samples are left out: {error}", flush=True)
        return ()


class WrongResult(Exception):
    """A triad or product has another result than expected. Says which."""


def array_bytes(device: str, cores: int) -> tuple[int, int]:
    """Bytes of an array of the two large triads of a device. The caches hold neither."""
    at_least, at_most = ARRAY_BYTES
    if device not in SIZES:  # Vulkan may allow no larger buffer than 128 MiB
        return at_least, 2 * at_least
    cached = at_most if device != "cpu" else 4 * cache_bytes() * cores
    largest = min(at_most, max(at_least, cached))
    return largest // 2, largest


def cached_array_bytes(device: str, cores: int) -> list[int]:
    """Bytes of an array of the small triads, which caches may hold. Only for a CPU: on other devices,
    starting a small triad takes longer than the triad."""
    if device != "cpu":
        return []
    smallest, _ = array_bytes(device, cores)
    return [size for size in CACHED_ARRAY_BYTES if 4 * size <= smallest]


def timed(call: Callable[[], Any], finish: Callable[[], None]) -> tuple[float, ...]:
    """Seconds of each call for SECONDS seconds, at least AT_LEAST calls. `finish` waits for the device."""
    call()
    finish()
    seconds: list[float] = []
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < SECONDS or len(seconds) < AT_LEAST:
        if seconds and spent > AT_MOST_S:
            break
        start = time.perf_counter()
        call()
        finish()
        seconds.append(time.perf_counter() - start)
    return tuple(seconds)


def signs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two n × n matrices of 1 and -1. Their product is exact in float32 in any order of summation."""
    random = np.random.default_rng(0)
    left, right = (random.integers(0, 2, (n, n)).astype(np.float32) * 2 - 1 for _ in range(2))
    return left, right


def permutation(n: int) -> np.ndarray:
    """An n × n permutation matrix. Any number of products with it are exact in every dtype."""
    return np.eye(n, dtype=np.float32)[np.random.default_rng(1).permutation(n)]


def check_triad(what: str, least: float, most: float) -> None:
    """Raise WrongResult unless the least and the largest value of a triad's result are right."""
    if (least, most) != (RESULT, RESULT):
        raise WrongResult(f"{what}: values from {least:g} to {most:g}, expected {RESULT:g}")


def check_product(
    what: str, rows: np.ndarray, left: np.ndarray, right: np.ndarray, count: int = 1
) -> None:
    """Raise WrongResult if the first rows of left @ right are off by more than bfloat16 rounds; of `count` products
    by the same right matrix, those of the last one."""
    want = left[: len(rows)].astype(np.float64)
    for _ in range(count):
        want = want @ right
    if rows.shape != want.shape or not np.allclose(rows, want, rtol=1e-2, atol=1e-2):
        raise WrongResult(f"{what}: its first {len(rows)} rows differ from those of numpy")


# By torch.


def torch_samples(device: TorchDevice, threads: int) -> Iterator[Sample]:
    """Yield the samples of a device. Raises WrongResult."""
    small = cached_array_bytes(device.kind, threads)
    for each in (*small, *array_bytes(device.kind, threads)):
        yield _torch_triad(device, each)
    for dtype in DTYPES:
        smaller: Sample | None = None
        for n in SIZES[device.kind]:
            if smaller and min(smaller.seconds) * (n / smaller.size) ** 3 > TOO_LONG:
                print(
                    f"note: the product {dtype} of torch, size {n}, would take over {TOO_LONG:g} s: left out"
                )
                break
            smaller = _torch_product(device, dtype, n)
            yield smaller


def _torch_triad(device: TorchDevice, each: int) -> Sample:
    """a = b + s × c on float32 arrays of `each` bytes."""
    import torch

    b, c = (torch.full((each // 4,), value, device=device.device) for value in (ADDED, SCALED))
    a = torch.zeros_like(b)
    seconds = timed(lambda: torch.add(b, c, alpha=SCALE, out=a), device.finish)
    check_triad("triad of torch", a.min().item(), a.max().item())
    return Sample(TRIAD, "torch", "f32", 3 * each, seconds)


def _torch_product(device: TorchDevice, dtype: str, n: int) -> Sample:
    import torch

    left, right = signs(n)
    torch_dtype = getattr(torch, DTYPES[dtype])
    a, b = (torch.from_numpy(m).to(device.device, torch_dtype) for m in (left, right))
    out = torch.empty_like(a)
    seconds = timed(lambda: torch.mm(a, b, out=out), device.finish)
    rows = out[:CHECKED_ROWS].float().cpu().numpy()
    check_product(f"product {dtype} of torch", rows, left, right)
    return Sample(PRODUCT, "torch", dtype, n, seconds)


# By IREE.

CHAIN = 8
"""Products of a call. A layout of the right matrix that suits the device is made once for all of them, as it is
for weights."""
BEST = {"cpu": ("O3", ("--iree-dispatch-creation-data-tiling",))}
"""The optimization level and the flags that make products fastest, by kind of device (docs/performance.md); for
others, the backend's own."""

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
    the driver's name. A program that does not compile is left out, with a note. No larger one of its dtype is compiled, and none
    but the triads for an architecture that the device lacks."""
    programs: list[Program] = []
    for arch in backend.limit_archs:
        refused: set[tuple[str, str]] = set()
        for texts in _rounds(backend.device_kind, threads):
            texts = [text for text in texts if text[:2] not in refused]
            names = ["-".join(filter(None, (*map(str, text[:3]), arch))) for text in texts]
            # Nothing else runs on the machine meanwhile.
            with ThreadPoolExecutor(threads) as pool:
                compiled = list(
                    pool.map(
                        functools.partial(_compile, backend, arch, folder),
                        names,
                        (text for *_, text in texts),
                    )
                )
            lacking = ""
            for (what, dtype, size, _), name, is_made in zip(texts, names, compiled, strict=True):
                vmfb = folder / f"{name}.vmfb"
                if (what, dtype) in refused:
                    continue
                if not is_made:
                    print(f"note: IREE does not compile {name}; it is left out", flush=True)
                    refused.add((what, dtype))
                    continue
                if lacking := session.lacking_of_profile(vmfb, backend.device, path):
                    print(f"note: {name} is left out: the device lacks {lacking}", flush=True)
                    break
                programs.append(Program(Module(vmfb, None, backend.device), what, dtype, size))
            if lacking:
                break
    return programs


def _rounds(kind: str, threads: int) -> list[list[tuple[str, str, int, str]]]:
    """The programs in the order of their compilation: the triads, the smallest product of each dtype, the others."""
    texts = list(_texts(kind, threads))
    products = [text for text in texts if text[0] == PRODUCT]
    smallest = {dtype: next(text for text in products if text[1] == dtype) for dtype in DTYPES}
    others = [text for text in products if text not in smallest.values()]
    return [[text for text in texts if text[0] == TRIAD], [*smallest.values()], others]


def _compile(backend: Backend, arch: str, folder: Path, name: str, text: str) -> bool:
    """Compile the text of a program to `name`.vmfb in a folder; return whether it does."""
    opt_level, extra = BEST.get(backend.device_kind, (None, ()))
    flags = compile_flags(backend.name, arch, opt_level, extra)
    program = folder / f"{name}.mlir"
    program.write_text(text, encoding="utf-8")
    command = [tool("iree-compile"), *flags, str(program), "-o", str(folder / f"{name}.vmfb")]
    return process.run_tool(command).returncode == 0


def _texts(kind: str, threads: int) -> Iterator[tuple[str, str, int, str]]:
    """Yield what each program is, its dtype, its size (see Program) and its text."""
    for each in array_bytes(kind, threads):
        n = each // 4
        yield TRIAD, "f32", n, _TRIAD.format(n=n, scale=SCALE)
    for dtype in DTYPES:
        probe = (PROBES[kind],) if kind in PROBES else ()
        for n in (*probe, *SIZES.get(kind, OTHER_SIZES)):
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


def iree_samples(compiled: Sequence[Program], kind: str, threads: int) -> Iterator[Sample]:
    """Yield the samples of a device of a kind. A product that would take more than TOO_LONG seconds is not run. If
    the kind has no SIZES, a product that is larger than one that takes LONG seconds is not run either. Raises
    WrongResult."""
    before: dict[str, tuple[int, float]] = {}
    for program in compiled:
        if program.what == PRODUCT and program.dtype in before:
            n, took_s = before[program.dtype]
            if took_s * (program.size / n) ** 3 > TOO_LONG:
                print(
                    f"note: the product {program.dtype} of n = {program.size} is left out: with n = {n}, a call takes {took_s:.1f} s",
                    flush=True,
                )
                continue
            if kind not in SIZES and took_s > LONG:
                continue
        inputs = _inputs(program)
        session = Session(program.module, threads)
        [result], _ = session.call(inputs)
        seconds = timed(session.uploaded(inputs), lambda: None)
        session.close()
        _check(program, result)
        if program.what == TRIAD:
            yield Sample(TRIAD, "iree", program.dtype, 3 * 4 * program.size, seconds)
            continue
        before[program.dtype] = program.size, min(seconds)
        if program.size != PROBES.get(kind):
            per_product = tuple(s / CHAIN for s in seconds)
            yield Sample(PRODUCT, "iree", program.dtype, program.size, per_product)


def _inputs(program: Program) -> list[np.ndarray]:
    if program.what == TRIAD:
        values = (ADDED, SCALED)
        return [np.full(program.size, value, np.float32) for value in values]
    dtype = DTYPES[program.dtype]
    return [tensors.as_native(matrix, dtype) for matrix in _matrices(program.size)]


@functools.lru_cache(maxsize=1)
def _matrices(n: int) -> tuple[np.ndarray, np.ndarray]:
    return signs(n)[0], permutation(n)


def _check(program: Program, result: np.ndarray) -> None:
    if program.what == TRIAD:
        least, most = float(result.min()), float(result.max())
        check_triad("triad of IREE", least, most)
    else:
        name, matrices = f"product {program.dtype} of IREE", _matrices(program.size)
        check_product(name, result[:CHECKED_ROWS], *matrices, CHAIN)


if __name__ == "__main__":
    requests.run(LimitsRequest, measure_machine_limits)
