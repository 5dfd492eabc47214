"""Models with operators that compilers get wrong: right by every lowering path, wrong without rewrites, and a row then names the cause."""

from __future__ import annotations

import pytest

from tests.checkouts import ON_CPU, keep_models, shipped
from tests.pipeline.test_user_models import LINALG, STABLEHLO, TORCH, XLA, run, written

BARE, BARE_STABLEHLO = (["torch_mlir", {"dialect": dialect, "rewrites": "none"}] for dialect in ("torch", "stablehlo"))  # fmt: skip
BARE_XLA = ["torch_xla", {"rewrites": "none"}]
SPECIAL = "torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0, -2.0, 0.0])"
OTHER = "torch.tensor([0.0, 0.0, torch.nan, torch.nan, 3.0, -1.0])"
BYTES = "torch.tensor([0, 1, 127, 128, 200, 255], dtype=torch.uint8)"
DIVISORS = "torch.tensor([3, 200, 7, 3, 130, 2], dtype=torch.uint8)"
FLOATS = "torch.tensor([1.5, -2.0, 3.0, 0.5, 7.0, -1.0])"
DIVIDENDS = "torch.tensor([-1.975, 1.48, 5.0, -5.0, 1.0, -1.0, 0.0, 2.5, 7.0, 1.0, 3.0, -6.0])"
LIMITS = "torch.tensor([0.404, -1.59, 2.5, 2.5, -torch.inf, torch.inf, 3.0, 0.0, torch.nan, 0.1, 0.1, 0.1])"
SHORTS = "torch.tensor([3, -2, 7], dtype=torch.int16)"
MASK = "torch.tensor([True, False, False])"
TENS = "torch.randint(-50, 50, (4, 4), dtype=torch.int8)"
# rewrite: (results, inputs)
CASES = {
    "equal-to-itself-as-number": ("x == x, x == x.clone(), torch.isfinite(x), y", (SPECIAL, FLOATS)),
    "constants-compared-as-floats": (
        "torch.ones(2) == 1, torch.zeros(2) != 0, torch.ones_like(x) >= 1, torch.full((2,), -1.5) < 0, x > 0", (FLOATS,)),
    "limits-keep-nan": (
        "torch.maximum(x, y), torch.minimum(x, y), torch.maximum(y, x + 0.0), x.clamp(-1.0, 1.0), x.clamp(y), F.relu6(x), F.hardsigmoid(x), F.hardtanh(x)",
        (SPECIAL, OTHER)),
    "clamp-by-one-limit": ("x.clamp(min=0.0), x.clamp(max=0.0)", (SPECIAL,)),
    "sum-over-dimensions": ("x.sum() + x, x.sum(), x[0, 0].sum(), (x > 0).sum(), x.amin(), x.amax()", ("torch.randn(2, 3)",)),
    "dot-as-sum": ("torch.dot(x, y), torch.dot(x, y) + x, torch.dot(z, z)", (FLOATS, FLOATS, "torch.tensor([1, 2], dtype=torch.int32)")),
    "sums-of-booleans-in-int32": (
        "torch.ops.aten.add.Scalar(x, True), x + y, x.scatter_add(0, i, y), x.index_put((i,), y, accumulate=True), x.index_put((i,), y)",
        (MASK, "torch.tensor([True, True, False])", "torch.tensor([0, 0, 1])")),
    "products-of-8-bits-in-int32": ("x @ y, x.view(1, 4, 4) @ y.view(1, 4, 4), (x @ y).to(torch.uint8) @ x.to(torch.uint8)", (TENS, TENS)),
    "unsigned-bytes-in-wider-type": (
        "x.sum(), y.prod(), x / y, x / z, torch.cat([x, z]), torch.where(x > 3, x, z), torch.div(x, y, rounding_mode='trunc'), torch.fmod(x, y), torch.remainder(x, y), "
        "x.sort()[0], x * z, x > z, -x, (z * 30).abs().to(torch.uint8), x * 3, x.all(), (x * 2).any(), x.view(2, 3).all(1), x.view(2, 3).any(0), "
        "(z > 1).sort()[0], (x > 1).view(2, 3).sort(1, True)[0], (y > 1) > x.long() - 1, (y > 1) >= y.to(torch.int32), (x > 1) < y",
        (BYTES, DIVISORS, FLOATS)),
    "asinh-of-size": (
        "torch.asinh(x), torch.asinh(x.half())", ("torch.tensor([-150.0, -1e5, -1e20, 0.0, 1e-4, -1e-4, 0.5, 3.0, 1e20, torch.nan, torch.inf, -torch.inf])",)),
    "logcumsumexp-by-doubling": (
        "torch.logcumsumexp(x, 1), torch.logcumsumexp(y, 0)", ("torch.randn(3, 7) * 60 - 100", "torch.tensor([-torch.inf, -torch.inf, 1.0, 200.0, torch.inf, 0.0, torch.nan, 1.0])")),
    "log10-by-log": ("torch.log10(x), torch.log10(i)", ("torch.tensor([1.0, 1000.0, 0.5, 1e-30])", "torch.tensor([1, 1000])")),
    "index-put-of-itself": (
        "x.index_copy(1, i, x), y.index_copy(1, i, -x), y.index_put((i,), y), y.index_put((i,), z)", ("torch.randn(3, 3)", "torch.randn(3, 3)", "torch.randn(3, 3)", "torch.tensor([2, 0, 1])")),
    "rms-norm-in-float32": ("F.rms_norm(x, [3]), F.rms_norm(x, [3], y)", ("torch.tensor([[118.0, -129.0, -99.0], [5.0, -243.5, 106.0]]).half()", "torch.tensor([1.0, 2.0, 0.5]).half()")),
    "rms-norm-with-epsilon": (
        "F.rms_norm(x, [3]), F.rms_norm(x * 0, [3]), F.rms_norm(x.half(), [3]), F.rms_norm(x.bfloat16(), [3], x.bfloat16()), F.rms_norm(x, [3], x, 1e-5)",
        ("torch.tensor([0.00064, -0.00032, 0.0003])",)),
    "sums-of-16-bits-in-float32": (
        "x.sum(0), x.mean(0), x.t().sum(1), x.sum(), x.mean(), x.cumsum(0), x.half().sum(0), x.sum((0, 1), keepdim=True, dtype=torch.bfloat16), x.sum(0, dtype=torch.float32), x.norm(dim=0)",
        ("torch.full((4096, 3), 1.0625).bfloat16()",)),
    "bytes-in-int32": (
        "x & y, x | y, x ^ y, z & y, z ^ z, y | y, y & z, x - 2, x * 2, 2 - x, x // 2, x % 3, x // x, torch.div(x, 2, rounding_mode='trunc'), torch.maximum(x, y), "
        "x == y, x * y, x < z, z[0] > x, z[0] * x, z * 2, z // 7, x < x.float() + 0.5, x == x.long() + 256",
        ("torch.tensor([-1, 3, 5], dtype=torch.int8)", "torch.tensor([True, True, False])", "torch.tensor([200, 3, 5], dtype=torch.uint8)")),
    "hyperbolic-near-zero": (
        "x.sinh() * 1e5, x.atanh() * 1e5, x.half().sinh(), x.half().atanh(), y.sinh(), (y / 3).atanh(), i.sinh()",
        ("torch.tensor([1.26e-5, -1.2e-5, 3.3e-6, 0.0])", "torch.tensor([3.0, -3.0, 0.5, -0.9, 1.0, 89.0, -89.0, 2.0, torch.inf, torch.nan, -torch.inf])", "torch.tensor([0, 0, 1])")),
    "tan-by-quadrants": (
        "x.tan(), x.half().tan(), i.tan()",
        ("torch.tensor([-1.5712891, 1.5708, 0.3, 4.71239, -100.5311, 33333.5, torch.inf, torch.nan, -0.7853982])", "torch.tensor([0, 0, 1])")),
    "gelu-as-tanh": (
        "(F.gelu(x, approximate='tanh') + 0.1588) * 1e3, F.gelu(x.half(), approximate='tanh'), F.gelu(x)",
        ("torch.tensor([-1.0, 0.5, -3.0, 2.0, 0.001, 20.0, -20.0, torch.nan])",)),
    "norm-of-order-0-as-sum": ("x.norm(0), x.norm(0, 1), (x * 0).norm(0), x.half().norm(0, 1, keepdim=True)", ("torch.ones(3, 300)",)),
    "diagonal-as-slice": (
        "x.diagonal(-1, 0, 1), x.diagonal(2, 1, 0), x.diagonal(1, 2, 0), x.diagonal(), x.diagonal(1, -3, -2), x.diagonal(5, 0, 1), x.view(8, 6).diagonal(1)", ("torch.randn(4, 6, 2)",)),
    "variances-of-16-bits-in-float32": (
        "x.var(0), x.std(0), x.std(), *torch.var_mean(x, 0), (x / 100).bfloat16().var(1), x.float().var(0)", ("torch.tensor([[200.0, -250.0], [-200.0, 200.0], [0.0, 1.0]]).half()",)),
    "types-promoted-first": (
        "x == y, x > y, x + y, y & x, x | y, x / y, torch.maximum(x, y), torch.where(x > 0, x, y), x // y, y[0] + x, z + z.bfloat16() * 2.0**30, z.bfloat16() * 2.0**30 > z, torch.where(z > 1, z.bfloat16(), z)",
        ("torch.tensor([-1, 3, 5], dtype=torch.int8)", "torch.tensor([255, 3, 5], dtype=torch.uint8)", "torch.tensor([1.5, 1e-3, 7.0]).half()")),
    "whole-pow-of-size": (
        "x ** 4, x ** 5.0, x ** -4, x ** -3, x.bfloat16() ** 7, x ** 3, x ** -2, x ** 2.0, x ** 0", ("torch.tensor([-torch.inf, torch.inf, 1.0, -2.0, 3.0])",)),
    "windows-within-input": (
        "F.max_pool2d(x, 3, ceil_mode=True), F.max_pool1d(x[0], 3, ceil_mode=True), F.max_pool3d(x.view(1, 1, 1, 2, 2), (1, 1, 3), 2, ceil_mode=True), "
        "F.avg_pool2d(x, (3, 5), (2, 3), (1, 1), True), F.avg_pool1d(x[0], 3, ceil_mode=True)", ("torch.randn(1, 1, 2, 2)",)),
    "max-pool-indices-by-offsets": ("*F.max_pool2d(x, 2, return_indices=True), *F.max_pool2d(x, 3, 1, 1, return_indices=True)", ("torch.randint(-9, 9, (1, 1, 4, 6))",)),
    "pow-of-booleans": ("x ** True, x ** False, x ** 2, x ** 0", (MASK,)),
    "scatter-dimension-from-the-front": (
        "x.scatter_add(-1, i.view(1, 3), y), x.scatter_reduce(-1, i.view(1, 3), y, 'amax')", ("torch.randn(2, 4)", "torch.randn(2, 3)", "torch.tensor([0, 0, 1])")),
    "product-of-one-row": (
        "torch.mm(x.expand(64, 16), y), F.linear(x[0].expand(64, 16), y.t(), z), F.linear(x.expand(3, 16), y.t()), torch.mm(y.t(), x.t().expand(16, 9)), F.linear(x, y.t()), "
        "F.linear(x.expand(64, 16).view(8, 8, 16), y.t(), z), x[0].expand(4, 3, 16) @ y, y.t()[:4, None].expand(4, 3, 16) @ y, torch.bmm(x.expand(4, 3, 16), y.view(4, 16, 16)), "
        "torch.bmm(y.view(1, 64, 16).expand(4, 64, 16), y.view(4, 16, 16)), F.linear(x.view(1, 1, 16).expand(4, 8, 16).reshape(32, 16), y.t())",
        ("torch.randn(1, 16)", "torch.randn(16, 64)", "torch.randn(64)")),
    "sum-of-products-by-dimension": (
        "(x * y).sum(), (x * y).mean(), (z * y[0]).sum([1, 2]), (z * y[0]).mean([-1, 1], keepdim=True), (z.half() * y.half()).sum([0, 2]), (z * y[0, :, :1]).sum(), (x.expand(3, 4) * y[0]).sum()",
        ("torch.randn(4)", "torch.randn(1, 3, 4)", "torch.randn(2, 3, 4)")),
    "sorts-of-own-shapes": (
        "x.argsort(), (x * x).argsort(), (-x).sort()[1], *x.exp().topk(3), *y.sort(), *(y * 2).sort(0, True), *(y * y).sort(1, True), y.sort()[0].neg().argsort(-1), *(-y).topk(2)",
        ("torch.randn(8)", "torch.randn(3, 8)")),
    "update-of-copy": (
        "(lambda v: (torch.ops.aten.slice_scatter(v, y, 0, 5, 22), v, torch.dot(z, z)))(x.sign()), "
        "*(lambda v: (v.index_put((torch.arange(5, 22),), y), v))(x.exp()), *(lambda v: (v.index_add(0, torch.arange(5, 22), y), v))(x + 1)",
        ("torch.randn(52, 1)", "torch.randn(17, 1)", "torch.randn(8)")),
    "roll-within-size": ("torch.roll(x, [4, -2], [-2, 1]), torch.roll(x, 7), torch.roll(x, -5, 0)", ("torch.randn(3, 2)",)),
    "upsample-nearest-by-index": (
        "torch.ops.aten.upsample_nearest2d(x, [2, 3]), torch.ops.aten.upsample_nearest2d(x, [7, 8]), torch.ops.aten.upsample_nearest2d(x, [6, 7], 1.5, 1.5)", ("torch.arange(40.0).reshape(1, 2, 4, 5)",)),
    "pow-of-size": (
        "x ** y, y ** x, x.abs() ** y, (x * 0) ** y.abs(), (-2.0) ** x, x ** 0.25, x ** 1.5, x ** -1.5, x ** 0.5",
        ("torch.tensor([-2.0, -0.5, -3.0, 0.0, 2.0, -torch.inf, -1.0, 1.0])", "torch.tensor([3.0, -2.0, 0.5, 0.0, -1.0, 0.5, torch.inf, torch.nan])")),
    "atan2-by-signs": (
        "torch.atan2(x, y), torch.atan2(i, i * 0)",
        ("torch.tensor([0.0, 0.0, torch.inf, -torch.inf, 1.0, 0.0, -0.0, -0.0])", "torch.tensor([0.0, -0.0, torch.inf, -torch.inf, -1.0, 2.0, -1.0, -0.0])", "torch.tensor([0, 0, 1])")),
    "negative-pow-as-reciprocal": ("x ** -1, x ** -2.0, x.abs() ** -0.5", ("torch.tensor([0.0, 2.0, -2.0, 0.5])",)),
    "transposed-convolution-cropped-after": (
        "F.conv_transpose2d(x, y, None, 3, 2, 2), F.conv_transpose2d(x, y, y[0, :, 0, 0], 3, (2, 3), 2)", ("torch.randn(1, 2, 4, 4)", "torch.randn(2, 3, 1, 2)")),
    "rows-packed-by-batch": (
        "torch.bmm(x * y, z), F.linear(x, z[0]) @ z, torch.einsum('bmk,bnk->bmn', z.mT, x * y), F.normalize(x, dim=-1) @ F.normalize(x, dim=-1).mT, torch.baddbmm(z, x + z[0, 0], z)[:, :3], "
        "x.softmax(-1) @ z",
        ("torch.randn(3, 15, 15)", "torch.randn(3, 15, 1)", "torch.randn(3, 15, 15)")),
    "negative-padding-as-slice": ("F.pad(x, (-1, 2, 1, -1)), F.pad(x, (-1, -1)), F.pad(x, (0, -2, 1, 0), value=3.0)", ("torch.randn(3, 5)",)),
    "number-as-tensor": (
        "torch.remainder(2.0, x), torch.fmod(x, 1.5), torch.fmod(i, 2), 1 - z, torch.rsub(z, 2, alpha=3), 1 - z.to(torch.uint8), 1.5 - z, 1 - i",
        (FLOATS, "torch.tensor([0, 0, 1])", SHORTS)),
    "shifts-and-extremes-in-int32": (
        "torch.ops.aten.bitwise_right_shift.Tensor(x, y), z.amin(1), z.amax(0), *z.min(1), z.max(0)[0], x.amax(), z.amin(), x.any(), x.view(3, 2).all(1)",
        (BYTES, "torch.tensor([1, 0, 7, 3, 2, 9], dtype=torch.uint8)", "torch.tensor([[True, True], [True, False], [True, False]])")),
    "sum-into-itself-apart": (
        "x.index_add(1, i, x), x.index_add(1, i, x.view(9).view(3, 3)), x.scatter_add(1, i.expand(3, 3), x)",
        ("torch.randn(3, 3)", "torch.tensor([2, 0, 1])")),
    "remainder-by-sign": (
        "torch.remainder(x, y), x % 1.5, x % -1.5, torch.remainder(x.half(), y.half()), torch.remainder(z, 3), torch.remainder(z, -3)",
        (DIVIDENDS, LIMITS, "torch.tensor([-7, 8, 0, -2])")),
    "fmod-by-remainder": (
        "torch.fmod(x, y), torch.fmod(x.half(), y.half()), torch.fmod(x * 1e9, y)", (DIVIDENDS, LIMITS)),
    "floor-divide-by-remainder": (
        "torch.floor_divide(x, y), x // 0.1, x // -0.1, x // 2.0, torch.div(x, y, rounding_mode='floor'), 1.0 // y, z // 0.1, x.half() // 0.1, y // x, y // 2",
        (DIVIDENDS, LIMITS, "torch.tensor([1, 3, -6, 7])")),
    "averages-of-whole-windows": (
        "F.avg_pool1d(x, 2, count_include_pad=False), F.avg_pool2d(y, 2, 1, 0, False, False), F.avg_pool2d(y, 3, 1, 1, False, False)",
        ("torch.randn(2, 3, 6).half()", "torch.randn(1, 2, 5, 5).bfloat16()")),
    "max-pool-with-end-padding": (
        "F.max_pool3d(x, 2, 2, 0, 1, True), F.max_pool3d(x, 3, 2, 1, 1, True), F.max_pool2d(x[0], 2, 2, 0, 1, True)", ("torch.randn(1, 2, 3, 5, 6)",)),
    "nothing-as-constant": ("torch.cat([x[:0].reshape(-1, 2, 1).reshape(0, 2), x]), x[:0] * 2", ("torch.randn(3, 2)",)),
}  # fmt: skip
NOT_BY_TORCH_MLIR = (
    *("clamp-by-one-limit", "dot-as-sum", "sum-over-dimensions", "norm-of-order-0-as-sum"),
    *("variances-of-16-bits-in-float32", "windows-within-input"),
)
"""What PyTorch/XLA alone gets wrong."""
REFUSED_BY_TORCH_MLIR = ("windows-within-input",)
ONLY_STABLEHLO = (
    *("shifts-and-extremes-in-int32", "remainder-by-sign", "averages-of-whole-windows"),
    *("max-pool-with-end-padding", "types-promoted-first", "whole-pow-of-size"),
    "diagonal-as-slice",
)
DATA_TILED = ("rows-packed-by-batch",)
DATA_TILING = ("--iree-opt-level=O3", "--iree-dispatch-creation-data-tiling")
NOT_WRONG = ("nothing-as-constant", "product-of-one-row")
"""Without rewrites, as compiled here: products of one row crash with data tiling at O3."""


