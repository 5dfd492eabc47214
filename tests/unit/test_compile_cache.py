"""Compilations that checkouts share: the same program is compiled once, and nothing damaged, foreign or accidental is taken."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.core import machine
from scripts.core.checkout import ROOT
from scripts.core.requests import StageRequest
from scripts.iree import compile_cache, tools
from scripts.iree.backends import compile_flags
from scripts.iree.compile_cache import CachedCompilation, CompileCache

PLANNED = json.dumps(
    {
        "stream-aggregate": {
            "execution": {"dispatch-count": 3, "transient-memory-size": 64},
            "global": {"constant-size": 8},
        }
    }
)
COMPILER = f"""#!{sys.executable}
import sys
if "--version" in sys.argv:
    sys.exit(print("version 3.13.0"))
open("{{counter}}", "a").write("x")
open("{{counter}}.words", "w").write("\\n".join(sys.argv[1:]))
file = next(w.partition("=")[2] for w in sys.argv if w.startswith("--iree-scheduling-dump-statistics-file="))
text = open(sys.argv[-3]).read()
if text.startswith("signal"):
    import os
    print(text, file=sys.stderr, flush=True)
    os.kill(os.getpid(), 11)
if text.startswith("error"):
    print(text, file=sys.stderr)
    sys.exit(1)
