"""Make seeded input values on which the operator is defined and on which its result depends.

Rules make the values of a tensor argument, so that they suit the operator. Random values are drawn with numpy, because
torch's generators differ between versions. They are float32 or int64, and converted to the dtype of the tensor. If an
operator overwrites values by index, the indices do not repeat, because the order of writes differs between runtimes.

Tables give the rule of each argument; the first matching entry is used. _DERIVED has the rules of arguments that are
computed from other arguments (as a forward operator would have saved them); these are made last. _INTEGERS and _FLOATS
have the rules that depend only on the operator.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from scripts.tools.operators.calls.calling import Call, TensorSpec
from scripts.tools.operators.problems import argument_values

_LARGE = 1e3
"""Products with a number of at least this size may leave the range of float16."""
_SMALL_SUM = 1e-2
"""With BackendBench's tolerance, adding at most this number to values near 1 goes unnoticed."""
_MOST_F16 = 1e4
"""The largest scale with which normal values stay in the range of float16."""
_EXACT = {"f16": 2039, "bf16": 251}
"""The largest prime below which a dtype can represent every integer."""
_MOST_EXACT = 16_777_213  # the same for float32
_MASKS = ("b8", "u8")
_EPSILON = 1e-5
"""Of the normalisations whose statistics are computed here."""


@dataclass(frozen=True)
class Draw:
    """The input of a rule: the call, the tensor to fill, the tensors made so far, and a generator.
    `others`: tensors by (argument, place in a list)."""

    call: Call
    spec: TensorSpec
    others: dict[tuple[str, int | None], torch.Tensor]
    random: np.random.Generator

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> str:
        """Its name in traces."""
        return self.spec.tensor.dtype

    def argument(self, name: str) -> Any:
        """Return the value of another argument, or its default; for a tensor, its type."""
        if name in self.call.arguments:
            return self.call.arguments[name]
        for declared in self.call.operator._schema.arguments:
            if declared.name == name and declared.has_default_value():
                return declared.default_value
        return None

    def shape_of(self, *names: str) -> tuple[int, ...]:
        """Return the shape of the first of these arguments that is a tensor. Raises LookupError."""
        for name in names:
            if isinstance(value := self.argument(name), argument_values.Tensor):
                return value.shape
        raise LookupError(f"{self.call.problem.op} has no tensor {' or '.join(names)}")

    def made(self, name: str) -> torch.Tensor:
        """Return a tensor argument that was made before this one."""
        return self.others[name, None]


Rule = Callable[[Draw], np.ndarray | torch.Tensor]


# Floating-point values


def normal(draw: Draw) -> np.ndarray:
    return draw.random.standard_normal(draw.shape, np.float32)


def wide(draw: Draw) -> np.ndarray:
    """Return normal values of standard deviation 3. They lie on both sides of the kinks of
    activations, and give an uneven softmax."""
    return 3 * normal(draw)


def varied(draw: Draw) -> np.ndarray:
    """Return normal values whose mean and spread differ for each index of each dimension. In every
    row, the mean of independent values is near zero and their variance near one, so a constant
    would pass as their mean or variance. Here they differ between rows and along all dimensions."""
    values = normal(draw)
    along = [
        [size if i == axis else 1 for i in range(len(draw.shape))]
        for axis, size in enumerate(draw.shape)
    ]
    for shape in along:
        values *= draw.random.uniform(0.5, 1.5, shape).astype(np.float32)
    values += np.float32(0.5)
    for shape in along:
        values += draw.random.standard_normal(shape, np.float32)
    return values


def positive(draw: Draw) -> np.ndarray:
    """Return values around 1, from about 0.2 to 5."""
    return np.exp(np.float32(0.5) * normal(draw))


def away_from_zero(draw: Draw) -> np.ndarray:
    """Return values of both signs that are at least 0.5 from zero, for divisors."""
    values = normal(draw)
    return values + np.copysign(np.float32(0.5), values)


def near_one(draw: Draw) -> np.ndarray:
    """Return values near 1, whose products stay in range."""
    return 1 + np.float32(0.1) * normal(draw)


def uniform(low: float, high: float) -> Rule:
    return lambda draw: draw.random.uniform(low, high, draw.shape).astype(np.float32)


