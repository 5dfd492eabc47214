"""Rewrites of exported graphs: those that a lowering path needs, and those that make programs faster.

Each is exact: the rewritten graph computes the same values as the original, up to the order of a sum
where its docstring says so. An exporter declares which rewrites its programs need (REWRITES), because a
frontend, or IREE behind it, does not accept the graph without them. Rewrites for speed (SPEED) are
applied by every exporter, and by baselines with `rewrites: speed`. An export names the rewrites that
changed its graph. With `rewrites: needed` no graph is rewritten for speed, and `rewrites: none` leaves
every graph as PyTorch captured it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch.export import ExportedProgram

from scripts.frontends.lowering.fx_rewrites import (
    arithmetic,
    edit,
    in_place,
    masks,
    operators,
    products,
    scatters,
    values,
    windows,
)

REWRITES: dict[str, Callable[[ExportedProgram], bool]] = {
    "adaptive-average-by-masks": windows.adaptive_average_by_masks,
    "fold-constant-nonzero": operators.fold_constant_nonzero,
    "nothing-as-constant": values.without_elements,
    "equal-to-itself-as-number": values.equal_to_itself,
    "constants-compared-as-floats": values.constants_compared_as_floats,
    "sum-over-dimensions": values.sum_over_dimensions,
    "dot-as-sum": values.dot_as_sum,
    "norm-of-order-0-as-sum": values.norm_of_order_0_as_sum,
    "diagonal-as-slice": values.diagonal_as_slice,
    "sums-of-16-bits-in-float32": values.sums_of_16_bits_in_float32,
    "variances-of-16-bits-in-float32": values.variances_of_16_bits_in_float32,
    "clamp-by-one-limit": values.clamp_by_one_limit,
    "limits-keep-nan": values.limits_keep_nan,
    "sums-of-booleans-in-int32": values.sums_of_booleans_in_int32,
    "products-of-8-bits-in-int32": values.products_of_8_bits_in_int32,
    "product-of-one-row": values.product_of_one_row,
    "sum-of-products-by-dimension": values.sum_of_products_by_dimension,
    "bytes-in-int32": values.bytes_in_int32,
    "types-promoted-first": values.types_promoted_first,
    "number-as-tensor": arithmetic.number_as_tensor,
    "unsigned-bytes-in-wider-type": values.unsigned_bytes_in_wider_type,
    "shifts-and-extremes-in-int32": values.shifts_and_extremes_in_int32,
    "asinh-of-size": arithmetic.asinh_of_size,
    "hyperbolic-near-zero": arithmetic.hyperbolic_near_zero,
    "tan-by-quadrants": arithmetic.tan_by_quadrants,
    "gelu-as-tanh": arithmetic.gelu_as_tanh,
    "logcumsumexp-by-doubling": arithmetic.logcumsumexp_by_doubling,
    "log10-by-log": arithmetic.log10_by_log,
    "index-put-of-itself": in_place.index_put_of_itself,
    "sum-into-itself-apart": in_place.sum_into_itself_apart,
    "update-of-copy": in_place.update_of_copy,
    "rms-norm-in-float32": values.rms_norm_in_float32,
    "rms-norm-with-epsilon": values.rms_norm_with_epsilon,
    "roll-within-size": values.roll_within_size,
    "sorts-of-own-shapes": in_place.sorts_of_own_shapes,
    "upsample-nearest-by-index": values.upsample_nearest_by_index,
    "pow-of-booleans": arithmetic.pow_of_booleans,
    "pow-of-size": arithmetic.pow_of_size,
    "atan2-by-signs": arithmetic.atan2_by_signs,
    "negative-pow-as-reciprocal": arithmetic.negative_pow_as_reciprocal,
    "whole-pow-of-size": arithmetic.whole_pow_of_size,
    "remainder-by-sign": arithmetic.remainder_by_sign,
    "fmod-by-remainder": arithmetic.fmod_by_remainder,
    "floor-divide-by-remainder": arithmetic.floor_divide_by_remainder,
    "averages-of-whole-windows": values.averages_of_whole_windows,
    "transposed-convolution-cropped-after": windows.crop_after_convolution,
    "negative-padding-as-slice": values.negative_padding_as_slice,
    "scan-of-booleans-in-int64": operators.scan_of_booleans_in_int64,
    "index-from-the-front": operators.index_from_the_front,
    "scatter-dimension-from-the-front": scatters.dimension_from_the_front,
    "scatter-mean-as-sum": scatters.mean_as_sum,
    "scatter-without-self": scatters.without_self,
    "scatter-reduce-into-neutral": scatters.reduce_into_neutral,
    "scatter-sum-as-add": scatters.sum_as_add,
    "scatter-add-by-rows": scatters.add_by_rows,
    "gather-by-rows": scatters.gather_by_rows,
    "project-before-aggregation": products.project_before_aggregation,
    "scatter-reduce-by-columns": scatters.reduce_by_columns,
    "mask-index-at-full-length": masks.at_full_length,
    "attention-of-masked-rows": masks.masked_rows_as_zeros,
    "scatter-from-memory": scatters.from_memory,
    "embedding-bag-as-sum": operators.embedding_bag_as_sum,
    "windows-within-input": windows.windows_within_input,
    "max-pool-with-end-padding": windows.ceil_mode_as_padding,
    "max-pool-indices-by-offsets": windows.indices_by_offsets,
    "max-pool-gradient-by-offsets": windows.gradient_by_offsets,
    "grouped-convolution-gradients-by-offsets": windows.grouped_gradients_by_offsets,
    "weight-gradients-by-offsets": windows.weight_gradients_by_offsets,
    "slice-scatter-as-concatenation": operators.slice_scatter_as_concatenation,
    "empty-as-zeros": operators.empty_as_zeros,
    "batch-norm-by-deviations": operators.batch_norm_by_deviations,
    "unpack-without-interleaving": products.unpack_without_interleaving,
    "loops-with-open-condition": operators.open_first_condition,
    "loops-carry-all": operators.carry_all_of_loops,
    "patches-as-product": windows.patches_as_product,
    "small-images-as-product": windows.small_images_as_product,
    "rows-packed-by-batch": products.rows_packed_by_batch,
}
"""All rewrites by name, in the order of application; each may rely on the ones before it. A rewrite
changes a program in place and returns whether it did."""

SPEED = (
    "project-before-aggregation",
    "weight-gradients-by-offsets",
    "unpack-without-interleaving",
    "patches-as-product",
    "small-images-as-product",
)
"""The names of those that make programs faster and that no lowering path needs."""


def apply(program: ExportedProgram, wanted: Collection[str]) -> tuple[str, ...]:
    """Rewrite a functional program in place; return the names of the rewrites that changed it, in order.

    `wanted`: names of REWRITES. A program that none of them changes is not touched. Raises ValueError for
    another name.
    """
    if unknown := sorted(set(wanted) - REWRITES.keys()):
        raise ValueError(f"rewrite {unknown[0]!r}; one of {', '.join(REWRITES)}")
    names = tuple(name for name, rewrite in REWRITES.items() if name in wanted and rewrite(program))
    if names:
        edit.finish(program)
    return names
