"""Make seeded input values on which the operator is defined and on which its result depends.

Tables give the rule of each argument; the first matching entry is used. _DERIVED has the rules of
arguments that are computed from other arguments (as a forward operator would have saved them);
these are made last. _INTEGERS and _FLOATS have the rules that depend only on the operator.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from scripts.features.operators.calls import draws
from scripts.features.operators.calls.calling import Call, TensorSpec
from scripts.features.operators.calls.draws import Draw, Rule
from scripts.features.operators.problems import argument_values

_LARGE = 1e3
"""Products with a number of at least this size may leave the range of float16."""
_SMALL_SUM = 1e-2
"""With BackendBench's tolerance, adding at most this number to values near 1 goes unnoticed."""
_MOST_F16 = 1e4
"""The largest scale with which normal values stay in the range of float16."""

_COMPARING = ("lt", "le", "gt", "ge", "clamp", "clamp_min", "clamp_max", "masked_fill")

_DERIVED: tuple[tuple[str, str, Rule], ...] = (
    ("max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward", "indices", draws.of_max_pool),
    ("_softmax_backward_data", "output", draws.softmax_output),
    ("_log_softmax_backward_data", "output", draws.log_softmax_output),
    ("nll_loss*", "self", draws.log_softmax_output),
    ("native_layer_norm_backward", "mean rstd", draws.layer_norm),
    ("native_group_norm_backward", "mean rstd", draws.group_norm),
    ("*batch_norm_backward", "save_mean save_invstd save_var", draws.batch_norm),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", "out logsumexp", draws.attention),
)  # fmt: skip
"""(operators, arguments, rule): globs of operators without overload, names of the schema."""

_INTEGERS: tuple[tuple[str, str, Rule], ...] = (
    ("embedding embedding_backward _embedding_bag* embedding_bag embedding_renorm", "indices", draws.rows_of("weight")),
    ("embedding_dense_backward embedding_sparse_backward", "indices", draws.below_argument("num_weights")),
    ("*embedding_bag*", "offsets", draws.offsets),
    ("scatter_add scatter_reduce gather gather_backward take_along_dim index_select index_add index_reduce", "index", draws.along_dim),
    ("scatter index_copy index_fill", "index", draws.along_dim_once),
    ("index index_put _index_put_impl _unsafe_index _unsafe_index_put", "indices", draws.list_element),
    ("take put", "index", draws.elements_of_self),
    ("nll_loss* cross_entropy_loss multi_margin_loss*", "target", draws.classes),
    ("_ctc_loss", "targets", draws.labels),
    ("div remainder fmod floor_divide true_divide gcd lcm", "other", draws.whole_positive),
    ("pow", "exponent", draws.uniform(0, 4)),
    ("bincount one_hot repeat_interleave", "self repeats", draws.whole_positive),
    ("bitwise_left_shift bitwise_right_shift __lshift__ __rshift__", "other", draws.uniform(0, 8)),
    ("sort topk argmax argmin argsort max min median kthvalue", "self", draws.distinct),
)  # fmt: skip

_FLOATS: tuple[tuple[str, str, Rule], ...] = (
    ("*", "running_var var variance invstd save_invstd save_var rstd inv_std std sigma", draws.positive),
    ("log log2 log10 sqrt rsqrt digamma lgamma polygamma mvlgamma", "self", draws.positive),
    ("log1p", "self", draws.uniform(-0.9, 3)),
    ("acosh", "self", draws.uniform(1.05, 4)),
    ("acos asin atanh erfinv special_erfinv", "self", draws.uniform(-0.95, 0.95)),
    ("logit binary_cross_entropy*", "self input", draws.uniform(0.05, 0.95)),
    ("binary_cross_entropy* kl_div", "target", draws.uniform(0.05, 0.95)),
    ("sigmoid_backward", "output", draws.uniform(0.05, 0.95)),
    ("tanh_backward", "output", draws.uniform(-0.95, 0.95)),
    ("nll_loss* cross_entropy_loss", "weight total_weight", draws.positive),
    ("multinomial", "self", draws.positive),
    ("reciprocal", "self", draws.away_from_zero),
    ("div remainder fmod floor_divide true_divide atan2", "other", draws.away_from_zero),
    ("addcdiv", "tensor2", draws.positive),
    ("prod cumprod", "self", draws.near_one),
    ("_softmax _log_softmax softmax log_softmax _safe_softmax cross_entropy_loss logsumexp", "self", draws.wide),
    ("hardswish* hardsigmoid* mish* silu* gelu* softplus* elu*", "self", draws.wide),
    ("_scaled_dot_product*", "query", draws.wide),
    ("mean var std var_mean std_mean var_correction *adaptive_avg_pool*d avg_pool*d norm linalg_vector_norm", "self", draws.varied),
    ("sort topk argmax argmin argsort max min median kthvalue *max_pool*", "self", draws.distinct),
    ("isnan isinf isfinite isposinf isneginf nan_to_num", "self", draws.special),
    ("grid_sampler*", "grid", draws.uniform(-1, 1)),
    ("searchsorted bucketize", "sorted_sequence boundaries", lambda draw: np.sort(draws.normal(draw))),
)  # fmt: skip


