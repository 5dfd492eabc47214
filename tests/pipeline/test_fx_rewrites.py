"""The rewrites of exported graphs: exact on random graphs, named, and switched off by `none`."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from scripts.config import plugins
from tests.checkouts import EAGER, in_environment, keep_models, params, run_module, shipped
from tests.pipeline import test_known_miscompiles as known
from tests.pipeline import test_user_models as user_models

ENVIRONMENT = {"stablehlo": "torch-mlir", "xla": "torch-xla", "speed": "torch-mlir"}
DIALECTS = ("torch", "linalg-on-tensors", "stablehlo")
SEED, COUNT = 3, 2
"""Random graphs of each family that draws a kind, by lowering path; with this seed, each rewrite has one that it changes."""
EVERYWHERE = {
    "logcumsumexp-by-doubling",
    "fold-constant-nonzero",
    "scatter-mean-as-sum",
    "scatter-without-self",
    "scatter-sum-as-add",
    "scatter-add-by-rows",
    "gather-by-rows",
    "scatter-reduce-by-columns",
    "project-before-aggregation",
    "mask-index-at-full-length",
    "scatter-from-memory",
    "embedding-bag-as-sum",
    "max-pool-indices-by-offsets",
    "max-pool-gradient-by-offsets",
    "weight-gradients-by-offsets",
    "unpack-without-interleaving",
    "patches-as-product",
    "small-images-as-product",
}
ONLY_STABLEHLO = {
    "index-from-the-front",
    "max-pool-with-end-padding",
    "slice-scatter-as-concatenation",
    "scatter-reduce-into-neutral",
}
NOT_STABLEHLO = {
    "gelu-as-tanh",
    "limits-keep-nan",
    "products-of-8-bits-in-int32",
    "unsigned-bytes-in-wider-type",
    "bytes-in-int32",
    "sorts-of-own-shapes",
    "asinh-of-size",
    "hyperbolic-near-zero",
    "scatter-dimension-from-the-front",
    "log10-by-log",
    "negative-padding-as-slice",
    "transposed-convolution-cropped-after",
}
"""Those of test_known_miscompiles.py, which torch-mlir's StableHLO does not need."""
EXPECTED = {
    "stablehlo": EVERYWHERE
    | ONLY_STABLEHLO
    | {
        "grouped-convolution-gradients-by-offsets",
        "empty-as-zeros",
        "nothing-as-constant",
        "equal-to-itself-as-number",
        "sums-of-booleans-in-int32",
    },
    "xla": EVERYWHERE
    | {
        "scan-of-booleans-in-int64",
        "batch-norm-by-deviations",
        "clamp-by-one-limit",
        "sum-over-dimensions",
    },
    "speed": {
        "project-before-aggregation",
        "weight-gradients-by-offsets",
        "unpack-without-interleaving",
        "patches-as-product",
        "small-images-as-product",
    },
}


@pytest.fixture(scope="module")
def judged(environments):
    """A function that judges random graphs for a lowering path, once per path."""
    found: dict[str, list[dict]] = {}

    def judge(path: str) -> list[dict]:
        if path not in found:
            python = environments / ENVIRONMENT[path] / "bin/python"
            done = run_module(python, "tests.pipeline.fx_rewrites_in_torch", path, SEED, COUNT)
            assert done.returncode == 0, done.stderr[-3000:]
            found[path] = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
        return found[path]

    return judge


@pytest.mark.parametrize("path", ENVIRONMENT)
def test_a_rewritten_graph_gives_the_results_of_the_original(judged, path):
    different = [case for case in judged(path) if not case["equal"]]
    assert not different, different[:3]
    assert len(judged(path)) >= 9


@pytest.mark.parametrize("path", ENVIRONMENT)
def test_each_rewrite_of_a_lowering_path_is_applied_and_named(judged, path):
    named = Counter(name for case in judged(path) for name in case["rewrites"])
    assert set(named) == EXPECTED[path]
    for case in judged(path):
        assert case["touched"] == bool(case["rewrites"]), case


