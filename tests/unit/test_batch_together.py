"""Many programs compiled as one module by a substitute for iree-compile: each program has its own
outcome, whatever one of them does to the compiler."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from scripts.config.stages import status_path
from scripts.iree.compile_cache import CompileCache
from scripts.supervise import outcome
from scripts.supervise.job import Interrupted, Job
from scripts.supervise.outcome import Outcome, ProblemEnd, Usage
from scripts.tools.operators import supervise_batch
from scripts.tools.operators.batch import together
from scripts.tools.operators.batch.batch_program import Program
from scripts.tools.operators.batch.together import Compilation

# A program is `func.func @main() {`, a line `return "<fate>"` (with its name, so that programs
# differ), `}`. The substitute does what each fate says, and writes the functions' names as its
# module.
COMPILER = """
import os, re, signal, sys, time
from pathlib import Path

source, out = Path(sys.argv[-3]), Path(sys.argv[-1])
flags = sys.argv[1:-3]
with open(flags[0], "a") as runs:
    runs.write(source.read_text().count("func.func").__str__() + "\\n")
if "--unheard-of" in flags:
    sys.exit("iree-compile: Unknown command line argument '--unheard-of'.")
lines = source.read_text().splitlines()
failed = False
for number, line in enumerate(lines, 1):
    if name := re.search(r"func.func @(\\w+)", line):
        entry = name[1]
    fate = re.search(r'return "(\\w+)', line)
    match fate[1] if fate else "":
        case "illegal" if not failed or "--only-the-first" not in flags:
            print(f"{source}:{number}:3: error: failed to legalize operation 'torch.aten.odd'\\n{line}\\n  ^")
            failed = True
        case "dispatch":
            print(f"<unknown>:0: error: '{entry}$async_dispatch_0' failed to bufferize")
            failed = True
        case "silent":
            print("error: failed somewhere")
            failed = True
        case "segfault":
            print("LLVM ERROR: out of luck", flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            while True: pass
        case "memory":
            held = [bytearray(8 << 20) for _ in range(1000)]
            while True: pass
if failed:
    sys.exit(1)
out.write_text("\\n".join(re.findall(r"func.func @(\\w+)", source.read_text())))
"""


@dataclasses.dataclass
class Setup:
    """Compiles programs with given fates. `runs`: number of functions of each process."""

    folder: Path
    timeout_s: float = 2.5
    flags: tuple[str, ...] = ()
    code: str = "c0de"
    cache: str = "cache"
    owner: int = dataclasses.field(default_factory=os.getppid)

    def __call__(self, *fates: str) -> dict[str, ProblemEnd]:
        programs = [self.program(f"p{n}", fate) for n, fate in enumerate(fates)]
        return self.compile(programs)

    def compile(self, programs: list[Program], done=lambda _: None) -> dict[str, ProblemEnd]:
        script = self.folder / "compiler.py"
        script.write_text(COMPILER)
        job = Job(
            stage="compile",
            cell="batch",
            status_path=self.folder / "status.json",
            log_path=self.folder / "log.txt",
            command=[sys.executable, str(script), str(self.folder / "runs"), *self.flags],
            timeout_s=self.timeout_s,
            memory_mb=300,
            fingerprint=self.code,
            owner=self.owner,
        )
        found: list[ProblemEnd] = []

        def take(compiled: ProblemEnd) -> None:
            found.append(compiled)
            done(compiled)

        cache = CompileCache(self.folder / self.cache, float("inf"))
        Compilation(job, "3.13", cache).run(programs, take)
        assert all(line.outcome.cell == f"batch: {line.problem}" for line in found)
        assert sorted(line.problem for line in found) == sorted(one.name for one in programs)
        return {line.problem: line for line in found}

    def program(self, name: str, fate: str = "", text: str = "") -> Program:
        path = self.folder / "programs" / f"{name}.mlir"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text or f'func.func @main() {{\n  return "{fate} {name}"\n}}\n')
        return Program.read(name, path, self.folder / "logs" / f"{name}.txt")

    @property
    def runs(self) -> list[int]:
        file = self.folder / "runs"
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def setup(tmp_path, monkeypatch, nothing_is_left) -> Setup:
    # If a module is stopped too early, it is only split.
    monkeypatch.setattr(together, "TOGETHER_FLOOR_S", 0.5)
    monkeypatch.setattr(together, "TOGETHER_S", 0.01)
    return Setup(tmp_path)


def statuses(found: dict[str, ProblemEnd]) -> dict[str, tuple[str, str]]:
    """Return the outcomes that are not ok."""
    ended = {name: compiled.outcome for name, compiled in found.items()}
    return {name: (o.status, o.reason) for name, o in ended.items() if o.status != "ok"}


def test_programs_are_compiled_as_the_functions_of_modules(setup):
    found = setup(*["ok"] * 100)
    assert setup.runs == [24, 32, 32, 12]  # the first one shows that such programs compile
    assert statuses(found) == {}
    for number, compiled in enumerate(found.values()):
        assert (
            compiled.result["function"]
            == f"program_{number if number < 24 else (number - 24) % 32}"
        )
        assert compiled.result["function"] in Path(compiled.result["module"]).read_text().split()
        assert compiled.result["together"] == (24 if number < 24 else 32 if number < 88 else 12)
        assert not compiled.result["cached"]


def test_a_program_by_itself_keeps_the_name_of_its_entry(setup):
    (compiled,) = setup("ok").values()
    assert (compiled.result["function"], compiled.result["together"]) == ("main", 1)
    assert Path(compiled.result["module"]).read_text() == "main"


def test_those_that_diagnostics_name_are_compiled_alone_and_the_rest_again(setup):
    fates = ["ok"] * 64
    for number, fate in {3: "illegal", 17: "dispatch", 40: "illegal", 63: "dispatch"}.items():
        fates[number] = fate
    found = setup(*fates)
    assert len(setup.runs) <= 16
    assert statuses(found) == {
        "p3": ("unsupported", "legalization"),
        "p17": ("error", "bufferization"),
        "p40": ("unsupported", "legalization"),
        "p63": ("error", "bufferization"),
    }


def test_a_compiler_that_stops_at_its_first_error_finds_them_all(setup):
    setup.flags = ("--only-the-first",)
    fates = ["illegal" if number % 20 == 0 else "ok" for number in range(64)]
    found = setup(*fates)
    assert sorted(statuses(found)) == ["p0", "p20", "p40", "p60"]


FATES = {
    "illegal": ("unsupported", "legalization"),
    "silent": ("error", "stage-error"),
    "segfault": ("crashed", "SIGSEGV"),
    "killed": ("crashed", "SIGKILL"),
    "hang": ("timeout", "time-limit"),
    "memory": ("oom", "memory-limit"),
}


@pytest.mark.parametrize("fate", FATES)
def test_one_of_32_ends_as_it_does_alone_and_the_others_as_undisturbed(setup, fate):
    others = [setup.program(f"p{n}", "ok") for n in range(31)]
    odd = setup.program("odd", fate)
    found = setup.compile([*others[:19], odd, *others[19:]])
    ended = found.pop("odd").outcome
    assert statuses(found) == {}
    assert all(compiled.result["function"] in Path(compiled.result["module"]).read_text().split() for compiled in found.values())  # fmt: skip
    assert (ended.status, ended.reason) == FATES[fate]
    # On a busy machine, a module may exceed its time limit, which only splits it.
    assert fate == "hang" or len(setup.runs) <= 2 * 5 + 2
    log = odd.log.read_text()
    setup.cache = "another"
    assert _comparable(setup.compile([odd])["odd"].outcome) == _comparable(ended)
    assert fate in ("hang", "segfault") or odd.log.read_text() == log  # stacks have addresses


def _comparable(outcome):
    """Return an outcome without the number of megabytes, which varies."""
    return dataclasses.replace(outcome, detail=outcome.detail if outcome.status != "oom" else "")


def test_what_is_wrong_with_the_flags_is_found_once(setup):
    setup.flags = ("--unheard-of",)
    found = setup(*["ok"] * 32)
    assert setup.runs == [24, 8]
    assert set(statuses(found).values()) == {("error", "bad-flag")}


def test_the_same_program_is_not_compiled_again(setup):
    first = setup("ok", "illegal", "ok")
    assert not any(compiled.result["cached"] for compiled in first.values())
    count = len(setup.runs)
    again = setup("ok", "illegal", "ok", "ok")
    assert setup.runs[count:] == [1]
    assert [compiled.result["cached"] for compiled in again.values()] == [True, True, True, False]
    for name, compiled in first.items():
        result = compiled.result | {"cached": True}
        assert dataclasses.replace(compiled, result=result) == again[name]
    assert (setup.folder / "logs/p1.txt").read_text().startswith(str(setup.folder / "programs"))


def test_two_programs_that_are_the_same_are_compiled_once(setup):
    first = setup.program("first", "ok")
    found = setup.compile([first, setup.program("other", text=first.text)])
    assert setup.runs == [1]
    assert (found["first"].result["cached"], found["other"].result["cached"]) == (False, True)
    assert found["first"].result["module"] == found["other"].result["module"]


def test_a_module_that_the_cache_has_damaged_is_made_again(setup):
    module = Path(setup("ok", "ok")["p0"].result["module"])
    whole = module.read_bytes()
    [stored] = (setup.folder / "cache").rglob(module.name)
    for damage in (lambda: stored.write_bytes(whole[:-1]), stored.unlink):
        damage()
        found = setup("ok", "ok")["p1"]
        assert not found.result["cached"]
        assert module.read_bytes() == whole
    module.write_bytes(b"cut")
    assert setup("ok", "ok")["p1"].result["cached"]
    assert module.read_bytes() == whole


def test_a_kill_from_outside_is_not_kept(setup):
    setup("killed")
    assert not setup("killed")["p0"].result["cached"]


def test_failures_run_again_under_other_code_and_nothing_else(setup):
    setup("ok", "illegal")
    count = len(setup.runs)
    setup.code = "fixed"
    found = setup("ok", "illegal")
    assert [compiled.result["cached"] for compiled in found.values()] == [True, False]
    assert setup.runs[count:] == [1]


def test_a_limit_that_was_raised_compiles_again(setup):
    setup.timeout_s = 1
    assert setup("hang")["p0"].outcome.limit == 1
    assert setup("hang")["p0"].result["cached"]
    setup.timeout_s = 1.5
    assert not setup("hang")["p0"].result["cached"]


def test_a_program_with_resources_is_compiled_alone(setup):
    text = setup.program("big", "ok").text + "{-# #-}\n"
    big = setup.program("big", text=text)
    found = setup.compile([setup.program("a", "ok"), big, setup.program("b", "ok")])
    assert sorted(setup.runs) == [1, 2]
    assert found["big"].result["function"] == "main"


def test_a_program_with_float64_in_its_interface_is_compiled_alone_and_keeps_it(setup):
    text = 'func.func @main(%arg0: tensor<2xf64>) {\n  return "ok wide"\n}\n'
    programs = [
        setup.program("a", "ok"),
        setup.program("b", "ok"),
        setup.program("wide", text=text),
    ]
    found = setup.compile(programs)
    assert {name: line.result["together"] for name, line in found.items()} == {
        "a": 2,
        "b": 2,
        "wide": 1,
    }
    keeps = {name for name, line in found.items() if "f64-to-f32=false" in line.outcome.command}
    assert keeps == {"wide"}


def test_what_came_of_each_is_in_the_cache_when_the_rest_is_stopped(setup):
    programs = [setup.program(f"p{number}", "ok") for number in range(100)]

    def stop(compiled: ProblemEnd) -> None:
        if compiled.problem == "p64":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setup.compile(programs, done=stop)
    found = setup.compile(programs)
    assert [compiled.result["cached"] for compiled in found.values()] == [True] * 65 + [False] * 35


def test_a_log_names_the_programs_own_file_and_line(setup):
    found = setup("ok", "illegal", "ok")["p1"].outcome
    path = setup.folder / "programs/p1.mlir"
    assert Path(found.log).read_text().startswith(f"{path}:2:3: error: failed to legalize")
    assert found.detail.endswith('[p1.mlir:2: return "illegal p1"]')
    assert str(path) in found.command


def test_an_orphaned_engine_stops(setup):
    setup.owner = os.getpid()  # not the parent of this process
    with pytest.raises(Interrupted):
        setup("hang")


def test_the_log_of_a_failure_from_the_cache_names_the_file_of_the_present_program(setup):
    first = setup.program("first", "illegal")
    other = setup.program("other", text=first.text)
    setup.compile([first, other])
    assert setup.runs == [1]
    assert other.log.read_text().startswith(f"{other.path}:2:3: error:")


def test_programs_of_a_kind_that_fails_are_not_put_together_with_others(setup):
    text = 'func.func @main() {{\n  odd.return "illegal {}"\n}}\n'
    odd = [setup.program(f"odd{n}", text=text.format(n)) for n in range(10)]
    fine = [setup.program(f"fine{n}", "ok") for n in range(40)]
    setup.flags = ("--only-the-first",)
    mixed = [program for pair in zip(odd, fine, strict=False) for program in pair] + fine[10:]
    found = setup.compile(mixed)
    assert len(statuses(found)) == 10
    # Each odd program is compiled alone, and most of them in no more than one other module.
    assert len(setup.runs) <= 26


def test_a_kind_is_operations_and_types_without_numbers():
    add = "%0 = arith.addf %arg0, %arg0 : tensor<4x5xf32>"
    assert together.kind(add) == together.kind("%10 = arith.addf %arg0, %arg0 : tensor<77x1xf32>")
    for change in (("f32", "f16"), ("addf", "mulf"), ("4x5", "4x0")):
        assert together.kind(add) != together.kind(add.replace(*change))


def test_without_an_environment_a_batch_is_skipped_and_does_not_end_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = status_path("env", "iree")
    outcome.write(env, Outcome("error", "env", "iree", "why", "what"), Usage(0, 0))
    Path("problems.jsonl").write_text("")
    status = Path(status_path("operator_compile", "0/mlir/llvm-cpu"))
    artifact = status.with_name("outcomes.jsonl")
    options = {
        "stage": "operator_compile",
        "cell": "0/mlir/llvm-cpu",
        "status": status,
        "log": status.with_name("log.txt"),
        "timeout": 1,
        "memory": 100,
        "upstream": env,
        "artifact": artifact,
        "run": "scripts.tools.operators.compile_operators",
        "python": "python",
        "request": '{"backend": "llvm-cpu", "compiler_python": ".venvs/iree/bin/python", "problems": "problems.jsonl", "before": []}',
        "version": 1,
    }
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    monkeypatch.setattr(sys, "argv", ["supervise_batch", *words])
    assert supervise_batch.main() == 0
    ended = outcome.read(status)
    assert (ended.status, ended.reason, ended.blocked_by) == ("skipped", "why", "env iree")
    assert artifact.read_text() == ""
    assert status.with_name("request.json").is_file()