def special(draw: Draw) -> np.ndarray:
    """Return normal values, some of them replaced by NaN and infinities of both signs."""
    values = normal(draw)
    chosen = draw.random.integers(0, 12, draw.shape)
    for place, value in enumerate((np.nan, np.inf, -np.inf)):
        values = np.where(chosen == place, np.float32(value), values)
    return values


# Values that are compared, booleans and integers


def distinct(draw: Draw) -> np.ndarray:
    """Return values without ties along any dimension, as far as the dtype has enough values. The
    order of equal values differs between runtimes."""
    count = _EXACT.get(draw.dtype, _MOST_EXACT)
    step = int(draw.random.integers(count // 3, count // 2))
    places = np.arange(math.prod(draw.shape), dtype=np.int64).reshape(draw.shape)
    values = (places * step + int(draw.random.integers(count))) % count - count // 2
    if draw.spec.dtype.is_floating_point:
        return (values / 2.0 ** (count.bit_length() - 3)).astype(np.float32)
    return values


def near(numbers: Sequence[float]) -> Rule:
    """Return a rule for values near `numbers`, some of them equal, so that comparisons differ."""
    choices = np.asarray([n + step for n in numbers for step in (-1, 0, 0, 1)])
    return lambda draw: draw.random.choice(choices, draw.shape)


def coins(draw: Draw) -> np.ndarray:
    """Return booleans; True and False are equally likely."""
    return draw.random.random(draw.shape, np.float32) < 0.5


def gated_coins(draw: Draw) -> np.ndarray:
    """Return coins with some constant slices, so that `any` and `all` of a slice can be either."""
    values = coins(draw)
    rank, dims = len(draw.shape), draw.argument("dim")
    reduced = [dims] if isinstance(dims, int) else list(dims or range(rank))
    axes = {axis % max(1, rank) for axis in reduced}
    slices = [1 if axis in axes else size for axis, size in enumerate(draw.shape)]
    gate = draw.random.random(slices, np.float32) < 0.5
    return values & gate if draw.call.base == "any" else values | gate


def whole(draw: Draw) -> np.ndarray:
    """Return small integers, of both signs if the dtype is signed."""
    return draw.random.integers(0 if draw.dtype == "u8" else -8, 8, draw.shape)


def whole_positive(draw: Draw) -> np.ndarray:
    return draw.random.integers(1, 8, draw.shape)


# Indices


def whole_below(draw: Draw, limit: int) -> np.ndarray:
    """Return indices from 0 to `limit` - 1. Raises ValueError if there are none."""
    if limit < 1 and draw.spec.tensor.elements:
        raise ValueError(f"{draw.spec.argument} of {draw.call.problem.op}: no index below {limit}")
    return draw.random.integers(0, max(1, limit), draw.shape)


def rows_of(argument: str) -> Rule:
    """Return a rule for row indices of another argument."""
    return lambda draw: whole_below(draw, draw.shape_of(argument)[0])


def along_dim(draw: Draw) -> np.ndarray:
    """Return indices into dimension `dim` of `self`; they may repeat."""
    return whole_below(draw, _size(draw))


def along_dim_once(draw: Draw) -> np.ndarray:
    """Return such indices without repetition along that dimension, if there are enough."""
    size, shape = _size(draw), list(draw.shape)
    if not shape:
        return along_dim(draw)
    axis = int(draw.argument("dim")) % len(shape) if len(shape) > 1 else 0
    if shape[axis] > size:
        return along_dim(draw)
    order = draw.random.random([*shape[:axis], size, *shape[axis + 1 :]]).argsort(axis)
    return np.take(order, range(shape[axis]), axis)


def _size(draw: Draw) -> int:
    shape = draw.shape_of("self", "input")
    return shape[int(draw.argument("dim"))] if shape else 1


def classes(draw: Draw) -> np.ndarray:
    """Return targets of a loss: class indices of the second (or only) dimension of `self`."""
    scores = draw.shape_of("self")
    return whole_below(draw, scores[1] if len(scores) > 1 else scores[0])


def labels(draw: Draw) -> np.ndarray:
    """Return CTC targets: all classes except the blank, which is 0."""
    return draw.random.integers(1, max(2, draw.shape_of("log_probs")[-1]), draw.shape)


def offsets(draw: Draw) -> np.ndarray:
    """Return the offsets of bags in the indices, in ascending order from 0."""
    values = np.sort(whole_below(draw, draw.shape_of("indices")[0] + 1))
    values[:1] = 0
    return values


def list_element(draw: Draw) -> np.ndarray:
    """Return an element of the index list of `index` and `index_put`: a mask, or indices. A mask
    has one dimension for each that it indexes."""
    if draw.dtype in _MASKS:
        return _mask(draw)
    listed = draw.call.arguments["indices"]
    before = listed[: draw.spec.place or 0]
    masks = [
        item for item in before if isinstance(item, argument_values.Tensor) and item.dtype in _MASKS
    ]
    size = draw.shape_of("self")[len(before) + sum(len(mask.shape) - 1 for mask in masks)]
    tensors = [item for item in listed if isinstance(item, argument_values.Tensor)]
    count = math.prod(draw.shape)
    writes = draw.call.base.startswith(("index_put", "_index_put", "_unsafe_index_put"))
    is_one_of_several = len(tensors) > 1 and tensors[0] != draw.spec.tensor
    may_repeat = not writes or draw.argument("accumulate") or is_one_of_several
    if may_repeat or size < count or count == 0:
        return whole_below(draw, size)
    return draw.random.permutation(size)[:count].reshape(draw.shape)


def _mask(draw: Draw) -> np.ndarray:
    """Return a mask. If `values` has several rows, the mask has as many True elements as rows."""
    count = math.prod(draw.shape)
    given = draw.argument("values")
    rows = given.shape[0] if isinstance(given, argument_values.Tensor) and given.shape else 1
    if rows == 1:
        return draw.random.random(draw.shape) < 0.5
    if rows > count:
        raise ValueError(f"{draw.call.problem.op}: {rows} values for a mask of {count}")
    mask = np.zeros(count, bool)
    mask[draw.random.permutation(count)[:rows]] = True
    return mask.reshape(draw.shape)


# What a forward operator saves for its backward operator, computed from the inputs


def of_max_pool(draw: Draw) -> torch.Tensor:
    """Return the indices that the forward operator returns for `self`."""
    forward = {
        "max_pool2d_with_indices_backward": torch.ops.aten.max_pool2d_with_indices.default,
        "max_pool3d_with_indices_backward": torch.ops.aten.max_pool3d_with_indices.default,
        "adaptive_max_pool2d_backward": torch.ops.aten.adaptive_max_pool2d.default,
    }[draw.call.base]
    if draw.call.base.startswith("adaptive"):
        return forward(draw.made("self"), list(draw.shape[-2:]))[1]
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    return forward(draw.made("self"), *(draw.argument(name) for name in names))[1]


def softmax_output(draw: Draw) -> np.ndarray:
    """Return probabilities along dimension `dim`."""
    return _softmax(wide(draw), int(draw.argument("dim"))) if draw.shape else np.ones(())


def log_softmax_output(draw: Draw) -> np.ndarray:
    """Return logarithms of probabilities along dimension `dim`, or over classes."""
    if not draw.shape:
        return np.zeros(())
    dim = draw.argument("dim")
    axis = int(dim) if dim is not None else (1 if len(draw.shape) > 1 else 0)
    return np.log(_softmax(wide(draw), axis))


def _softmax(logits: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def layer_norm(draw: Draw) -> torch.Tensor:
    """Return `mean` or `rstd` of `input` over the dimensions of `normalized_shape`."""
    rows = draw.made("input").float()
    normalized = len(draw.argument("normalized_shape"))
    return _moment(draw, rows, range(rows.dim() - normalized, rows.dim()))


def group_norm(draw: Draw) -> torch.Tensor:
    """Return `mean` or `rstd` of `input` per sample and group."""
    groups = int(draw.argument("N")), int(draw.argument("group"))
    return _moment(draw, draw.made("input").float().reshape(*groups, -1), [2])


def batch_norm(draw: Draw) -> torch.Tensor | np.ndarray:
    """Return `save_mean` or `save_invstd` of `input` per channel."""
    rows = draw.made("input").float()
    if math.prod(draw.shape) != rows.shape[1]:
        return positive(draw)
    return _moment(draw, rows, [axis for axis in range(rows.dim()) if axis != 1])


def _moment(draw: Draw, rows: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    if "mean" in draw.spec.argument:
        return rows.mean(list(axes)).reshape(draw.shape)
    return (rows.var(list(axes), unbiased=False) + _EPSILON).rsqrt().reshape(draw.shape)


def attention(draw: Draw) -> torch.Tensor:
    """Return `out` or `logsumexp` of attention, for its backward operator."""
    arguments = {name: draw.argument(name) for name in ("dropout_p", "is_causal", "scale")}
    given = {name: value for name, value in arguments.items() if value is not None}
    if ("attn_mask", None) in draw.others:
        given["attn_mask"] = draw.made("attn_mask")
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    out, logsumexp = forward(draw.made("query"), draw.made("key"), draw.made("value"), **given)
    return out if draw.spec.argument == "out" else logsumexp


# Which rule an argument has

_COMPARING = ("lt", "le", "gt", "ge", "clamp", "clamp_min", "clamp_max", "masked_fill")

_DERIVED: tuple[tuple[str, str, Rule], ...] = (
    ("max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward", "indices", of_max_pool),
    ("_softmax_backward_data", "output", softmax_output),
    ("_log_softmax_backward_data", "output", log_softmax_output),
    ("nll_loss*", "self", log_softmax_output),
    ("native_layer_norm_backward", "mean rstd", layer_norm),
    ("native_group_norm_backward", "mean rstd", group_norm),
    ("*batch_norm_backward", "save_mean save_invstd save_var", batch_norm),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", "out logsumexp", attention),
)  # fmt: skip
"""(operators, arguments, rule): globs of operators without overload, names of the schema."""

_INTEGERS: tuple[tuple[str, str, Rule], ...] = (
    ("embedding embedding_backward _embedding_bag* embedding_bag embedding_renorm", "indices", rows_of("weight")),
    ("embedding_dense_backward embedding_sparse_backward", "indices", lambda draw: whole_below(draw, int(draw.argument("num_weights")))),
    ("*embedding_bag*", "offsets", offsets),
    ("scatter_add scatter_reduce gather gather_backward take_along_dim index_select index_add index_reduce", "index", along_dim),
    ("scatter index_copy index_fill", "index", along_dim_once),
    ("index index_put _index_put_impl _unsafe_index _unsafe_index_put", "indices", list_element),
    ("take put", "index", lambda draw: whole_below(draw, math.prod(draw.shape_of("self")))),
    ("nll_loss* cross_entropy_loss multi_margin_loss*", "target", classes),
    ("_ctc_loss", "targets", labels),
    ("div remainder fmod floor_divide true_divide gcd lcm", "other", whole_positive),
    ("pow", "exponent", uniform(0, 4)),
    ("bincount one_hot repeat_interleave", "self repeats", whole_positive),
    ("bitwise_left_shift bitwise_right_shift __lshift__ __rshift__", "other", uniform(0, 8)),
    ("sort topk argmax argmin argsort max min median kthvalue", "self", distinct),
)  # fmt: skip

_FLOATS: tuple[tuple[str, str, Rule], ...] = (
    ("*", "running_var var variance invstd save_invstd save_var rstd inv_std std sigma", positive),
    ("log log2 log10 sqrt rsqrt digamma lgamma polygamma mvlgamma", "self", positive),
    ("log1p", "self", uniform(-0.9, 3)),
    ("acosh", "self", uniform(1.05, 4)),
    ("acos asin atanh erfinv special_erfinv", "self", uniform(-0.95, 0.95)),
    ("logit binary_cross_entropy*", "self input", uniform(0.05, 0.95)),
    ("binary_cross_entropy* kl_div", "target", uniform(0.05, 0.95)),
    ("sigmoid_backward", "output", uniform(0.05, 0.95)),
    ("tanh_backward", "output", uniform(-0.95, 0.95)),
    ("nll_loss* cross_entropy_loss", "weight total_weight", positive),
    ("multinomial", "self", positive),
    ("reciprocal", "self", away_from_zero),
    ("div remainder fmod floor_divide true_divide atan2", "other", away_from_zero),
    ("addcdiv", "tensor2", positive),
    ("prod cumprod", "self", near_one),
    ("_softmax _log_softmax softmax log_softmax _safe_softmax cross_entropy_loss logsumexp", "self", wide),
    ("hardswish* hardsigmoid* mish* silu* gelu* softplus* elu*", "self", wide),
    ("_scaled_dot_product*", "query", wide),
    ("mean var std var_mean std_mean var_correction *adaptive_avg_pool*d avg_pool*d norm linalg_vector_norm", "self", varied),
    ("sort topk argmax argmin argsort max min median kthvalue *max_pool*", "self", distinct),
    ("isnan isinf isfinite isposinf isneginf nan_to_num", "self", special),
    ("grid_sampler*", "grid", uniform(-1, 1)),
    ("searchsorted bucketize", "sorted_sequence boundaries", lambda draw: np.sort(normal(draw))),
)  # fmt: skip


def make(call: Call, seed: int) -> list[torch.Tensor]:
    """Return a tensor for each of `call.inputs`, with the traced strides. The same seed gives the same values for a
    problem, regardless of other problems. Raises ValueError if the operator is defined on no input."""
    by_number: dict[int, torch.Tensor] = {}
    others: dict[tuple[str, int | None], torch.Tensor] = {}

    def is_derived(index: int) -> bool:
        return _rule_of(_DERIVED, call.base, call.inputs[index].argument) is not None

    for index in sorted(range(len(call.inputs)), key=is_derived):
        spec = call.inputs[index]
        random = np.random.default_rng([seed, int(call.problem.uuid[:8], 16), index])
        draw = Draw(call, spec, others, random)
        drawn = _rule(draw)(draw)
        tensor = drawn if isinstance(drawn, torch.Tensor) else torch.from_numpy(np.asarray(drawn))
        tensor = laid_out(tensor.detach().reshape(spec.shape).to(spec.dtype), spec)
        by_number[index] = others[spec.argument, spec.place] = tensor
    return [by_number[index] for index in range(len(call.inputs))]


def _rule(draw: Draw) -> Rule:
    base, argument = draw.call.base, draw.spec.argument
    if derived := _rule_of(_DERIVED, base, argument):
        return derived
    if draw.dtype == "b8":
        if base in ("index", "index_put", "_index_put_impl", "_unsafe_index_put"):
            return list_element if argument == "indices" else coins
        return gated_coins if base in ("any", "all") else coins
    numbers = _numbers(draw)
    if base in ("eq", "ne", "isin"):
        return near(numbers or [0.0, 2.0])
    if not draw.spec.dtype.is_floating_point:
        plain = near(numbers) if base in _COMPARING and numbers else whole
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
        return lambda draw: normal(draw) + np.float32(numbers[0])
    if scale := _seen_beside(draw, numbers):
        return lambda draw: np.float32(scale) * away_from_zero(draw)
    if base in ("mul", "add", "sub", "rsub") and any(abs(n) >= _LARGE for n in numbers):
        return uniform(0, 1)  # an attention mask, as (1 - mask) * -65504
    if terms := _terms(draw):
        return lambda draw: normal(draw) * np.float32(1 / math.sqrt(terms))
    if base == "convolution_backward":
        return _gradient_scale(draw)
    return normal


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
            return uniform(-2, 2)
        most = 4 / math.log(abs(base))
        return uniform(-most, most)
    if isinstance(exponent, argument_values.Tensor):
        return positive
    if float(exponent).is_integer() and exponent >= 0:
        return normal if exponent <= 4 else near_one
    return positive


def _across(numbers: list[float]) -> Rule:
    """Return a rule for values below, between and above bounds."""
    low, high = min(numbers), max(numbers)
    width = min(max(high - low, 2.0), 100.0)
    return uniform(low - width, high + width)


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
    return lambda draw: np.float32(scale) * normal(draw)


def _rule_of(table: Iterable[tuple[str, str, Rule]], base: str, argument: str) -> Rule | None:
    for operators, arguments, rule in table:
        fits = argument in arguments.split()
        if fits and any(fnmatch.fnmatchcase(base, glob) for glob in operators.split()):
            return rule
    return None


def laid_out(tensor: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """Return the values with the traced stride. If several indices share a place in memory, it gets
    one of their values."""
    shape, stride = spec.shape, spec.tensor.stride
    if stride is None:
        return tensor
    if not tensor.numel():
        return torch.empty_strided(shape, stride, dtype=spec.dtype)
    steps = list(zip(shape, stride, strict=True))
    extent = 1 + sum((size - 1) * step for size, step in steps)
    memory = torch.zeros(extent, dtype=spec.dtype)
    apart = tuple(slice(None) if step else slice(1) for _, step in steps)
    sizes = [size if step else 1 for size, step in steps]
    if extent < math.prod(sizes):
        memory.copy_(tensor.flatten()[:extent])
    else:
        memory.as_strided(sizes, stride).copy_(tensor[apart])
    return memory.as_strided(shape, stride)
