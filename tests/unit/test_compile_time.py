"""Where the time of iree-compile goes, and which executable reaches a limit by itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from scripts.config.stages import STAGES
from scripts.core.process import Limits, run_tool
from scripts.tools.profile import compile_page, profile_compile, profile_files, why

CELL = "tiny/mlir/vulkan"
FOLDER = "results/compile_time/tiny/iree/mlir/vulkan"
LIMITS = Limits(60.0, 1e6)


def node(name: str, s: float, *inside: dict) -> dict:
    return {"wall": {"duration": s, "percentage": 0.0}, "name": name, "passes": [*inside, {}]}


def printed(*nodes: dict, total: float) -> str:
    """What iree-compile prints: the tree between diagnostics, with its last two entries without passes."""
    totals = [{"wall": {"duration": s}, "name": name} for name, s in (("Rest", -3.0), ("Total", total))]  # fmt: skip
    tree = "[\n" + ",\n".join(json.dumps(one) for one in (*nodes, *totals)) + "\n]"
    return f"program.mlir:3:1: warning: [slow]\n{tree}\nprogram.mlir:4:1: remark: [\n{{}}"


def test_the_seconds_of_passes_are_their_own_and_add_up_to_less_than_the_total():
    text = printed(
        node("'builtin.module' Pipeline", 5.0, node("mlir::detail::OpPipelineAdaptorPass", 3.0), node("CSE", 1.5)),
        # What the adaptor has run is at the root.
        node("'func.func' Pipeline", 3.0, node("CSE", 1.0), node("a::InlinerPass", 2.0, node("(A) CallGraph", 0.5))),
        total=5.5,
    )  # fmt: skip
    passes, total_s = profile_compile.passes(text)
    assert {one["name"]: one["s"] for one in passes} == {"CSE": 2.5, "InlinerPass": 1.5, "(A) CallGraph": 0.5}  # fmt: skip
    assert passes[0]["name"] == "CSE"
    assert sum(one["s"] for one in passes) <= total_s == 5.5


def test_a_compiler_that_printed_no_times_is_an_error():
    with pytest.raises(ValueError, match="Killed"):
        profile_compile.passes("Killed")


def test_phases_end_when_their_files_are_written(tmp_path):
    for number, name, at in ((10, "hal", 107.0), (1, "input", 101.5), (9, "flow", 103.0)):
        path = tmp_path / f"program.{number}.{name}.mlir"
        path.write_text("")
        os.utime(path, (at, at))
    assert [(one["name"], one["s"]) for one in profile_compile.phases(tmp_path, 100.0, 7.5)] == [
        ("input", 1.5),
        ("flow", 1.5),
        ("hal", 4.0),
    ]
    assert profile_compile.phases(tmp_path, 3700.0, 7.5) == [], "the clock was set back"
    assert profile_compile.phases(tmp_path, 50.0, 7.5) == [], "the clock was set forward"


@pytest.mark.parametrize(
    ("code", "limits", "said"),
    [
        ("pass", LIMITS, ""),
        ("import time; time.sleep(60)", Limits(0.3, 1e6), "timeout"),
        ("import time; held = b'x' * 300_000_000; time.sleep(60)", Limits(60.0, 200.0), "oom"),
    ],
)
def test_a_tool_is_stopped_at_its_limits(code, limits, said):
    run = run_tool([sys.executable, "-c", code], limits)
    assert (run.stopped_for, run.returncode == 0) == (said, not said)


COMPILER = """\
#!/bin/sh
for word; do
    case $word in *slow*.mlir) exec sleep 60 ;; *bad*.mlir) echo "x.mlir:1:1: error: no such op" >&2; exit 1 ;; esac
done
"""


@pytest.fixture
def executables(tmp_path, monkeypatch):
    """Three executables compiled alone: one that compiles, one that fails, and one that does not end."""
    compiler, folder = tmp_path / "iree-compile", tmp_path / "sources"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    folder.mkdir()
    for name in ("good", "bad", "slow"):
        source = f"hal.executable public @main${name} {{\n hal.executable.export public @main${name}_f32 ordinal(0)\n"
        (folder / f"module_{name}.mlir").write_text(source)
    monkeypatch.setattr(profile_compile, "tool", lambda name: str(compiler))
    log = tmp_path / "log.txt"
    return list(profile_compile.executables(folder, ["--x"], Limits(0.5, 1e6), log))


def test_an_executable_that_does_not_end_is_named_and_its_source_is_kept(executables):
    assert {e["name"]: (e["status"], bool(e["source"])) for e in executables} == {
        "main$good": ("ok", False),
        "main$bad": ("error", True),
        "main$slow": ("timeout", True),
    }
    details = {e["name"]: e["detail"] for e in executables}
    assert details["main$bad"] == "no such op"
    assert details["main$slow"] == "still running after 0.5 s"


def write(folder: Path, executables: list[dict], status: str = "timeout") -> None:
    nodes = {"main$slow_f32": [["mm", "aten.mm", "layers.0.fc"], ["mm_1", "aten.mm", "layers.1.fc"]]}  # fmt: skip
    data = {
        "limit_s": 0.5,
        "program": {"status": status, "seconds": 9.0, "cpu_s": 9.0, "max_rss_mb": 99.0, "detail": "still running after 9 s"},
        "stopped_before_code": True,
        "total_s": 4.0,
        "passes": [{"name": "CSE", "s": 3.0}] if status == "ok" else [],
        "phases": [{"name": "input", "s": 1.0}, {"name": "flow", "s": 3.0}],
        "executables": profile_compile.described(executables, nodes),
        "kinds": {"layers.0": "Block", "layers.1": "Block", "layers.0.fc": "Linear", "layers.1.fc": "Linear"},
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "compile.json").write_text(json.dumps(data))


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """What `vmfbench why --compile` prints."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["why", "--compile", CELL, *words])
        why.main()
        return capsys.readouterr().out

    return call


def test_the_page_names_what_hangs_with_its_modules(executables, said):
    write(Path(FOLDER), executables)
    text = said()
    assert f"{CELL}: iree-compile: timeout: still running after 9 s\n" in text
    [line] = [line for line in text.splitlines() if "timeout  " in line]
    assert line.endswith("timeout  main$slow_f32  layers.*.fc")
    assert "main$slow hangs when it is compiled alone: still running after 0.5 s" in text
    assert "main$bad fails when it is compiled alone: no such op" in text
    assert json.loads(said("--json"))["cell"] == CELL


def test_the_page_says_that_no_executable_hangs_and_where_the_compiler_stopped(executables, said):
    write(Path(FOLDER), [e for e in executables if e["status"] == "ok"])
    assert "no single one of them hangs" in said()
    (Path(FOLDER) / "compile.json").unlink()
    Path(FOLDER).rmdir()
    write(Path(FOLDER), [])
    assert "It stopped after flow, and has made no executables" in said()


def test_the_parts_of_a_page_add_up(executables, said):
    write(Path(FOLDER), executables, status="ok")
    rows = [line.split() for line in said().splitlines()]
    assert ["75%", "3.00", "CSE"] in rows
    assert ["25%", "1.00", *compile_page.REST.split()] in rows
    assert rows.count(["100%", "4.00", "all"]) == 2


def test_without_a_measurement_the_command_that_makes_it_is_said(tmp_path):
    with pytest.raises(profile_files.NoProfile, match="vmfbench run --make compile_time --config models=tiny frontends=mlir targets=vulkan"):  # fmt: skip
        compile_page.read(tmp_path / "results", CELL)


def test_the_stage_has_the_limits_of_a_compilation():
    assert STAGES["profile_compile"].limits_key == "compile"