def text(results: str, inputs: tuple[str, ...]) -> str:
    """A model file whose outputs are these results of its inputs x, y, z, with i for the last one of integers."""
    names = ["i" if "torch.tensor([0, 0, 1])" in each or "[1, 1000]" in each or "[2, 0, 1]" in each else "xyz"[number] for number, each in enumerate(inputs)]  # fmt: skip
    return (
        "import torch.nn.functional as F\n"
        f"class M(nn.Module):\n    def forward(self, {', '.join(names)}): return ({results},)\n"
        f"def get_model(): return M()\ndef get_dummy_input(): return ({', '.join(inputs)},)\n"
    )


@pytest.fixture(scope="module")
def cases(environments, tmp_path_factory) -> dict:
    """What became of each case by each lowering path."""
    work = tmp_path_factory.mktemp("known")
    files = written(work, {name: text(*case) for name, case in CASES.items()})
    tiled = {name: files.pop(name) for name in DATA_TILED}
    bare = {name: files[name] for name in ONLY_STABLEHLO}
    bare_by_xla = {name: files[name] for name in NOT_BY_TORCH_MLIR}
    cases: dict = {}
    for environment, some, paths, flags in (
        ("torch-mlir", files, [TORCH, STABLEHLO, LINALG, BARE], ()),
        ("torch-mlir", tiled, [TORCH, STABLEHLO, LINALG, BARE], DATA_TILING),
        ("torch-mlir", bare, [BARE_STABLEHLO], ()),
        ("torch-xla", files, [XLA], ()),
        ("torch-xla", bare_by_xla, [BARE_XLA], ()),
        ("torch-xla", tiled, [XLA], DATA_TILING),
    ):
        python = environments / environment / "bin/python"
        for name, other in run(python, work, some, paths, True, flags).items():
            cases.setdefault(name, other).setdefault("paths", {}).update(other.get("paths", {}))
    return cases


