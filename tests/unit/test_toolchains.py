"""toolchains: entries that a toolchain changes are multiplied; what it does not change is shared."""

import copy
import json
import os
from pathlib import Path

import pytest
import yaml

from scripts.config import expansion, settings, stages
from scripts.config.cell import Kind, of_axes
from scripts.config.rows import Matrix
from scripts.config.settings import ConfigError
from scripts.core import checkout, requests
from scripts.run import environments
from scripts.run.plan import Plan
from scripts.supervise.environment_damage import ENVIRONMENT_MARK
from scripts.supervise.group import GroupRequest
from scripts.tools.toolchains import toolchain_environments as driver
from scripts.tools.toolchains.toolchain_environments import Definition, Environments
from tests import declarations
from tests.declarations import CONFIG

PINS = {
    "iree": ("iree-base-compiler==3.13.0", "iree-base-runtime==3.13.0", "numpy==2.4.6"),
    "e": ("torch==2.15.0", "torch-mlir==20261001", "iree-base-compiler==3.13.0"),
    "other": ("torch==2.9.0", "torch_xla==2.9.0", "numpy==2.4.6"),
}
LOCK = (
    "iree-base-compiler==3.13.0 \\\n    --hash=sha256:{0}\nnumpy==2.4.6 \\\n    --hash=sha256:{0}\n"
)


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A folder of a Snakefile, in which the test works: two frontends of the environment e, one of other."""
    files = {"envs/iree.lock": LOCK.format("a" * 64)}
    for name, pins in PINS.items():
        declared = {"dependencies": ["python=3.11", "pip", {"pip": [*pins]}]}
        files[f"envs/{name}.yaml"] = yaml.safe_dump(declared)
    declarations.write_project(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    for cached in (environments.pins, environments.pins_digest, driver._declared):
        cached.cache_clear()
    return tmp_path


def config(**entries) -> dict:
    """A configuration with toolchains: f and g of the environment e, h of other; two targets."""
    found = copy.deepcopy(CONFIG) | {"toolchains": entries, "models": {"b": {}}}
    found["frontends"]["h"] = {"exporter": "plain", "env": "other"}
    found["limits"] = {key: {"timeout_s": 10} for key in stages.limits()}
    found["targets"] = {"cpu": {"backend": "llvm-cpu"}, "gpu": {"backend": "cuda"}}
    return found


def expanded(root: Path, wanted: str | None, **entries) -> Matrix:
    declared = config(**entries)
    settings.check(declared)
    selections = {} if wanted is None else {"toolchains": wanted}
    return expansion.expand(declared, selections, root)


def cells(matrix: Matrix) -> set[str]:
    return {str(row).removeprefix("b/") for row in matrix.rows() if "eager" not in str(row)}


SHARED = {f"{f}/{t}" for f in "fgh" for t in ("cpu", "gpu")}


def test_a_run_that_selects_no_toolchain_has_the_pinned_one_and_those_of_its_own_choice(root):
    assert cells(expanded(root, None, old={"iree": "3.12.0"})) == SHARED
    by_default = expanded(root, None, old={"iree": "3.12.0", "default": True})
    assert [*by_default.toolchains] == ["pinned", "old"]


def test_a_toolchain_of_iree_multiplies_targets_and_shares_the_programs(root):
    found = expanded(root, "pinned,old", old={"iree": "3.12.0"})
    assert cells(found) == SHARED | {f"{f}/{t}@old" for f in "fgh" for t in ("cpu", "gpu")}
    assert [*found.targets] == ["cpu", "cpu@old", "gpu", "gpu@old"]
    assert found.targets["cpu@old"].env == "iree@old"
    assert {str(c) for c in found.of_kind(Kind.PROGRAM)} == {"b/f", "b/g", "b/h"}
    assert cells(expanded(root, "old", old={"iree": "3.12.0"})) == cells(found) - SHARED


def test_a_toolchain_of_torch_mlir_multiplies_the_frontends_of_its_environment(root):
    found = expanded(root, "pinned,tm", tm={"torch-mlir": 20261020})
    assert cells(found) == SHARED | {f"{f}@tm/{t}" for f in "fg" for t in ("cpu", "gpu")}
    assert found.frontends["f@tm"].env == "e@tm"
    # h, which it does not change, is one of its lowering paths too.
    only = expanded(root, "tm", tm={"torch-mlir": 20261020})
    assert cells(only) == {f"{f}/{t}" for f in ("f@tm", "g@tm", "h") for t in ("cpu", "gpu")}


def test_a_toolchain_of_both_pairs_its_own_and_no_other_toolchains(root):
    both = {"iree": "3.12.0", "torch-mlir": 20261020}
    found = expanded(root, "pinned,x,y", x=both, y={"iree": "3.11.0"})
    own = {f"{f}/{t}@x" for f in ("f@x", "g@x", "h") for t in ("cpu", "gpu")}
    others = {f"{f}/{t}@y" for f in "fgh" for t in ("cpu", "gpu")}
    assert cells(found) == SHARED | own | others


def test_the_frontends_of_a_target_are_named_without_toolchain(root):
    declared = config(tm={"torch-mlir": 20261020})
    declared["targets"]["gpu"]["frontends"] = ["f"]
    found = expansion.expand(declared, {"toolchains": "tm"}, root)
    assert cells(found) == {"f@tm/cpu", "g@tm/cpu", "h/cpu", "f@tm/gpu"}


def test_a_package_changes_the_environments_that_pin_it_or_those_that_the_entry_names(root):
    def envs(**entry):
        return expanded(root, "x", x=entry).toolchains["x"].envs

    assert envs(packages={"numpy": "2.3.0"}) == ("iree", "other")
    assert envs(packages={"torch": "2.14.0"}) == ("e", "other")
    assert envs(packages={"torch": "2.14.0"}, envs=["other"]) == ("other",)
    # The IREE that links programs stays the pinned one.
    assert envs(packages={"iree_base_compiler": "3.12.0"}) == ("iree",)


def test_references_and_baselines_are_of_the_pinned_environments(root):
    plan = Plan(expanded(root, "x", x={"packages": {"torch": "2.14.0"}}), frozenset(), False)
    assert plan.env("reference", of_axes(model="b")) == "e"
    assert plan.env("baseline", of_axes(model="b", baseline="eager", test="eval")) == "e"
    assert plan.env("export", of_axes(model="b", frontend="f@x")) == "e@x"


def test_stages_of_iree_run_in_the_environment_of_their_target(root):
    plan = Plan(expanded(root, "pinned,old", old={"iree": "3.12.0"}), frozenset(), False)
    of = {"model": "b", "frontend": "f"}
    for stage in ("compile", "remedy", "verify", "read_code", "dump_iree"):
        assert plan.env(stage, of_axes(**of, target="cpu")) == "iree"
        assert plan.env(stage, of_axes(**of, target="cpu@old")) == "iree@old"
    assert plan.python("iree@old") == ".venvs/iree@old/bin/python"
    old, pinned = (
        json.loads(plan.requests.compile(of_axes(**of, target=f"cpu{at}"))) for at in ("@old", "")
    )
    assert old["toolchain"] == "old"
    assert "toolchain" not in pinned


def test_a_remedy_takes_the_program_of_the_same_toolchain(root):
    declared = config(tm={"torch-mlir": 20261020})
    declared["frontends"] |= {"torchxla-stablehlo": {"exporter": "plain", "env": "other"}}
    declared["frontends"] |= {"torchmlir-torch": {"exporter": "plain", "env": "e"}}
    found = expansion.expand(declared, {"toolchains": "pinned,tm"}, root)
    tried = {
        frontend: {one.variant.frontend for one in found.attempts(frontend, found.targets["gpu"])}
        for frontend in ("f", "f@tm")
    }
    assert tried["f"] == {"f", "torchxla-stablehlo", "torchmlir-torch"}
    assert tried["f@tm"] == {"f@tm", "torchxla-stablehlo", "torchmlir-torch@tm"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "toolchains.x: changes nothing; set iree, torch-mlir or packages"),
        ({"packages": {"nunpy": "1"}}, "toolchains.x: no environment that a frontend or IREE uses pins nunpy"),
        ({"packages": {"numpy": ">=2"}}, "toolchains.x.packages.numpy: found '>=2', expected a version"),
        ({"packages": {"numpy": "gone.whl"}}, "toolchains.x.packages.numpy: no file"),
        ({"iree": "gone"}, "toolchains.x.iree: no folder"),
        ({"iree": "envs"}, "expected the tool iree-compile in one of the folders"),
        ({"torch-mlir": "envs"}, "expected the package torch_mlir in one of"),
        ({"iree": "3.12.0", "packages": {"iree-base-compiler": "3.11.0"}}, "is set by another key"),
        ({"packages": {"torch_xla": "2.8.0"}, "envs": ["iree"]}, "no environment of iree"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_is_a_problem_of_the_configuration(root, entry, problem):
    with pytest.raises(ConfigError) as found:
        expanded(root, "x", x=entry)
    assert problem in str(found.value)
    assert [*expanded(root, "pinned", x=entry).toolchains] == ["pinned"]  # it is not selected


def test_the_nearest_name_is_given_for_a_toolchain_that_is_not_declared(root):
    with pytest.raises(
        ConfigError, match=r"unknown toolchain 'iree-3\.21'; did you mean 'iree-3\.12'"
    ):
        expanded(root, "iree-3.21", **{"iree-3.12": {"iree": "3.12.0"}})
    with pytest.raises(ConfigError, match=r"toolchains\.pinned: found the name of what envs/ pins"):
        expanded(root, None, pinned={"iree": "3.12.0"})


def test_paths_of_an_entry_are_those_beside_its_file(tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "a.whl").touch()
    entry = {"iree": "build", "packages": {"a": "a.whl", "b": "1.0"}, "find_links": ["https://x.y"]}
    found = settings.located({"toolchains": {"x": entry}}, tmp_path, tmp_path / "elsewhere")
    assert found["toolchains"]["x"] == {
        "iree": str(tmp_path / "build"),
        "packages": {"a": str(tmp_path / "a.whl"), "b": "1.0"},
        "find_links": ["https://x.y"],
    }


# What an environment is made of.


def environments_of(root: Path, **entry) -> Environments:
    return Environments(expanded(root, "x", x=entry).toolchains)


def test_a_definition_replaces_pins_and_keeps_the_others(root, tmp_path):
    wheel = tmp_path / "iree_base_compiler-3.14.0.dev0-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    found = environments_of(
        root, packages={"iree-base-compiler": str(wheel), "iree-base-runtime": "3.14.0rc1"}
    )
    changed = found.definition("iree@x")
    declared = driver.environments.declared(root / "envs/iree.yaml")
    assert driver.requirements(declared, changed) == [
        f"iree-base-compiler @ {wheel.as_uri()}",
        "iree-base-runtime==3.14.0rc1",
        "numpy==2.4.6",
    ]
    assert requests.decode(Definition, requests.plain(changed)) == changed
    assert found.pins("iree@x")["iree-base-compiler"] == "3.14.0.dev0"
    assert found.pins("iree@x")["iree-base-runtime"] == "3.14.0rc1"
    assert found.definition("iree") is None


def test_what_an_environment_is_made_of_changes_with_its_definition_alone(root, tmp_path):
    def digest(**entry):
        return environments_of(root, **entry).pins_digest("iree@x")

    before = digest(iree="3.12.0")
    assert digest(iree="3.12.0") == before
    assert digest(iree="3.12.0", packages={"torch": "2.14.0"}) == before  # of other environments
    assert digest(iree="3.11.0") != before
    assert digest(iree="3.12.0", find_links=["https://x.y"]) != before
    found = environments_of(root, iree="3.12.0")
    assert found.pins_digest("iree") == environments.pins_digest("iree")
    # Another pin of what the toolchain replaces, and of what it keeps.
    file = root / "envs/iree.yaml"
    for old, new, same in (("3.13.0", "3.14.0", True), ("2.4.6", "2.4.7", False)):
        text = file.read_text()
        file.write_text(text.replace(old, new))
        driver._declared.cache_clear()
        assert (digest(iree="3.12.0") == before) == same
        file.write_text(text)


def tree(folder: Path, *files: str) -> Path:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("x")
    return folder


BUILD = ("tools/iree-compile", "tools/iree-opt", "compiler/bindings/python/iree/compiler/ir.py", "lib/libIREECompiler.so")  # fmt: skip
RUNTIME = ("tools/iree-benchmark-module", "runtime/bindings/python/iree/runtime/__init__.py")


def test_a_local_build_replaces_the_packages_that_it_has(root, tmp_path):
    compiler = tree(tmp_path / "compiler-only", *BUILD)
    whole = tree(tmp_path / "whole", *BUILD, *RUNTIME)
    declared = driver.environments.declared(root / "envs/iree.yaml")

    def left(folder):
        changed = environments_of(root, iree=str(folder)).definition("iree@x")
        return driver.requirements(declared, changed)

    assert left(compiler) == ["iree-base-runtime==3.13.0", "numpy==2.4.6"]
    assert left(whole) == ["numpy==2.4.6"]
    # Bindings without tools, or tools without bindings, are no runtime to measure with.
    tree(compiler, RUNTIME[0])
    assert left(compiler) == ["iree-base-runtime==3.13.0", "numpy==2.4.6"]


@pytest.mark.parametrize(
    ("file", "again"),
    [
        ("lib/libIREECompiler.so", True),
        ("tools/iree-compile", True),
        ("build.ninja", False),
        ("numpy-3.0-py3-none-any.whl", True),
    ],
)
def test_what_was_built_again_makes_another_environment(root, tmp_path, file, again):
    build = tree(tmp_path / "build", *BUILD, "build.ninja", "numpy-3.0-py3-none-any.whl")
    wheel = str(build / "numpy-3.0-py3-none-any.whl")

    def digest() -> str:
        found = environments_of(root, iree=str(build), packages={"numpy": wheel})
        return found.pins_digest("iree@x")

    before = digest()
    os.utime(build / file, ns=(1, 1))
    assert (digest() != before) == again


def test_an_environment_that_another_folder_has_made_differently_is_made_again(root):
    found = environments_of(root, iree="3.12.0")
    assert found.is_gone("iree@x")
    mark = root / ".venvs/iree@x" / ENVIRONMENT_MARK
    mark.parent.mkdir(parents=True)
    mark.write_text(found.pins_digest("iree@x"))
    assert not found.is_gone("iree@x")
    mark.write_text("of another definition")
    assert found.is_gone("iree@x")


def test_an_expectation_may_name_cells_of_a_toolchain_that_is_not_selected(root):
    declared = config(old={"iree": "3.12.0"})
    declared["expect"] = dict.fromkeys(("*/*/cpu@old", "*/f@old/*", "*@old/*@old"), "ok")
    assert expansion.expand(declared, {}, root).expect == declared["expect"]
    declared["expect"] = {"*/*/cpu@odl": "ok"}
    with pytest.raises(ConfigError, match="matches no cell of the matrix"):
        expansion.expand(declared, {}, root)


def test_rows_of_all_toolchains_are_timed_in_one_group(root):
    both = {"iree": "3.12.0", "torch-mlir": 20261020}
    plan = Plan(expanded(root, "pinned,x,y", x=both, y={"iree": "3.11.0"}), frozenset(), False)
    text = plan.groups.request(of_axes(model="b", device="cpu", test="eval"))
    asked = requests.decode(GroupRequest, json.loads(text))
    names = {"b/f/cpu", "b/f/cpu@y", "b/f@x/cpu@x", "b/h/cpu@x", "b/eager/eval"}
    assert names <= {*asked.members}
    assert asked.anchor == "b/eager/eval"
    assert set(asked.pairs) == {
        *((f"b/{path}/cpu", f"b/{path}/cpu@y") for path in "fgh"),
        *(
            (f"b/{path}/cpu", f"b/{path}{at}/cpu@x")
            for path, at in (("f", "@x"), ("g", "@x"), ("h", ""))
        ),
    }


@pytest.fixture
def installer(monkeypatch):
    """What uv would be asked for: requirements that were resolved, and packages that were installed."""
    asked: dict[str, list] = {"resolved": [], "installed": [], "python": ["3.11"]}

    def resolve(wanted, python, before, options, header):
        asked["resolved"].append((list(wanted), python, before, options))
        return f"# by {header}\nnumpy==2.4.6\n"

    def make_empty(prefix, pythons):
        (prefix / "bin").mkdir(parents=True, exist_ok=True)
        return asked["python"][-1]

    def add(prefix, packages):
        asked["installed"].append(packages)

    for function in (resolve, make_empty, add):
        monkeypatch.setattr(driver.installing, function.__name__, function)
    return asked


def test_a_lock_is_made_at_the_first_use_and_again_for_another_definition_alone(root, installer):
    folder = root / ".venvs/iree@x"
    old = {"iree-base-compiler": "3.12.0", "iree-base-runtime": "3.12.0"}

    def install(packages: dict[str, str], *links: str) -> None:
        changed, file = driver.Definition(packages, {}, links), Path("envs/iree.yaml")
        driver.install(folder, file, changed, driver.digest(file, changed))

    for _ in range(2):
        install(old, "https://x.y")
    lock = root / ".venvs/iree@x.lock"
    links = ["--find-links", "https://x.y"]
    wanted = ["iree-base-compiler==3.12.0", "iree-base-runtime==3.12.0", "numpy==2.4.6"]
    # Versions of the lock of envs/ are kept where they fit.
    assert installer["resolved"] == [(wanted, "3.11", (root / "envs/iree.lock").read_text(), links)]
    named = ["--no-deps", "--require-hashes", "--requirements", str(lock), *links]
    assert installer["installed"] == [named, named]
    install(old | {"iree-base-compiler": "3.11.0"})
    assert len(installer["resolved"]) == 2
    installer["python"].append("3.12")
    install(old | {"iree-base-compiler": "3.11.0"})
    assert [python for _, python, *_ in installer["resolved"]] == ["3.11", "3.11", "3.12"]


def test_tools_and_packages_of_a_local_build_are_linked_into_the_environment(
    root, tmp_path, installer, monkeypatch
):
    build = tree(tmp_path / "build", *BUILD)
    site = root / ".venvs/iree@x/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    checked = []
    monkeypatch.setattr(driver, "_check_import", lambda prefix, name, binding: checked.append(name))
    changed = environments_of(root, iree=str(build)).definition("iree@x")
    driver.install(root / ".venvs/iree@x", root / "envs/iree.yaml", changed, "made")
    linked = root / ".venvs/iree@x/bin/iree-compile"
    assert linked.resolve() == build / "tools/iree-compile"
    assert not (root / ".venvs/iree@x/bin/iree-benchmark-module").exists()  # the pinned runtime's
    assert (site / driver.BUILDS).read_text() == f"{build}/compiler/bindings/python\n"
    assert checked == ["iree-base-compiler"]


def test_results_of_tuning_are_refused_with_several_toolchains(root):
    declared = config(old={"iree": "3.12.0"})
    declared["targets"]["cpu"]["tuned"] = "auto"
    assert expansion.expand(declared, {}, root).targets["cpu"].tuned
    with pytest.raises(ConfigError, match=r"targets\.cpu\.tuned: auto .* found pinned, old"):
        expansion.expand(declared, {"toolchains": "pinned,old"}, root)
