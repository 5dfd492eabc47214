"""vmfbench run and doctor: the words for Snakemake, and what a machine lacks."""

import re
import shutil
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest

from scripts.cli import doctor, run, verbs
from scripts.core import checkout
from scripts.run import environments
from scripts.tools import registry

GB = 10**9


@pytest.fixture
def snakemake(tmp_path, monkeypatch):
    """The command that a command line of `vmfbench run` executes, in a folder with `mine.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    executed = []
    monkeypatch.setattr(run.os, "execv", lambda _, command: executed.append(command))

    def words(*given):
        monkeypatch.setattr(sys, "argv", ["vmfbench run", *given])
        run.main()
        return executed.pop()

    return words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ["results/latency.csv"]),
        (["mine.py", "gpt2*"], ["results/latency.csv", "--config", "file=mine.py", "models=gpt2*"]),
        (["gone.py"], ["results/latency.csv", "--config", "file=gone.py"]),
        (["--quick", "--targets", "a,b"], ["results/latency.csv", "--config", "targets=a,b", "quick=true"]),
        (["--make", "x", "--config", "tests=eval", "-n"], ["x", "--dry-run", "--quiet=rules", "--config", "tests=eval"]),
        (["--", "--profile", "p"], ["results/latency.csv", "--profile", "p"]),
        (["results/tuned.csv", "resnet"], ["results/tuned.csv", "--config", "models=resnet"]),
        (["results/report.html", "--make", "dumps"], ["results/report.html", "dumps"]),
        (["--filter", "^r", "--stop-on", "FAIL"], ["results/latency.csv", "--config", "filter=^r", "stop_on=FAIL"]),
        (["--retry", "stale", "--suites", "timm/*"], ["results/latency.csv", "--config", "suites=timm/*", "retry=stale"]),
    ],
)  # fmt: skip
def test_the_words_of_a_run_are_those_of_snakemake(snakemake, given, words):
    command = snakemake(*given)
    assert command[command.index("--cores") :] == ["--cores", "all", *words]


def test_a_package_in_the_working_folder_hides_none_of_the_runs(snakemake, tmp_path):
    command = snakemake()
    (tmp_path / "snakemake").mkdir()
    (tmp_path / "snakemake" / "__init__.py").write_text("raise SystemExit('of the working folder')")
    done = subprocess.run([*command[:4], "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def batches(tmp_path, monkeypatch):
    """A function that runs `vmfbench run` with words, and returns its exit code and the batches that were run. Each run writes two rows,
    those after the first with a further column; `failing` ends with 1."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()

    def run_with(*given, failing=""):
        ran = []

        def call(command):
            batch = next(w.removeprefix("batch=") for w in command if w.startswith("batch="))
            ran.append(batch)
            number = int(batch.partition("/")[0])
            more = (",openvino", ",7") if number > 1 else ("", "")
            rows = [f'm{number}{end},"a, ""b"""{more[1]}' for end in "xy"]
            (tmp_path / "results/latency.csv").write_text(
                f"model,detail{more[0]}\n" + "\n".join(rows) + "\n"
            )
            (tmp_path / "results/results.jsonl").write_text(f'{{"m": {number}}}\n' * 2)
            return int(batch == failing)

        monkeypatch.setattr(run.subprocess, "call", call)
        monkeypatch.setattr(sys, "argv", ["vmfbench run", *given])
        try:
            run.main()
        except SystemExit as ended:
            return ended.code, ran
        return 0, ran

    return run_with


def test_batches_are_run_one_after_the_other_and_their_rows_are_joined(batches, tmp_path):
    assert batches("resnet*", "--batches", "3") == (0, ["1/3", "2/3", "3/3"])
    folder = tmp_path / "results/batches"
    assert (
        folder / "results.jsonl"
    ).read_text() == '{"m": 1}\n{"m": 1}\n{"m": 2}\n{"m": 2}\n{"m": 3}\n{"m": 3}\n'
    lines = (folder / "latency.csv").read_text().splitlines()
    rest = [f'm{number}{end},"a, ""b""",7' for number in (2, 3) for end in "xy"]
    assert lines == ["model,detail,openvino", 'm1x,"a, ""b""",', 'm1y,"a, ""b""",', *rest]