def test_dialects_have_the_same_rewrites_but_those_that_one_does_not_need():
    rewrites = plugins.exporter("torch_mlir").rewrites
    of = {name: {n for n, into in rewrites.items() if name in into} for name in DIALECTS}
    assert of["torch"] == of["linalg-on-tensors"] == of["stablehlo"] - ONLY_STABLEHLO - {*known.ONLY_STABLEHLO} | NOT_STABLEHLO  # fmt: skip


@pytest.mark.parametrize("path", ENVIRONMENT)
def test_what_needs_no_rewrite_is_not_touched(judged, path):
    families = {"plain", "arange_index", "counted_mask", "uneven_bags", "plain_pools"}
    families |= {"gathered_elements", "kept_steps"}
    assert not any(case["touched"] for case in judged(path) if case["case"] in families)


@pytest.mark.parametrize("path", ENVIRONMENT)
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("project-before-aggregation", "aggregated"),
        ("unpack-without-interleaving", "interleaved"),
        ("patches-as-product", "patches"),
        ("small-images-as-product", "small_images"),
        ("weight-gradients-by-offsets", "ungrouped_steps"),
    ],
)
def test_a_rewrite_for_speed_is_applied_where_it_is_less_work_and_nowhere_else(
    judged, path, name, family
):
    for case in judged(path):
        assert (name in case["rewrites"]) == (case["case"] == family), case


@pytest.mark.parametrize("path", [path for path in ENVIRONMENT if path != "speed"])
def test_no_shape_depends_on_data_where_a_mask_could_be_followed(judged, path):
    for case in judged(path):
        if case["case"] in ("masked_graph", "masked_step", "constant_nonzero"):
            assert case["dynamic"] == 0, case


def test_a_scatter_reduce_is_right_by_every_dialect_of_torch_mlir(environments, tmp_path):
    """By rows, by elements, of integers, with a NaN."""
    text = user_models.model(
        "s, x, i, j, n",
        "rows = i.view(-1, 1).expand(5, 3); return [s.scatter_reduce(0, rows, x, kind) for kind in ('amax', 'amin', 'prod')]"
        " + [s.scatter_reduce(0, j, x, kind, include_self=False) for kind in ('amax', 'prod', 'mean')]"
        " + [x.scatter_reduce(1, j % 3, x * 2, 'amin'), n[:4].scatter_reduce(0, i, n, 'amax'), n[:4].scatter_reduce(0, i, n, 'prod')]",
    ) + user_models.inputs(
        "(torch.randn(4, 3), torch.randn(5, 3).index_fill(0, torch.tensor([2]), torch.nan), torch.tensor([3, 0, 1, 0, 3]),"
        " torch.randint(0, 4, (5, 3)), torch.randint(-9, 9, (5,)))"
    )
    files = user_models.written(tmp_path, {"reductions": text})
    ended = user_models.run(
        environments / "torch-mlir/bin/python",
        tmp_path,
        files,
        [user_models.TORCH, user_models.STABLEHLO, user_models.LINALG],
        True,
    )
    paths = ended["reductions"]["paths"]
    assert [of.get("verdict", of) for of in paths.values()] == ["PASS"] * 3, paths


@pytest.mark.parametrize("path", [path for path in ENVIRONMENT if path != "speed"])
def test_what_a_training_step_adds_is_always_rewritten(judged, path):
    needed = {
        "pool_steps": {"max-pool-indices-by-offsets", "max-pool-gradient-by-offsets"},
        "batch_norm_steps": {"batch-norm-by-deviations"} if path == "xla" else set(),
        "gathered_rows": {"gather-by-rows"},
        "embedding_gradient": {"scatter-from-memory"},
        "ungrouped_steps": {"weight-gradients-by-offsets"},
    }
    if path != "xla":
        needed["grouped_steps"] = {"grouped-convolution-gradients-by-offsets"}
        needed["unset_values"] = {"empty-as-zeros"}
    for case in judged(path):
        assert needed.get(case["case"], set()) <= set(case["rewrites"]), case


