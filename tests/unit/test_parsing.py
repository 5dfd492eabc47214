"""tools: a program that the compiler of a toolchain cannot read has a reason of its own."""

import os
import subprocess
import sys

import pytest

from scripts.core.checkout import ROOT
from scripts.core.requests import StageRequest
from scripts.supervise.diagnose import diagnose

TOOLS = {
    "iree-compile": "echo 'p.mlir:3:7: error: failed to bufferize op' >&2; [ $1 = --version ] || exit 1; echo 'version 3.9.0'",
    "iree-opt": "[ -s $1 ] || { echo \"p.mlir:1:1: error: custom op 'a.b' is unknown\" >&2; exit 1; }",
}


@pytest.fixture
def compile_program(tmp_path):
    """A function that compiles a program, with tools of which iree-opt reads any program but an empty one."""
    for name, text in TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(text: str, **more: str) -> tuple[str, str]:
        program = tmp_path / "p.mlir"
        program.write_text(text)
        fields = {"program": str(program), "backend": "llvm-cpu", **more}
        request = StageRequest("scripts.stages.compile_iree", sys.executable, fields)
        request.write(tmp_path)
        done = subprocess.run(
            request.command(tmp_path),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )  # fmt: skip
        found = diagnose(done.returncode, done.stdout + done.stderr)
        return found.reason, found.detail

    return run


def test_what_another_compiler_cannot_parse_is_of_another_version(compile_program):
    reason, detail = compile_program("", toolchain="iree-3.9")
    assert reason == "program-version"
    assert "toolchain iree-3.9 cannot parse" in detail
    assert "custom op 'a.b' is unknown" in detail


@pytest.mark.parametrize(
    ("text", "more"), [("a program", {"toolchain": "iree-3.9"}), ("", {})], ids=["read", "pinned"]
)
def test_what_it_parses_and_what_the_pinned_one_rejects_have_the_reason_of_the_compiler(
    compile_program, text, more
):
    assert compile_program(text, **more)[0] == "bufferization"