def test_a_batch_that_fails_ends_the_command_and_a_dry_run_writes_nothing(batches, tmp_path):
    assert batches("--batches", "3", failing="2/3") == (1, ["1/3", "2/3"])
    assert not (tmp_path / "results/batches/latency.csv").exists()
    shutil.rmtree(tmp_path / "results/batches")
    assert batches("--batches", "2", "-n") == (0, ["1/2", "2/2"])
    assert not (tmp_path / "results/batches").exists()


@pytest.mark.parametrize(
    "given", [("--batches", "0"), ("--batches", "2", "--make", "results/kernels.csv")]
)
def test_batches_that_cannot_be_are_refused(batches, given, capsys):
    assert batches(*given) == (2, [])
    assert "--batches: expected" in capsys.readouterr().err


@pytest.fixture
def machine(monkeypatch):
    """A machine that lacks nothing of what the default run needs."""
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(doctor.environments, "whole", lambda _: "")

    def has(memory_gb: float = 8, disk_gb: float = 20):
        for module, name, found in (
            (doctor.psutil, "virtual_memory", SimpleNamespace(available=memory_gb * GB)),
            (doctor.shutil, "disk_usage", SimpleNamespace(free=disk_gb * GB)),
        ):
            monkeypatch.setattr(module, name, lambda *_, found=found: found)

    has()
    return has


@pytest.fixture
def lacking(monkeypatch, capsys):
    """What the machine lacks of what the default run needs, with the advice."""
    monkeypatch.setattr(sys, "argv", ["vmfbench doctor"])

    def lacks() -> dict[str, str]:
        with pytest.raises(SystemExit) as end:
            doctor.main()
        shown = capsys.readouterr().out
        found = {f.what: f.advice for f in doctor.look() if f.needed and f.advice}
        assert all(f" → {advice}\n" in shown for advice in found.values())
        assert bool(end.value.code) == bool(found)
        return found

    return lacks


@pytest.mark.parametrize(("has", "what", "advice"), [
    ({"memory_gb": 4}, "memory", "the default run takes 8 GB: select fewer models"),
    ({"disk_gb": 19}, "disk", "the default run takes 20 GB: docs/disk.md says what can be deleted"),
])  # fmt: skip
def test_memory_and_disk_are_needed(machine, lacking, has, what, advice):
    assert lacking() == {}
    machine(**has)
    assert lacking() == {what: advice}


def test_environments_that_are_made_need_no_disk(machine, lacking, monkeypatch):
    monkeypatch.setattr(doctor.environments, "whole", lambda f: environments.pins_digest(f.name))
    machine(disk_gb=5)
    assert lacking() == {}


@pytest.mark.parametrize(
    ("here", "said"),
    [
        (["3.11", "3.13"], ""),
        (["3.13", "3.14"], "; uv downloads Python 3.11, else Python 3.13 is taken"),
        (["3.10"], "; uv downloads Python 3.11, else install 3.11 or 3.12 or 3.13"),
    ],
)
def test_an_environment_that_is_not_made_says_with_which_python_it_will_be(
    machine, monkeypatch, here, said
):
    monkeypatch.setattr(doctor.installing, "find_python", lambda version: version in here)
    advice = {finding.what: finding.advice for finding in doctor.look()}
    assert advice["environment torch-xla"] == f"made by the first run that needs it{said}"


def test_the_default_run_needs_a_compiler_for_inductor(machine, lacking, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    assert lacking().keys() == {"C++ compiler"}


def test_the_registry_lists_all_features_and_the_files_of_their_rules():
    folders = checkout.ROOT.glob("scripts/tools/*/__init__.py")
    assert {file.parent.name for file in folders} == set(registry.NAMES)
    snakefile = (checkout.ROOT / "Snakefile").read_text(encoding="utf-8")
    rules = {f"workflow/rules/{file.name}" for file in checkout.ROOT.glob("workflow/rules/*.smk")}
    assert {file for file in rules if f'include: "{file}"' not in snakefile} == set(
        registry.rule_files()
    )


def test_the_version_that_is_printed_is_that_of_the_wheel(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vmfbench", "--version"])
    verbs.main()
    declared = tomllib.loads((checkout.ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]  # fmt: skip
    found = re.search(declared["pattern"], (checkout.ROOT / declared["path"]).read_text())
    assert capsys.readouterr().out == f"vmfbench {found['version']}\n"