SMALL = {"num_nodes": 60, "num_edges": 300, "features": 24}
TORCH, STABLEHLO, XLA = "torchmlir-torch", "torchmlir-stablehlo", "torchxla-stablehlo"
PATHS = shipped("frontends", TORCH, STABLEHLO, "torchmlir-linalg", XLA)
BY = {
    "gcn": [STABLEHLO, XLA],
    "graphsage": [*PATHS],
    "gat": [TORCH, STABLEHLO, XLA],
    "gatv2": [STABLEHLO],  # the operators of gat
}
"""Linalg has the rewrites of the torch dialect: one graph network goes through it too."""
OF_RELEASE = ("gat", "gatv2")
BARE = {
    f"bare-{name}": {**PATHS[name], "options": PATHS[name]["options"] | {"rewrites": "none"}}
    for name in (STABLEHLO, XLA)
}


@pytest.fixture(scope="module")
def checkout(make_checkout, selected):
    """The graph networks through the lowering paths, and GCN through two without rewrites."""
    names = selected(BY, OF_RELEASE)
    overrides = {name: {"frontends": BY[name] + [*BARE]} for name in names}
    made = make_checkout(
        "graphs",
        models=dict.fromkeys(names, SMALL),
        frontends=PATHS | BARE,
        targets={"cpu": {"backend": "llvm-cpu", "opt_level": "O3", "overrides": overrides}},
        baselines={"eager+rewrite": EAGER["eager"] | {"rewrites": "speed"}},
    )
    keep_models(made, *names)
    made.snakemake(
        "--cores", "2", "results/latency.csv", "--config", f"frontends={','.join(PATHS)}"
    )
    return made


@pytest.mark.parametrize("name", params(BY, OF_RELEASE))
def test_a_graph_network_is_verified_through_every_lowering_path(checkout, name):
    for path in BY[name]:
        row = checkout.row(name, path, "cpu")
        assert (row["status"], row["verification_code"]) == ("ok", "PASS"), row
        named = row["rewrites"].split("; ")
        assert named[0]
        assert ("project-before-aggregation" in named) == (name == "graphsage")


def test_eager_runs_the_graph_that_is_rewritten_for_speed_and_none_that_is_not(checkout, selected):
    rows = {name: checkout.row(name, "", "eager+rewrite") for name in selected(BY, OF_RELEASE)}
    rewritten = rows.pop("graphsage")
    assert (rewritten["status"], rewritten["verification_code"]) == ("ok", "PASS"), rewritten
    assert rewritten["rewrites"] == "project-before-aggregation"
    for row in rows.values():
        assert row["status"] == "unsupported"
        assert "no rewrite for speed changes the graph" in row["detail"]


def test_without_rewrites_one_sees_what_the_frontend_does_bare(checkout):
    bare = f"frontends={','.join(BARE)}"
    checkout.snakemake("--cores", "2", "results/latency.csv", "--config", "models=gcn", bare)
    stablehlo, xla = (checkout.row("gcn", path, "cpu") for path in BARE)
    assert (stablehlo["status"], stablehlo["stage"]) == ("unsupported", "export")
    assert "torch.runtime.assert" in stablehlo["detail"]
    assert (xla["status"], xla["stage"], xla["reason"]) == ("unsupported", "export", "operator")
    assert "aten::nonzero" in xla["detail"]
    assert stablehlo["rewrites"] == xla["rewrites"] == ""


def test_known_values_of_a_deep_residual_chain_are_found_in_one_walk(environments):
    python = environments / "torch-mlir/bin/python"
    found = in_environment(python, "known_values_in_torch")
    assert found == {"constant": [1.0, 2.0], "input": None, "mixed": None}


def test_constants_of_a_graph_are_arguments_behind_its_own(environments):
    made = in_environment(environments / "torch-mlir/bin/python", "lifted_in_torch")
    assert made == {"arguments": ["Input", "Constant", "Constant"], "computed": [2.0, 2.0]}
