"""scripts/run/starting.py: a flag that iree-compile of a target's toolchain does not know stops a run before any work."""

import dataclasses
from pathlib import Path

import pytest

from scripts.config.entries import StepOverride, TargetOverride
from scripts.run import starting

COMPILER = """\
#!/bin/sh
echo "$1" >> {asked}
case $1 in
  --version) echo "IREE compiler version {release} @ 89ece87b89852100c0a4ac3d515e14842d090967" ;;
  *) printf 'OPTIONS:\\n  --iree-opt-level=<value>  - level\\n    =O0  - none\\n  -O <char>  - short\\n' ;;
esac
"""


@pytest.fixture
def compiler(results):
    """A function that installs an iree-compile of a release in an environment; asked.txt has its calls."""

    def install(env: str, release: str = "3.13.0") -> None:
        program = Path(f"build-{env}/iree-compile")
        program.parent.mkdir()
        program.write_text(COMPILER.format(asked=Path("asked.txt").absolute(), release=release))
        program.chmod(0o755)
        link = Path(f".venvs/{env}/bin/iree-compile")
        link.parent.mkdir(parents=True)
        link.symlink_to(program.absolute())

    return install


def with_flags(results, *flags: str, env: str = "iree", overrides=()):
    target = dataclasses.replace(
        results.matrix.targets["vulkan"], flags=flags, env=env, overrides=overrides
    )
    return dataclasses.replace(results.matrix, targets={"vulkan": target})


def test_an_unknown_flag_is_named_with_the_nearest_one(results, compiler):
    compiler("iree")
    assert starting.flag_problems(with_flags(results, "--iree-opt-level=O3", "--O=2")) == []
    assert starting.flag_problems(with_flags(results, "--iree-opt-levle=O3")) == [
        "targets.vulkan.flags: iree-compile 3.13.0 does not know --iree-opt-levle; "
        "did you mean --iree-opt-level?"
    ]
    override = (TargetOverride("bert", flags=("--zzz",)),)
    assert starting.flag_problems(with_flags(results, overrides=override)) == [
        "targets.vulkan.overrides.bert.flags: iree-compile 3.13.0 does not know --zzz"
    ]
    override = (TargetOverride("bert", train=StepOverride(flags=("--yyy",))),)
    assert starting.flag_problems(with_flags(results, overrides=override)) == [
        "targets.vulkan.overrides.bert.train.flags: iree-compile 3.13.0 does not know --yyy"
    ]


def test_each_toolchain_is_asked_for_its_own_flags_once(results, compiler):
    compiler("iree@old", "3.9.0")
    matrix = with_flags(results, "--zzz", env="iree@old")
    said = starting.flag_problems(matrix)
    assert "iree-compile 3.9.0 does not know --zzz" in said[0]
    kept = Path("results/env/iree@old/flags.json")
    assert not kept.parent.exists()  # a plan leaves no files
    kept.parent.mkdir(parents=True)
    Path("asked.txt").unlink()
    assert starting.flag_problems(matrix) == said
    asked = Path("asked.txt").read_text()
    assert asked.split() == ["--version", "--help-hidden"]
    assert starting.flag_problems(matrix) == said
    assert Path("asked.txt").read_text() == asked
    # Another compiler in its place.
    program = Path("build-iree@old/iree-compile")
    program.write_text(program.read_text().replace("3.9.0", "3.10.0"))
    assert "iree-compile 3.10.0 does not know" in starting.flag_problems(matrix)[0]


def test_a_compiler_that_is_not_installed_yet_is_not_asked(results):
    assert starting.flag_problems(with_flags(results, "--zzz")) == []
