"""scripts.features.variants.specs: lowering configurations, the search for a faster one, and the text of a tuning spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.features.variants.specs import search, spec
from scripts.features.variants.specs.dispatches import (
    Dispatch,
    LoweringConfig,
    Operation,
    benchmarked,
)
from scripts.features.variants.specs.search import CHALLENGERS, Descent, descend
from scripts.iree import compile_options

TEXT = "#iree_cpu.lowering_config<distribution = [32, 64, 0], vector_common_parallel = [8, 16, 0], vector_reduction = [0, 0, 16]>"
CONFIG = LoweringConfig.parse(TEXT)
assert CONFIG

configs = st.lists(
    st.tuples(
        st.from_regex(r"[a-z][a-z_]*", fullmatch=True),
        st.lists(st.integers(0, 4096), min_size=1, max_size=6).map(tuple),
    ),
    min_size=1,
    max_size=4,
).map(lambda levels: LoweringConfig(tuple(levels)))


@given(configs)
def test_a_configuration_is_what_its_text_says(config):
    assert LoweringConfig.parse(str(config)) == config


@pytest.mark.parametrize(
    "text",
    [
        "#iree_codegen.lowering_config<tile_sizes = [[4, 4]]>",
        "#iree_gpu.lowering_config<{workgroup = [64, 64, 0]}>",
        "#iree_cpu.lowering_config<vector_common_parallel = [8, [16], 0]>",
        "#iree_cpu.lowering_config<>",
        "",
    ],
)
def test_what_is_more_than_sizes_is_no_configuration_of_sizes(text):
    assert LoweringConfig.parse(text) is None


@given(configs, st.integers(1, 4096))
def test_a_neighbour_differs_in_one_size_by_a_factor_of_two(config, largest):
    def sizes(of: LoweringConfig) -> list[int]:
        return [size for _, found in of.levels for size in found]

    found = list(config.neighbours(largest))
    assert len(set(found)) == len(found)
    for one in found:
        assert [name for name, _ in one.levels] == [name for name, _ in config.levels]
        [(before, after)] = [
            pair for pair in zip(sizes(config), sizes(one), strict=True) if len(set(pair)) > 1
        ]
        assert before > 0, "a loop that is not tiled stays so"
        assert after in (before // 2, before * 2)
        assert after >= 1
        assert after < before or before < largest


@dataclass
class Surface:
    """Trials whose times are the distance from a configuration, in factors of two. `refused`: not compiled."""

    best: LoweringConfig
    limit: int = 1000
    refused: frozenset[LoweringConfig] = frozenset()
    flat: bool = False
    asked: list[LoweringConfig] = field(default_factory=list)
    compared: int = 0

    def _ms(self, one: LoweringConfig) -> float:
        pairs = zip(one.levels, self.best.levels, strict=True)
        off = sum(
            abs(a.bit_length() - b.bit_length())
            for (_, mine), (_, other) in pairs
            for a, b in zip(mine, other, strict=True)
        )
        return 1.0 + (0.001 if self.flat else 0.2) * off

    def times(self, configs):
        self.asked += configs
        return {one: None if one in self.refused else self._ms(one) for one in configs}

    def ratio(self, before, after):
        self.compared += 1
        return self._ms(before) / self._ms(after)

    def is_over(self):
        return len(self.asked) >= self.limit


BEST = LoweringConfig.parse(
    TEXT.replace("[32, 64, 0]", "[8, 64, 0]").replace("[8, 16, 0]", "[16, 16, 0]")
)
assert BEST


def test_the_search_goes_to_the_fastest_configuration():
    surface = Surface(BEST)
    found = descend(CONFIG, 4096, surface)
    assert found.found == BEST
    assert found.gain == pytest.approx(surface._ms(CONFIG) / surface._ms(BEST))
    assert len(set(surface.asked)) == len(surface.asked) == found.tried, "each is tried once"


def test_differences_within_the_noise_are_no_steps():
    surface = Surface(BEST, flat=True)
    found = descend(CONFIG, 4096, surface)
    assert (found.found, found.gain) == (CONFIG, 1.0)
    assert surface.compared == CHALLENGERS


def test_what_the_compiler_refuses_is_counted_and_left_out():
    step = LoweringConfig.parse(TEXT.replace("[32, 64, 0]", "[16, 64, 0]"))
    found = descend(CONFIG, 4096, Surface(BEST, refused=frozenset({step})))
    assert found.failed == 1
    assert found.gain > 1


def test_no_neighbours_are_tried_when_the_time_is_over():
    assert descend(CONFIG, 4096, Surface(BEST, limit=0)) == Descent(CONFIG)


class Lucky(Surface):
    """All configurations take the same time, and each step looks faster by chance."""

    def ratio(self, before, after):
        self.compared += 1
        return 1.0 if before == CONFIG and self.compared > 1 else 1.5


def test_a_gain_is_measured_after_the_search_and_not_the_product_of_its_steps():
    surface = Lucky(BEST, limit=60)
    found = descend(CONFIG, 4096, surface)
    assert surface.compared > 2, "steps were taken"
    assert (found.found, found.gain) == (CONFIG, 1.0)


def test_a_compilation_with_a_spec_takes_one_dispatch_at_a_time(tmp_path):
    program = tmp_path / "program.mlir"
    program.write_text("func.func @main() {\n")
    assert compile_options.flags_for_program(
        program, ["--iree-codegen-tuning-spec-path=x.mlir"]
    ) == ["--mlir-disable-threading"]
    assert compile_options.flags_for_program(program, ["--iree-opt-level=O3"]) == []


def test_nothing_is_compared_when_the_time_is_over():
    surface = Surface(BEST, limit=1)
    found = descend(CONFIG, 4096, surface)
    assert (found.found, surface.compared) == (CONFIG, 0)
    assert found.tried > 0


MM = Operation("%0 = linalg.matmul …", ("tensor<32x1536xf32>", "tensor<1536x64xf32>", "tensor<32x64xf32>"), "#p", CONFIG)  # fmt: skip
ADD = Operation("%0 = linalg.add …", ("tensor<8xf32>",), "#p", CONFIG)
SOFTMAX = Operation("%0 = linalg.softmax …", ("tensor<?xf32>",), "#p", CONFIG)


def test_the_largest_dimension_is_that_of_an_operand():
    assert (MM.largest, ADD.largest, SOFTMAX.largest) == (1536, 8, 1)


def test_dispatches_with_the_same_operation_belong_together():
    def dispatch(name: str, operation: Operation) -> Dispatch:
        return Dispatch((name,), Path(f"{name}.mlir"), operation)

    found = [dispatch("a", MM), dispatch("b", ADD), dispatch("c", MM), dispatch("d", SOFTMAX)]
    shares = {"a": 0.2, "b": 0.45, "c": 0.33, "d": 0.02}
    weighed = search.by_operation(found, shares)
    assert [(round(share, 2), [one.functions[0] for one in same]) for share, same in weighed] == [
        (0.53, ["c", "a"]),
        (0.45, ["b"]),
    ], "the slowest first; one that takes 2 % is left out"


def test_a_spec_has_a_matcher_for_each_operation():
    text = spec.text({MM: BEST, ADD: CONFIG})
    assert text.count("transform.iree.match.cast_compatible_dag_from_root") == 2
    assert str(BEST) in text
    assert "@match_0 -> @apply_op_config,\n        @match_1 -> @apply_op_config\n" in text
    assert "^bb0(%arg0: tensor<32x1536xf32>, %arg1: tensor<1536x64xf32>, %arg2: tensor<32x64xf32>):" in text  # fmt: skip


def test_the_spec_of_flags_is_the_file_that_they_name():
    assert compile_options.named_spec(["--a", f"{compile_options.SPEC_FLAG}=x/y.mlir"]) == Path(
        "x/y.mlir"
    )
    assert compile_options.named_spec(["--a=b"]) is None


def test_the_function_of_a_benchmark_is_its_public_one():
    text = 'util.func private @no(\n util.func public @"main$async_dispatch_0_x"(%arg0: i32)'
    assert benchmarked(text) == "main$async_dispatch_0_x"
    assert benchmarked("util.func public @main$x_0(%a: i32)") == "main$x_0"
