"""bundle: which cells have a reproducer, and what its files say."""

import base64
import dataclasses
import gzip
import platform
import re
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from scripts.core import atomic, private, tensors
from scripts.core.tensors import Signature, TensorType
from scripts.iree import shell
from scripts.results import results_file
from scripts.stages import aggregate_results
from scripts.supervise.outcome import Outcome
from scripts.tools.compare import store
from scripts.tools.report import write_report
from scripts.tools.reproduce import bundle as command
from scripts.tools.reproduce import bundling, issue, measure_elsewhere, mismatch
from scripts.tools.reproduce import case as cases

CELL = "conv/mlir/llvm-cpu"
FOLDER = Path("results/bundles/conv__mlir__llvm-cpu")
DETAIL = "function 'main_dispatch_0' uses 81920 bytes of shared memory [program.mlir:2: %0 = x]"


@pytest.fixture
def tree(results, monkeypatch):
    """Writes a results tree with endings, with whole artifacts of the reference and export."""

    def write(endings=None) -> Path:
        results.write(endings)
        reference, exported = Path("results/reference/conv"), Path("results/export/conv/mlir")
        signature = Signature.read(reference / "signature.json")
        kind = TensorType("[0]", (2, 3), "bfloat16")
        weight = TensorType("fc.weight", (4, 3), "float32")
        values = signature.__dict__ | {
            "inputs": (kind,),
            "outputs": (kind,),
            "parameters": (weight,),
        }
        Signature(**values).write(reference / "signature.json")
        tensors.save_npz(reference / "inputs.npz", {"0": np.ones((2, 3), np.float32)})
        tensors.save_npz(reference / "golden.npz", {"golden.0": np.ones((2, 3), np.float32)})
        (reference / "weights.irpa").write_text("weights")
        (exported / "program.mlir").write_text("func.func @main()\n")
        for stage in ("compile", "verify"):
            for log in Path("results", stage).rglob("status.json"):
                log.with_name("log.txt").write_text("$ command\nresults/export/conv/mlir/program.mlir:2:1: error: no\n")  # fmt: skip
        atomic.write_json("results/logs/matrix.json", results.matrix.to_json())
        monkeypatch.setattr(sys, "argv", ["x"])
        aggregate_results.main()
        return Path("results/results.jsonl")

    return write


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["x", *words])
        command.main()
        return capsys.readouterr().out

    return call


def test_a_compilation_that_failed_needs_the_program_and_one_command(tree, run, ended):
    tree(ended("error", "compile", CELL, "shared-memory-limit", DETAIL))
    said = run(CELL)
    assert str(FOLDER) in said
    assert {path.name for path in FOLDER.iterdir()} == {
        "program.mlir",
        "run.sh",
        "log.txt",
        "ISSUE.md",
    }
    script = (FOLDER / "run.sh").read_text()
    assert "iree-compile" in script
    assert "--iree-opt-level=O3 \\\n    --x \\\n    program.mlir \\\n    -o module.vmfb\n" in script
    assert "iree-base-compiler==3" in script
    assert "iree-run-module" not in script
    issue = (FOLDER / "ISSUE.md").read_text()
    assert (
        "# [shared-memory-limit] function 'main_dispatch_0' uses 81920 bytes of shared memory\n"
        in issue
    )
    assert "```text\nprogram.mlir:2:1: error: no\n```" in issue
    assert "$ command" not in issue


def test_a_title_has_whole_words():
    detail = "'stream.tensor.sizeof' op " + "does not have integral number of total bytes " * 4
    title = issue.shortened(detail, "")
    assert len(title) <= issue.TITLE_CHARS
    assert title.endswith(" …")
    assert f"{detail} ".startswith(title.removesuffix("…"))
    assert issue.shortened("failed [program.mlir:2: %0 = x]", "") == "failed"
    assert issue.shortened("", "a/b/c") == "a/b/c"


def test_a_module_that_runs_is_timed_with_weights_of_the_same_shapes(tree, run):
    tree()
    run(CELL)
    script = (FOLDER / "run.sh").read_text()
    assert "iree-benchmark-module" in script
    assert "--input=2x3xbf16=@inputs/0.bin" in script
    assert (FOLDER / "weights.flags").read_text() == "--splat=fc.weight=4x3xf32=0.01\n"
    assert not (FOLDER / "weights.irpa").exists()
    assert (FOLDER / "inputs/0.bin").stat().st_size == 2 * 3 * 2
    run(CELL, "--weights")
    assert (FOLDER / "weights.irpa").read_text() == "weights"
    assert not (FOLDER / "weights.flags").exists()