open(file, "w").write({PLANNED!r})
open(sys.argv[-1], "w").write("module of " + text)
"""


@pytest.fixture
def compile_program(tmp_path):
    """A function that runs the stage on a text and returns how it ended, its report, and how often the compiler has run so far."""
    counter = tmp_path / "counter"
    counter.touch()
    (tmp_path / "iree-compile").write_text(COMPILER.replace("{counter}", str(counter)))
    (tmp_path / "iree-compile").chmod(0o755)

    def run(text: str, gb: str = "1", **more: object):
        names = ("p.mlir", "module.vmfb", "report.json")
        program, vmfb, report = (tmp_path / name for name in names)
        for path in (vmfb, report):
            path.unlink(missing_ok=True)
        program.write_text(text)
        variables = {
            compile_cache.FOLDER: str(tmp_path / "shared"),
            compile_cache.MOST_GB: gb,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        }
        fields = {"program": str(program), "backend": "llvm-cpu", **more}
        request = StageRequest("scripts.stages.compile_iree", sys.executable, fields)
        request.write(tmp_path)
        done = subprocess.run(
            request.command(tmp_path),
            capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | variables,
        )  # fmt: skip
        written = json.loads(report.read_text()) if report.exists() else {}
        return done, written, len(counter.read_text())

    return run


def test_the_same_program_is_compiled_once_and_has_no_times_the_second_time(compile_program, tmp_path):  # fmt: skip
    _, first, _ = compile_program("a")
    done, second, runs = compile_program("a")
    assert runs == 1
    assert (tmp_path / "module.vmfb").read_text() == "module of a"
    assert first["cached"] is False
    assert first["compile_s"] > 0
    times = ("compile_s", "cpu_s", "max_rss_mb")
    assert second == {k: v for k, v in first.items() if k not in times} | {"cached": True}
    assert str(tmp_path / "shared") in done.stderr


def test_the_compiler_has_no_plugins_that_a_program_does_not_need_and_the_key_knows_nothing_of_that(compile_program, tmp_path):  # fmt: skip
    compile_program("stablehlo.add")
    words = (tmp_path / "counter.words").read_text().split("\n")
    disabled = {word.partition("=-")[2] for word in words if word.startswith("--iree-plugin=")}
    assert {"input_torch", "input_tosa", "hal_target_cuda"} <= disabled
    assert disabled.isdisjoint(("input_stablehlo", "hal_target_llvm_cpu"))
    compiler = tools.identity(tmp_path / "iree-compile")
    key = compile_cache.key(
        tmp_path / "p.mlir", compile_flags("llvm-cpu", None, None, ()), compiler
    )
    assert [path.stem for path in (tmp_path / "shared").rglob("*.vmfb")] == [key]


def test_another_program_flag_file_of_a_flag_or_build_is_compiled(compile_program, tmp_path):
    spec = tmp_path / "spec.mlir"
    spec.write_text("one")
    named = {"flags": [f"--iree-codegen-tuning-spec-path={spec}"]}
    asked = [("a", {}), ("b", {}), ("a", {"opt_level": "O1"}), ("a", {"flags": ["--x"]}), ("a", named)]  # fmt: skip
    assert [compile_program(text, **more)[2] for text, more in asked] == [1, 2, 3, 4, 5]
    spec.write_text("two")
    assert [compile_program(text, **more)[2] for text, more in asked] == [5, 5, 5, 5, 6]
    with (tmp_path / "iree-compile").open("a") as file:
        file.write("# another build that says the same version\n")
    assert compile_program("a")[2] == 7


def test_a_diagnostic_is_repeated_as_it_was_and_a_signal_is_tried_again(compile_program):
    first, _, _ = compile_program("error: 'linalg.generic' op is wrong")
    second, report, runs = compile_program("error: 'linalg.generic' op is wrong")
    assert runs == 1
    assert not report
    assert (first.returncode, second.returncode) == (1, 1)
    assert "error: 'linalg.generic' op is wrong" in second.stderr
    assert [compile_program("signal after an error: x")[2] for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("words", compile_cache.OF_THE_MACHINE)
def test_a_failure_of_the_machine_is_not_kept(compile_program, words):
    for runs in (1, 2):
        assert compile_program(f"error: {words}")[2] == runs


@pytest.mark.parametrize("suffix", [".json", ".vmfb"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_entry_is_named_compiled_again_and_replaced(compile_program, tmp_path, suffix, damage):  # fmt: skip
    compile_program("a")
    (file,) = (tmp_path / "shared").rglob(f"*{suffix}")
    whole = file.read_bytes()
    at = whole.index(b"dispatch") if suffix == ".json" else 3
    damaged = {"flip": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "cut": whole[:-2], "empty": b""}  # fmt: skip
    file.write_bytes(damaged[damage])
    done, report, runs = compile_program("a")
    assert runs == 2
    assert str(file) in done.stderr
    assert report["cached"] is False
    assert file.read_bytes() == whole
    assert compile_program("a")[2] == 2


def test_what_was_used_least_recently_goes_first(tmp_path):
    cache = CompileCache(tmp_path / "shared", 4500)
    vmfb, out = tmp_path / "module.vmfb", tmp_path / "out.vmfb"
    for number, name in enumerate(("aa", "bb", "cc")):
        vmfb.write_bytes(name.encode() * 500)
        cache.put(name, CachedCompilation({"vmfb_bytes": 1000}), vmfb)
        for path in (tmp_path / "shared" / name).iterdir():
            os.utime(path, (1000 + number, 1000 + number))
    assert cache.get("aa", out)[0]
    vmfb.write_bytes(b"dd" * 500)
    cache.put("dd", CachedCompilation({"vmfb_bytes": 1000}), vmfb)
    assert [bool(cache.get(name, out)[0]) for name in ("aa", "bb", "cc", "dd")] == [True, False, True, True]  # fmt: skip


def test_half_written_files_stay_until_their_writer_must_have_ended(tmp_path):
    old, new = tmp_path / ".a.1.partial", tmp_path / ".b.2.partial"
    for path in (old, new):
        path.write_bytes(b"x" * 100)
    os.utime(old, (0, time.time() - compile_cache.UNFINISHED_S - 60))
    compile_cache.trim(tmp_path, 10)
    assert [path.exists() for path in (old, new)] == [False, True]


def use(folder: Path, worker: int) -> int:
    """Read and write the entries of a folder; return how many were there."""
    cache, hits = CompileCache(folder / "shared", 40_000), 0
    vmfb, out = folder / f"{worker}.vmfb", folder / f"{worker}.out"
    for turn in range(30):
        name = f"{turn % 7:02d}"
        known, damage = cache.get(name, out)
        assert not damage or "CRC-32" not in damage, damage
        if known:
            hits += 1
            assert out.read_bytes() == name.encode() * 5000
        else:
            vmfb.write_bytes(name.encode() * 5000)
            cache.put(name, CachedCompilation({"name": name}), vmfb)
    return hits


def test_many_who_write_read_and_delete_at_once_see_whole_entries_or_none(tmp_path):
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        assert sum(pool.map(use, [tmp_path] * 4, range(4), timeout=300)) > 0


def test_a_folder_that_cannot_be_written_is_said_and_compiles_all_the_same(compile_program, tmp_path):  # fmt: skip
    compile_program("a")
    folder = next((tmp_path / "shared").rglob("*.json")).parent
    shutil.rmtree(folder)
    folder.touch()  # a file where the folder has to be; root ignores permissions
    done, report, runs = compile_program("a")
    assert (done.returncode, runs, report["cached"]) == (0, 2, False)
    assert "not kept" in done.stderr


@pytest.mark.parametrize(
    ("folder", "gb", "problem"),
    [("", "many", "_GB: found 'many'"), ("", "nan", "_GB: found 'nan'"), ("file", "1", "is no folder")],
)  # fmt: skip
def test_a_size_that_is_none_or_a_file_stops_before_any_work(monkeypatch, tmp_path, folder, gb, problem):  # fmt: skip
    (tmp_path / "file").touch()
    monkeypatch.setenv(compile_cache.FOLDER, str(tmp_path / folder))
    monkeypatch.setenv(compile_cache.MOST_GB, gb)
    with pytest.raises(ValueError, match=problem):
        compile_cache.of_environment()


@given(st.lists(st.text(max_size=2000), max_size=60))
def test_what_is_kept_of_an_output_has_its_start_and_its_end(lines):
    kept = compile_cache.kept_output(1, ["p.mlir:1:1: error: first\n", *lines])
    text = "".join(["p.mlir:1:1: error: first\n", *lines])
    if any(word in text for word in compile_cache.OF_THE_MACHINE):
        assert kept is None
    else:
        assert kept is not None
        assert len(kept) <= 2 * compile_cache.LOG_CHARS + 3
        assert text.startswith(kept[:1000])
        assert text.endswith(kept[-1000:])


def test_a_key_depends_on_the_cpu_of_code_for_the_host_and_not_on_where_the_program_is(tmp_path, monkeypatch):  # fmt: skip
    programs = [tmp_path / name / "program.mlir" for name in ("one", "other")]
    for program in programs:
        program.parent.mkdir()
        program.write_text("module {}")

    def key(cpu: str, program: Path = programs[0]) -> str:
        return compile_cache.key(program, [f"--iree-llvmcpu-target-cpu={cpu}"], "3.13")

    before = key("host"), key("generic")
    assert key("generic", programs[1]) == key("generic")
    monkeypatch.setattr(machine, "cpu_features", lambda: "another CPU")
    assert [now == then for now, then in zip((key("host"), key("generic")), before, strict=True)] == [False, True]  # fmt: skip
