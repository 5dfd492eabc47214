"""The same dispatch of another program, and the order of what the compiler prints of passes."""

from __future__ import annotations

import pytest

from scripts.tools.profile import read_dispatch
from scripts.tools.profile.read_dispatch import counterpart

NAMES = ("main_dispatch_1_conv_8x8", "main_dispatch_8_conv_8x8", "main_dispatch_9_matmul", "_encoding_0_encode_4")  # fmt: skip


@pytest.mark.parametrize(
    ("function", "found"),
    [
        ("main_dispatch_1_conv_8x8", "main_dispatch_1_conv_8x8"),
        ("main_dispatch_6_conv_8x8", "main_dispatch_8_conv_8x8"),
        ("main$async_dispatch_3_matmul", "main_dispatch_9_matmul"),
        ("main_dispatch_9_matmul_4x4", ""),
        ("main", ""),
    ],
)
def test_a_dispatch_of_another_program_is_found_by_what_it_computes(function, found):
    assert counterpart(function, dict.fromkeys(NAMES)) == found


def test_passes_are_in_the_order_in_which_they_ran(tmp_path):
    """The numbers of passes that ran on a function begin with those of what contains it."""
    module = "module/executable/variant/inner"
    printed = {
        "module/3_fold": ("FoldPass", "a"),
        f"{module}/1_0_10_cse": ("CSE", "b"),
        f"{module}/1_0_9_iree-op-pipeline-adaptor": ("x::OpPipelineAdaptorPass", "a"),
        f"{module}/func/1_0_9_0_tile": ("TilePass", "a"),
        f"{module}/func/1_0_9_1_cse": ("CSE", "a"),
        f"{module}/func/1_0_9_2_fuse": ("FusePass", "b"),
    }
    for path, (name, text) in printed.items():
        file = tmp_path / f"tree/{path}.mlir"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"// -----// IR Dump After {name}: x //----- //\n{text}")
    found = read_dispatch._passes(tmp_path / "tree", tmp_path / "passes")
    assert [(each["file"], each["changed"]) for each in found] == [
        ("001-iree-op-pipeline-adaptor.mlir", False),
        ("002-tile.mlir", True),
        ("003-cse.mlir", False),
        ("004-fuse.mlir", True),
        ("005-cse.mlir", True),
    ]
    assert (tmp_path / "passes/004-fuse.mlir").read_text().endswith("//\nb")