def test_a_tuning_spec_of_the_flags_is_in_the_folder(tree, run, results, monkeypatch):
    targets = results.matrix.targets
    target = targets["llvm-cpu"]
    file = Path("results/tuned/conv/llvm-cpu-0badf00d.mlir")
    flag = f"--iree-codegen-tuning-spec-path={file}"
    changed = dataclasses.replace(target, flags=(*target.flags, flag))
    monkeypatch.setitem(targets, "llvm-cpu", changed)
    file.parent.mkdir(parents=True)
    file.write_text("module {}")
    tree()
    run(CELL)
    assert (FOLDER / "tuning_spec.mlir").read_text() == "module {}"
    script = (FOLDER / "run.sh").read_text()
    assert "--iree-codegen-tuning-spec-path=tuning_spec.mlir" in script
    assert "--mlir-disable-threading" in script
    assert "results/tuned" not in script


def test_wrong_results_come_with_weights_and_golden_outputs(tree, run, ended):
    tree(ended("error", "verify", CELL, "wrong-result", "FAIL: output 0"))
    run(CELL)
    script = (FOLDER / "run.sh").read_text()
    assert "--expected_output=2x3xbf16=@golden/0.bin" in script
    assert (FOLDER / "weights.irpa").exists()
    assert (FOLDER / "golden/0.bin").stat().st_size == 2 * 3 * 2


def test_a_crash_at_run_time_needs_neither_golden_outputs_nor_weights(tree, run, ended):
    tree(ended("crashed", "verify", CELL, "SIGSEGV", "signal 11"))
    run(CELL)
    assert "iree-run-module" in (script := (FOLDER / "run.sh").read_text())
    assert "--task_topology_max_group_count=" in script
    assert not (FOLDER / "golden").exists()


def test_a_crash_while_it_is_timed_is_shown_by_the_command_that_times(tree, run):
    tree({("time", CELL): Outcome("crashed", "time", CELL, "SIGSEGV", "signal 11")})
    assert "time conv/mlir/llvm-cpu: crashed (SIGSEGV)" in run(CELL)
    assert "iree-benchmark-module" in (FOLDER / "run.sh").read_text()
    assert "fails when it runs (crashed)" in (FOLDER / "ISSUE.md").read_text()


def test_a_training_step_that_crashes_is_not_compared_with_golden_changes(tree, ended, tmp_path):
    written = tree(ended("crashed", "verify", CELL, "SIGSEGV", "signal 11"))
    [record] = [one for one in results_file.read(written) if one["cell"] == CELL]
    case = dataclasses.replace(cases.case_of(Path.cwd(), record), compares_values=False)
    bundling.write(case, tmp_path / "bundle", with_weights=True)
    assert not (tmp_path / "bundle/golden").exists()
    script = (tmp_path / "bundle/run.sh").read_text()
    assert "iree-run-module" in script
    assert "--expected" not in script


def test_a_cell_without_a_failure_is_not_reduced_and_has_a_reproducer(tree, monkeypatch, capsys):
    tree()
    monkeypatch.setattr(sys, "argv", ["x", CELL])
    command.reduce()
    said = capsys.readouterr().out
    assert f"note: {CELL}: only failures to compile and wrong results on a CPU are reduced" in said
    assert FOLDER.with_name(f"{FOLDER.name}.tar.zst").exists()
    assert re.search(
        r"takes [\d.]+ ms \(99 % interval: .*\) per call", (FOLDER / "ISSUE.md").read_text()
    )


def reduction(folder: Path, **report) -> None:
    """Write what a reduction leaves in the folder of a bundle."""
    (folder / "reduced.mlir").write_text("func.func @main() // small\n")
    levels = {"O1": "right", "O2": "wrong"}
    atomic.write_json(folder / "reduction.json", {"of": 40, "opt_levels": levels, **report})


def test_the_issue_of_wrong_values_has_the_reduced_program_its_opt_levels_and_values(tmp_path):
    reduction(tmp_path, output=0)
    arrays = {"input": 3.0, "expected": 1.5, "computed": -1.5}
    mismatch.save(tmp_path, **{name: [np.full(2, value)] for name, value in arrays.items()})
    said = bundling.described_reduction(tmp_path)
    assert "Reduced from 40 operations" in said
    assert "```mlir\nfunc.func @main() // small\n```" in said
    assert "| O1 | right |\n| O2 | wrong |" in said
    assert "right (O0) =\n[1.5 1.5]\ncomputed =\n[-1.5 -1.5]" in said
    mismatch.save(tmp_path, input=[np.zeros(1000)])
    assert "The largest difference is at [0]: -1.5, expected 1.5." in bundling.described_reduction(tmp_path)  # fmt: skip


