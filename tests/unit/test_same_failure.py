"""same_failure: what makes two failures the same, for pages, bisections and reductions alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.supervise.diagnose import Diagnosis, failure_signature, readable_detail
from scripts.tools.reproduce import reduce_program

SHARED = "function 'main_dispatch_4_conv_56x56x64x3x3x64_f32' uses 81920 bytes of shared memory; exceeded the limit of 65536 bytes [program.mlir:227: %8 = stablehlo.convolution(%7)]"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (SHARED, "function 'main_dispatch_0_matmul' uses 70000 bytes of shared memory; exceeded the limit of 65536 bytes", True),
        ("uses 131072 bytes [p.mlir:7: %3 = a.b]", "uses 1 bytes [p.mlir:9: %4 = c.d]", True),
        ("'func.func' op failed to distribute [p.mlir:5: %1 = x]", "'func.func' op failed to distribute", True),
        ('failed to bufferize op [program.mlir:586: %145 = x "y"]', "failed to bufferize op", True),
        ("function 'main$async_dispatch_8_add_7x5xf32'", "function 'main_dispatch_9_mul'", True),
        ("%12 uses 81920 bytes of @foo", "%3 uses 65536 bytes of @bar_1", True),
        ("no value %3 for @main$async", "no value %12 for @other", True),
        ("max error 1.5e-03 of (1, 2)", "max error 7 of (3, 4)", True),
        ("op 'a.b' : tensor<1x2xf32>", "op 'a.b' : tensor<?x7xbf16>", True),
        ("no map for memref<4x8xf32, strided<[8, 1]>, #hal.type<x>>", "no map for memref<4xf16, #hal.type<y>>", True),
        ("map #map3 of 'a.b'", "map #map of 'a.b'", True),
        ("in run (/a/b/x.py:9)", "in run (/c/d/e/x.py:7)", True),
        ("tensor<4xf32> at 0x7f01 in /a/b/c.py:12", "tensor<8xf16> at 0x9a in /d/e/f.py:7", True),
        ("failed to legalize operation 'torch.aten.sort'", "failed to legalize operation 'torch.aten.topk'", False),
        ("no kernel for f32", "no kernel for f16", False),
        ("conv2d failed", "conv3d failed", False),
        ("not [a:b] here", "not [a:c] here", False),
        ("uses bytes of shared memory", "uses shared memory", False),
    ],
)  # fmt: skip
def test_numbers_names_types_and_places_do_not_make_another_failure_and_operations_do(
    one, other, same
):
    assert (failure_signature(one) == failure_signature(other)) is same


@given(st.lists(st.integers(1, 99999), min_size=5, max_size=5), st.sampled_from(["f32", "bf16"]))
def test_sizes_and_places_in_a_compilers_message_are_left_out(n, kind):
    def message(a, b, c, d, e, kind):
        return (
            f"'a.b' op operand #{a} %{b} must be memref<{c}x{d}x{kind}, #hal.type<{e}>>, got {c} of {d} bytes in "
            f"@main$async_dispatch_{e}_matmul_{a}x{b}x{kind} [program.mlir:{e}: %{a} = x]"
        )

    assert failure_signature(message(*n, kind)) == failure_signature(message(1, 2, 3, 4, 5, "f64"))


def test_a_reduction_also_needs_the_status_and_the_reason():
    of = reduce_program.kind_of(Diagnosis("error", "shared-memory-limit", SHARED))
    assert of[2] == "function uses N bytes of shared memory; exceeded the limit of N bytes"
    assert of != reduce_program.kind_of(Diagnosis("error", "distribution", SHARED))
    assert of != reduce_program.kind_of(Diagnosis("crashed", "shared-memory-limit", SHARED))


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("at /home/me/venv/lib/x.py:3", "at …/x.py:3"),
        ("('/opt/a/b.so' missing)", "('…/b.so' missing)"),
        ("c/runtime/src/iree/q.c:28: DATA_LOSS", "c/runtime/src/iree/q.c:28: DATA_LOSS"),
        ("see https://iree.dev/a/b/c", "see https://iree.dev/a/b/c"),
        ("and/or  'a'/'b'\n/usr/x", "and/or 'a'/'b' /usr/x"),
    ],
)
def test_a_detail_is_one_line_without_the_folders_of_a_machine(detail, shown):
    assert readable_detail(detail) == shown