def make(call: Call, seed: int) -> list[torch.Tensor]:
    """Return a tensor for each of `call.inputs`, with the traced strides. The same seed gives the same values for a
    problem, regardless of other problems. Raises ValueError if the operator is defined on no input."""
    made: dict[int, torch.Tensor] = {}
    others: dict[tuple[str, int | None], torch.Tensor] = {}

    def is_derived(index: int) -> bool:
        return _rule_of(_DERIVED, call.base, call.inputs[index].argument) is not None

    for index in sorted(range(len(call.inputs)), key=is_derived):
        spec = call.inputs[index]
        random = np.random.default_rng([seed, int(call.problem.uuid[:8], 16), index])
        draw = Draw(call, spec, others, random)
        drawn = _rule(draw)(draw)
        tensor = drawn if isinstance(drawn, torch.Tensor) else torch.from_numpy(np.asarray(drawn))
        tensor = _laid_out(tensor.detach().reshape(spec.shape).to(spec.dtype), spec)
        made[index] = others[spec.argument, spec.place] = tensor
    return [made[index] for index in range(len(call.inputs))]


def laid_out(call: Call, stored: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return contiguous tensors of `call.inputs` with the traced strides."""
    return [_laid_out(tensor, spec) for tensor, spec in zip(stored, call.inputs, strict=True)]


def _rule(draw: Draw) -> Rule:
    base, argument = draw.call.base, draw.spec.argument
    if derived := _rule_of(_DERIVED, base, argument):
        return derived
    if draw.dtype == "b8":
        if base in ("index", "index_put", "_index_put_impl", "_unsafe_index_put"):
            return draws.list_element if argument == "indices" else draws.coins
        return draws.gated_coins if base in ("any", "all") else draws.coins
    numbers = _numbers(draw)
    if base in ("eq", "ne", "isin"):
        return draws.near(numbers or [0.0, 2.0])
    if not draw.spec.dtype.is_floating_point:
        plain = draws.near(numbers) if base in _COMPARING and numbers else draws.whole
        return _rule_of(_INTEGERS, base, argument) or plain
    return _float_rule(draw, numbers)


def _float_rule(draw: Draw, numbers: list[float]) -> Rule:
    base, argument = draw.call.base, draw.spec.argument
    if rule := _rule_of(_FLOATS, base, argument):
        return rule
    if base == "pow":
        return _power(draw)
    if base.startswith(("clamp", "hardtanh")) and numbers and argument != "grad_output":
        return _across(numbers)
    is_compared = base.startswith("threshold") and argument == "self"
    if numbers and (is_compared or base in ("lt", "le", "gt", "ge")):
        return lambda draw: draws.normal(draw) + np.float32(numbers[0])
    if scale := _seen_beside(draw, numbers):
        return lambda draw: np.float32(scale) * draws.away_from_zero(draw)
    if base in ("mul", "add", "sub", "rsub") and any(abs(n) >= _LARGE for n in numbers):
        return draws.uniform(0, 1)  # an attention mask, as (1 - mask) * -65504
    if terms := _terms(draw):
        return lambda draw: draws.normal(draw) * np.float32(1 / math.sqrt(terms))
    if base == "convolution_backward":
        return _gradient_scale(draw)
    return draws.normal


def _seen_beside(draw: Draw, numbers: list[float]) -> float:
    """Return a scale at which dividing by a large number, or adding a small one, can be seen.
    Returns 0 if it can be seen at any scale."""
    if draw.spec.argument != "self" or not numbers:
        return 0.0
    number = abs(numbers[0])
    if draw.call.base == "div" and number >= 1 / _SMALL_SUM:
        return min(number, _MOST_F16) if draw.dtype == "f16" else number
    if draw.call.base in ("add", "sub", "rsub") and 0 < number <= _SMALL_SUM:
        return 3 * number
    return 0.0


def _power(draw: Draw) -> Rule:
    """Return a rule for bases that the exponent allows, or for exponents with results in range."""
    exponent = draw.argument("exponent")
    if draw.spec.argument == "exponent":
        base = draw.argument("self")
        if isinstance(base, argument_values.Tensor) or abs(base) <= math.e:
            return draws.uniform(-2, 2)
        most = 4 / math.log(abs(base))
        return draws.uniform(-most, most)
    if isinstance(exponent, argument_values.Tensor):
        return draws.positive
    if float(exponent).is_integer() and exponent >= 0:
        return draws.normal if exponent <= 4 else draws.near_one
    return draws.positive


def _across(numbers: list[float]) -> Rule:
    """Return a rule for values below, between and above bounds."""
    low, high = min(numbers), max(numbers)
    width = min(max(high - low, 2.0), 100.0)
    return draws.uniform(low - width, high + width)


def _numbers(draw: Draw) -> list[float]:
    """Return the finite numbers among the arguments that values are compared with or bounded by."""
    names = ("other", "value", "threshold", "min", "max", "min_val", "max_val", "test_element")
    numbers = [draw.argument(name) for name in names]
    return [n for n in numbers if type(n) in (int, float) and math.isfinite(n)]


def _terms(draw: Draw) -> int:
    """Return how many products with this operand are summed for one value of the result. Returns 0
    if it is not the second operand of a product."""
    shape = draw.shape
    match draw.call.base, draw.spec.argument:
        case ("mm" | "addmm" | "_int_mm" | "_addmm_activation" | "bmm", "mat2"):
            return shape[-2]
        case ("baddbmm" | "addbmm", "batch2"):
            return shape[-2]
        case ("mv" | "addmv", "vec") | ("dot" | "vdot", "tensor"):
            return shape[0]
        case ("convolution" | "_convolution" | "conv1d" | "conv2d" | "conv3d", "weight"):
            is_transposed = draw.argument("transposed") is True
            return math.prod(shape) // max(1, shape[1 if is_transposed else 0])
        case ("linear", "weight"):
            return shape[-1]
    return 0


def _gradient_scale(draw: Draw) -> Rule:
    """Return a rule that keeps the gradients of the input and the weight in the range of float16.

    `positions`: the positions of the output. `terms`: how many terms are summed for one value of
    the input's gradient. The weight's gradient is a sum over positions, so the scale of grad_output
    is positions^(-1/4), and the scale of the weight is positions^(1/4) / sqrt(terms).
    """
    gradient, weight = draw.shape_of("grad_output"), draw.shape_of("weight")
    positions = max(1, math.prod(gradient) // max(1, gradient[1]))
    terms = max(1, math.prod(weight) // max(1, weight[1]))
    scales = {"grad_output": positions**-0.25, "weight": positions**0.25 / math.sqrt(terms)}
    scale = scales.get(draw.spec.argument, 1.0)
    return lambda draw: np.float32(scale) * draws.normal(draw)


def _rule_of(table: Iterable[tuple[str, str, Rule]], base: str, argument: str) -> Rule | None:
    for operators, arguments, rule in table:
        fits = argument in arguments.split()
        if fits and any(fnmatch.fnmatchcase(base, glob) for glob in operators.split()):
            return rule
    return None


def _laid_out(found: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """Return the values with the traced stride. If several indices share a place in memory, it gets
    one of their values."""
    shape, stride = spec.shape, spec.tensor.stride
    if stride is None:
        return found
    if not found.numel():
        return torch.empty_strided(shape, stride, dtype=spec.dtype)
    steps = list(zip(shape, stride, strict=True))
    extent = 1 + sum((size - 1) * step for size, step in steps)
    memory = torch.zeros(extent, dtype=spec.dtype)
    apart = tuple(slice(None) if step else slice(1) for _, step in steps)
    sizes = [size if step else 1 for size, step in steps]
    if extent < math.prod(sizes):
        memory.copy_(found.flatten()[:extent])
    else:
        memory.as_strided(sizes, stride).copy_(found[apart])
    return memory.as_strided(shape, stride)