def test_the_issue_gives_the_commands_of_the_reduced_program_first(tree, run, ended):
    records = tree(ended("error", "compile", CELL, "shared-memory-limit", DETAIL))
    run(CELL)
    [record] = [one for one in results_file.read(records) if one["cell"] == CELL]
    assert "`./run.sh` in the attached" in (FOLDER / "ISSUE.md").read_text()
    reduction(FOLDER)
    commands = [["iree-compile", "reduced.mlir"]]
    shell.write(FOLDER / bundling.REDUCED_SCRIPT, "", "3", commands)
    bundling.write_issue(cases.case_of(Path.cwd(), record), FOLDER)
    issue = (FOLDER / "ISSUE.md").read_text()
    assert "`./run_reduced.sh` in the attached" in issue
    assert "```sh\niree-compile \\\n    reduced.mlir\n```" in issue
    assert "right (O0)" not in issue


def test_failures_with_the_same_message_have_one_reproducer(tree, run, ended):
    other = DETAIL.replace("81920", "70000").replace("main_dispatch_0", "main_dispatch_7")
    tree(
        ended("error", "compile", CELL, "shared-memory-limit", DETAIL)
        | ended("error", "compile", "conv/mlir/vulkan", "shared-memory-limit", other)
    )
    said = run("--failed")
    assert said.count("compile conv/mlir/") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["conv/eager/eval"], "conv/eager/eval is a baseline"),
        (["conv/mlir/cpu"], "no row 'conv/mlir/cpu' in results.jsonl; the rows are conv/mlir/llvm-cpu"),
        (["tiny/mlir/llvm-cpu"], "results/reference/tiny/weights.irpa"),
        ([CELL], "ended before its compilation: export conv/mlir"),
    ],
)  # fmt: skip
def test_what_has_no_reproducer_says_why(tree, run, capsys, ended, words, said):
    tree(ended("unsupported", "export", "conv/mlir", "legalization", "failed to legalize"))
    with pytest.raises(SystemExit):
        run(*words)
    assert said in capsys.readouterr().err


def test_the_archive_has_the_folder_and_no_user_of_this_machine(tree, run):
    tree()
    run(CELL)
    archive = "results/bundles/conv__mlir__llvm-cpu.tar.zst"
    with zstandard.open(archive) as file, tarfile.open(fileobj=file, mode="r|") as tar:
        members = {one.name: one for one in tar}
    assert members["conv__mlir__llvm-cpu/run.sh"].mode & 0o100
    assert {(one.uid, one.uname) for one in members.values()} == {(0, "")}


def test_an_executable_that_hangs_is_in_the_bundle_by_itself(tree, run, ended):
    tree(ended("timeout", "compile", CELL, "time-limit", "still running after 600 s"))
    run(CELL)
    assert not (FOLDER / "executable.mlir").exists()
    executables = [
        {"name": name, "status": status, "source": f"hal.executable @{name}"}
        for name, status in (("main$d_3", "timeout"), ("main$d_1", "ok"), ("main$d_7", "oom"))
    ]
    place = Path("results/compile_time/conv/iree/mlir/llvm-cpu/compile.json")
    atomic.write_json(place, {"executables": executables})
    run(CELL)
    assert (FOLDER / "executable.mlir").read_text() == "hal.executable @main$d_3"
    assert (FOLDER / "executable_1.mlir").read_text() == "hal.executable @main$d_7"
    steps = shell.steps(FOLDER / "run_executable.sh")
    assert steps.startswith("iree-compile \\\n    --compile-mode=hal-executable")
    assert steps.endswith("executable.mlir \\\n    -o executable.bin")
    text = (FOLDER / "ISSUE.md").read_text()
    assert (
        "The executable `main$d_3` (`executable.mlir`) does so when it is compiled alone. Others that do: `main$d_7`."
        in text
    )
    assert "`./run_executable.sh` in the attached folder" in text


PLANTED = {
    "/home/planted-home": "home folder",
    "planteduser": "user name",
    "planted-host": "host name",
    "planted-secret-value": "value of an environment variable",
    "planted-password": "token in an address",
}
SAID = (
    "error: /home/planted-home/mine.py:3: planteduser@planted-host could not read /tmp/torchinductor_planteduser/x, "
    "https://token:planted-password@wheels.example.com/simple with planted-secret-value"
)