@pytest.mark.parametrize("name", CASES)
def test_the_values_are_right_by_every_lowering_path(cases, name):
    assert "error" not in cases[name], cases[name]
    paths = dict(cases[name]["paths"])
    by = "torch_mlir stablehlo" if name in ONLY_STABLEHLO else "torch_mlir torch"
    by = "torch_xla" if name in NOT_BY_TORCH_MLIR else by
    bare = {path: paths.pop(path) for path in list(paths) if path.endswith(" none")}
    assert len(paths) == 4
    ended = {path: outcome.get("verdict", outcome) for path, outcome in paths.items()}
    if name in REFUSED_BY_TORCH_MLIR:
        ended = {path: verdict for path, verdict in ended.items() if path.startswith("torch_xla")}
    assert ended == dict.fromkeys(ended, "PASS")
    assert name in paths[f"{by} all"]["rewrites"]
    if name not in NOT_WRONG:
        without = bare[f"{by} none"]
        assert without.get("verdict") != "PASS", "what the rewrite avoids is gone"


def test_a_row_without_the_rewrites_fails_and_names_the_known_cause(make_checkout):
    paths = shipped("frontends", "torchmlir-torch")
    paths["bare"] = paths["torchmlir-torch"] | {"options": BARE[1]}
    made = make_checkout("known", models={}, targets=ON_CPU, baselines={}, frontends=paths)
    keep_models(made)
    (made.path / "models/nan.py").write_text("import torch\nfrom torch import nn\n" + text("F.relu6(x), F.relu(x)", (SPECIAL,)))  # fmt: skip
    (made.path / "models/log10.py").write_text("import torch\nfrom torch import nn\n" + text("torch.log10(x)", ("torch.rand(3)",)))  # fmt: skip
    made.snakemake("--cores", "2", "results/latency.csv")
    for model, cause in (("nan", "known-miscompile: nan-is-clamped"), ("log10", "known-refusal: log10-is-not-linked")):  # fmt: skip
        right, wrong = (made.row(model, path, "llvm-cpu") for path in ("torchmlir-torch", "bare"))
        assert right["verification_code"] == "PASS", right["detail"]
        assert wrong["status"] == "error"
        assert f"; {cause}" in wrong["detail"], wrong["detail"]
