"""tools: the programs of IREE are called directly, so that their signals are visible."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.iree import compile_options, session, tools


@pytest.fixture
def environment(tmp_path, monkeypatch) -> Path:
    """An environment whose wheels contain a program that crashes and a script that starts it."""
    site = tmp_path / "lib/python3.11/site-packages"
    for path in (site / "iree/compiler/_mlir_libs/iree-compile", site / "iree/_runtime_libs/iree-run"):  # fmt: skip
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\nkill -FPE $$\n")
        path.chmod(0o755)
    (tmp_path / "bin").mkdir()
    for name in ("iree-compile", "iree-other"):
        (tmp_path / "bin" / name).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "bin"))
    return tmp_path


def test_a_tool_is_the_program_whose_signal_is_seen(environment):
    found = tools.tool("iree-compile")
    assert found.endswith("iree/compiler/_mlir_libs/iree-compile")
    assert subprocess.run([found], check=False).returncode == -8
    assert tools.program("iree-run", environment) == Path(
        environment, "lib/python3.11/site-packages/iree/_runtime_libs/iree-run"
    )


def test_a_tool_that_is_no_program_of_the_wheels_is_the_script(environment):
    assert tools.tool("iree-other") == str(environment / "bin/iree-other")
    assert tools.program("iree-other", environment) is None


def test_a_tool_may_be_on_path_alone(environment, monkeypatch):
    (environment / "elsewhere").mkdir()
    other = environment / "elsewhere/iree-built"
    other.touch()
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    assert tools.tool("iree-built") == str(other)
    with pytest.raises(SystemExit):
        tools.tool("iree-nowhere")


GLOBAL = (
    '  util.global private @"l.weight" = #flow.parameter.named<"model"::"l.weight"> : tensor<{}>\n'
)
MAIN = "  func.func @main(%arg0: tensor<{}>) -> tensor<{}> {{\n    %0 = stablehlo.constant : tensor<2xf64>\n"


@pytest.mark.parametrize(
    ("weight", "argument", "result", "kept"),
    [
        ("8x16xf64", "2x16xf32", "2x8xf32", True),
        ("8x16xf32", "2x16xf64", "2x8xf32", True),
        ("8x16xf32", "2x16xf32", "f64", True),
        ("8x16xf32", "2x16xf32", "2x8xf32", False),  # inside, float64 is computed in float32
    ],
)
def test_float64_is_kept_where_the_interface_of_a_program_has_it(
    tmp_path, weight, argument, result, kept
):
    program = tmp_path / "program.mlir"
    program.write_text("module {\n" + GLOBAL.format(weight) + MAIN.format(argument, result))
    flag = "--iree-input-demote-f64-to-f32"
    assert compile_options.flags_for_program(program) == ([f"{flag}=false"] if kept else [])
    assert compile_options.flags_for_program(program, [f"{flag}=true"]) == []


def test_a_module_below_a_folder_of_a_toolchain_is_opened_by_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain, of_toolchain = (Path(f"results/compile/m/f/{t}/module.vmfb") for t in ("t", "t@x"))
    for module in (plain, of_toolchain):
        module.parent.mkdir(parents=True)
        module.write_text(str(module))
    assert session.openable(plain) == plain
    link = session.openable(of_toolchain)
    assert "@" not in str(link)
    assert link.read_text() == str(of_toolchain)
    assert session.openable(of_toolchain) == link


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("IREE (https://iree.dev):\n  IREE compiler version 3.13.0rc20261016 @ 89ece87b89852100c0a4ac3d515e14842d090967\n  LLVM version 24.0.0git\n", "3.13.0rc20261016 @ 89ece87b8985"),
        ("  IREE compiler version 3.14.0.dev\n", "3.14.0.dev"),
        ("no such thing", ""),
    ],
)  # fmt: skip
def test_a_compiler_is_identified_by_what_it_says(text, shown):
    assert tools.identified(text) == shown


def test_a_compilation_with_a_tuning_spec_takes_one_dispatch_at_a_time(tmp_path):
    program = tmp_path / "program.mlir"
    program.write_text("func.func @main() {\n")
    named = [f"{compile_options.SPEC_FLAG}=x.mlir"]
    assert compile_options.flags_for_program(program, named) == ["--mlir-disable-threading"]
    assert compile_options.flags_for_program(program, ["--iree-opt-level=O3"]) == []


def test_the_tuning_spec_of_flags_is_the_file_that_they_name():
    named = ["--a", f"{compile_options.SPEC_FLAG}=x/y.mlir"]
    assert compile_options.named_spec(named) == Path("x/y.mlir")
    assert compile_options.named_spec(["--a=b"]) is None