@pytest.fixture
def planted(monkeypatch):
    """A user, a host and variables that are looked for in what is written; and a search of files, compressed ones too."""
    monkeypatch.setattr(platform, "node", lambda: "planted-host")
    variables = {"HOME": "/home/planted-home", "LOGNAME": "planteduser", "HUB_TOKEN": "planted-secret-value", "OTHER": "planted-other"}  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    private._replacing.cache_clear()
    private._names.cache_clear()

    def named(folder: Path) -> dict[str, list[str]]:
        """What is found of what was planted, by file."""
        texts = {}
        for path in filter(Path.is_file, [folder, *folder.rglob("*")]):
            data = path.read_bytes()
            if path.suffix == ".zst":
                data = zstandard.ZstdDecompressor().stream_reader(data).read()
            texts[str(path)] = data.decode(errors="replace")
            for packed in re.findall(r'type="text/plain" [^>]*>([^<]*)<', texts[str(path)]):
                texts[str(path)] += gzip.decompress(base64.b64decode(packed)).decode()
        words = [*PLANTED, "planted-other"]
        return {
            name: there
            for name, text in texts.items()
            if (there := [w for w in words if w in text])
        }

    yield named
    private._replacing.cache_clear()
    private._names.cache_clear()


def test_what_is_written_for_others_has_nothing_that_identifies_or_opens(
    tree, run, ended, results, planted, monkeypatch
):
    model = dataclasses.replace(results.matrix.models["tiny"], file="/home/planted-home/tiny.py")
    models = results.matrix.models | {"tiny": model}
    results.matrix = dataclasses.replace(results.matrix, models=models)
    tree(ended("error", "compile", CELL, "no", SAID) | ended("error", "verify", "tiny/mlir/llvm-cpu", "no", SAID))  # fmt: skip
    for log in Path("results").rglob("log.txt"):
        log.write_text(f"$ command\n{SAID}\n")
    assert planted(Path("results/compile")), "the log of a stage stays as it is"
    monkeypatch.setattr(sys, "argv", ["x", "--out", "results/report.html"])
    write_report.main()
    store.keep(Path("results/results.jsonl"), "latency")
    run("--failed")
    issue.write(Path("results/bundles"), issue.IREE, SAID, {"What happened?": SAID})
    for name in ("results.jsonl", "latency.csv", "latency.md", "report.html", "history", "bundles"):
        assert planted(Path("results", name)) == {}
    rows = Path("results/results.jsonl").read_text()
    assert "~/tiny.py" in rows
    assert "https://***@wheels.example.com/simple with ***" in rows
    assert "<user>@<host> could not read /tmp/torchinductor_<user>/x" in rows
    text = Path("results/bundles/conv__mlir__llvm-cpu/log.txt").read_text()
    assert "error: ~/mine.py:3: <user>@<host> could not read" in text


def test_a_record_of_another_machine_has_nothing_that_identifies_it(tmp_path, planted, monkeypatch):
    monkeypatch.setattr(measure_elsewhere, "__file__", str(tmp_path / "a/b/c/d.py"))
    bundle = {"files": {}, "request": {"device": "local-task"}, "row": {}, "fingerprint": ""}
    atomic.write_json(tmp_path / "measure.json", bundle)
    ended = {"returncode": 1, "verified": None, "log": SAID}
    monkeypatch.setattr(measure_elsewhere, "verified", lambda *_: ended)
    name = next(
        f for f in dataclasses.fields(measure_elsewhere.Options) if f.name == "name"
    ).default
    assert platform.uname().node not in name
    monkeypatch.setattr(sys, "argv", ["x", "--out", str(tmp_path / "record.json")])
    with pytest.raises(SystemExit):
        measure_elsewhere.main()
    assert planted(tmp_path) == {}
    assert "~/mine.py:3" in (tmp_path / "record.json").read_text()


@pytest.mark.parametrize(
    ("given_text", "text"),
    [
        ("planteduser", "planteduser"),
        ("planteduser/mlir/llvm-cpu", "planteduser/mlir/llvm-cpu"),
        ("results/compile/planteduser/log.txt", "results/compile/planteduser/log.txt"),
        ("/scratch/planteduser/x y", "/scratch/<user>/x y"),
        ("/home/planted-home-2/x", "/home/planted-home-2/x"),
        ("/home/planted-home", "~"),
        ("git+https://a@b.example/x", "git+https://***@b.example/x"),
        ("https://b.example/x@1.0", "https://b.example/x@1.0"),
        ("planted-host.example is down", "<host>.example is down"),
    ],
)
def test_names_are_replaced_where_they_are_no_names_of_cells(planted, given_text, text):
    assert private.text(given_text) == text
    assert private.cleaned({given_text: [given_text, 1]}) == {text: [text, 1]}
