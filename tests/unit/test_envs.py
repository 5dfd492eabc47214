"""envs/*.yaml: exact pins, the same in every file but for torch, and nothing only of conda's."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from scripts.lib.driver import environments
from scripts.make_env import read_env

ROOT = Path(__file__).parents[2]
ENVS = sorted((ROOT / "envs").glob("*.yaml"))
EXACT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[\w,-]+\])?==(?P<version>[0-9][A-Za-z0-9.+!]*)")

each_env = pytest.mark.parametrize("env", ENVS, ids=lambda path: path.stem)


def requirements() -> dict[str, list[str]]:
    """Requirements by the file that states them."""
    found = {path.name: read_env(path)[1] for path in ENVS}
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    found["requirements.txt"] = [line for line in lines if line and line[0] != "#"]
    return found


@pytest.mark.parametrize("file", requirements())
def test_every_requirement_is_an_exact_pin(file):
    assert [r for r in requirements()[file] if not EXACT.fullmatch(r)] == []


def test_a_package_has_one_version_wherever_it_is_pinned():
    versions = defaultdict(dict)
    for file, stated in requirements().items():
        for match in filter(None, map(EXACT.fullmatch, stated)):
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            versions[name][file] = match["version"]
    several = {n: pins for n, pins in versions.items() if len(set(pins.values())) > 1}
    # PyTorch/XLA needs the torch that it was built against, and what was built against that.
    assert several.keys() <= {"torch", "torchvision", "torchao"}
    for pins in several.values():
        pins.pop("torch-xla.yaml")
        assert len(set(pins.values())) == 1


SHARED = ("iree-base-compiler", "iree-base-runtime", "numpy", "ml-dtypes", "psutil", "transformers", "torch_geometric", "timm")  # fmt: skip


@pytest.mark.parametrize("package", SHARED)
def test_models_programs_and_archives_are_of_the_same_packages_under_either_torch(package):
    pins = environments.pins("torch-xla")
    assert pins[package] == environments.pins("torch-mlir")[package]


def test_pytorch_xla_is_pinned_beside_the_torch_of_its_own_version():
    pins = environments.pins("torch-xla")
    assert pins["torch_xla"].split(".")[:2] == pins["torch"].split(".")[:2]
    assert "torch-mlir" not in pins


@each_env
def test_uv_installs_all_that_conda_would(env):
    dependencies = yaml.safe_load(env.read_text(encoding="utf-8"))["dependencies"]
    python, packages = read_env(env)
    assert dependencies == [f"python={python}", "pip", {"pip": packages}]
    assert re.fullmatch(r"3\.\d+(\.\d+)?", python)


@each_env
def test_what_a_row_says_of_a_version_is_what_is_pinned(env):
    assert [f"{n}=={v}" for n, v in environments.pins(env.stem).items()] == read_env(env)[1]


def test_no_file_makes_snakemake_skip_the_pip_section():
    assert list((ROOT / "envs").glob("*.pin.txt")) == []


@pytest.mark.parametrize(
    "dependencies",
    [
        ["pip", {"pip": ["a==1"]}],
        ["python=3.11", "pip"],
        ["python=3.11", "python=3.12", {"pip": []}],
        ["python=3.11", {"pip": ["a==1"]}, {"pip": ["b==1"]}],
    ],
)
def test_an_environment_without_one_python_and_one_pip_section_is_refused(
    tmp_path, capsys, dependencies
):
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump({"dependencies": dependencies}))
    with pytest.raises(SystemExit):
        read_env(path)
    assert "odd.yaml: expected one `python=` and one `pip:`" in capsys.readouterr().err
