"""Copies of the project's files to run, break and repair: what tests of real runs start from."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import FileLock

from scripts.core import atomic, requests
from scripts.core.requests import StageRequest
from scripts.results.columns import COLUMNS
from scripts.run import outputs
from scripts.supervise import outcome

ROOT = Path(__file__).parents[1]
DRIVER = Path(sys.executable)
PACKAGES_OF_DRIVER = ("snakemake.cli", "rich.console", "msgspec", "pydantic", "requests", "jinja2", "docutils.core", "yte", "smart_open")  # fmt: skip
"""What Snakemake imports in each run, besides the workflow's own modules."""
ENVIRONMENTS = ("torch-mlir", "torch-xla", "iree")
LIMITS = "results/machine_limits/cpu"
"""What the machine can do at most, which every run has and no test changes."""

RUN_TIMEOUT_S = 1500
"""How long a run or a script of a test may take: a hang has to fail its test, with what was said before it."""

# Parts of a config.yaml, for runs that end soon.
SHIPPED = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def shipped(section: str, *names: str) -> dict[str, dict[str, Any]]:
    """These entries of a section of config.yaml, which are then in a run without being asked for."""
    entries = {name: dict(SHIPPED[section][name]) for name in names}
    for entry in entries.values():
        if entry.get("default") is False:
            del entry["default"]
    return entries


def params(names: Iterable[str], of_release: Collection[str]) -> list[Any]:
    """The names as parameters of a test; those of a release are marked."""
    return [
        pytest.param(name, marks=pytest.mark.release) if name in of_release else name
        for name in names
    ]


EAGER = shipped("baselines", "eager")
QUICK = {"budget_s": 0.2, "generations": 1}
"""Each member is timed once, so that there are no ratios: what a checkout has if a test asks for nothing else."""
WITH_INTERVALS = {"budget_s": 1, "generations": 5}
TINY_BERT = {"file": "bert.py", "size": "tiny", "seq_len": 16}
ON_CPU = {"llvm-cpu": {"backend": "llvm-cpu", "opt_level": "O3"}}

TIMINGS = {one.column for one in COLUMNS if one.varies}
"""What is measured anew in each run, and what follows from it."""


@dataclass
class Checkout:
    """A copy of the project's files to run, break and repair."""

    path: Path
    variables: dict[str, str] = field(default_factory=dict)

    def snakemake(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess:
        """Run snakemake as a user would; its whole output is in `.stdout`."""
        done = run_module(DRIVER, "snakemake", *arguments, cwd=self.path, variables=self.variables, merged=True)  # fmt: skip
        if check and done.returncode != 0:
            pytest.fail(f"snakemake {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stdout[-6000:]}")  # fmt: skip
        return done

    def vmfbench(self, *words: object, check: bool = True) -> str:
        """What a verb prints on stdout."""
        done = run_module(DRIVER, "scripts.cli", *words, cwd=self.path, variables=self.variables)  # fmt: skip
        assert done.returncode == 0 or not check, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def rows(self) -> list[dict[str, str]]:
        return list(outputs.rows(self.path / "results/latency.csv"))

    def row(self, model: str, frontend: str, target: str) -> dict[str, str]:
        """The one row of an IREE cell."""
        wanted = (model, frontend, target)
        found = [r for r in self.rows() if (r["model"], r["frontend"], r["target"]) == wanted]
        assert len(found) == 1, f"{len(found)} rows for {wanted}"
        return found[0]

    def configure(self, **changes) -> None:
        """Merge changes into config.yaml; a key of None is removed, a mapping is replaced."""
        file = self.path / "config.yaml"
        config = yaml.safe_load(file.read_text(encoding="utf-8")) | changes
        file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def as_made(path: Path) -> None:
    """Have a file that a test has altered count as its stage's own work, and not as damaged since."""
    usage = outcome.read_usage(path)
    assert usage is not None
    assert path.name in usage.artifacts
    made = {**usage.artifacts, path.name: atomic.digest_of(path)}
    atomic.write_json(outcome.usage_path(path), asdict(replace(usage, artifacts=made)))


def is_compared(row: dict[str, str], column: str = "speedup_vs_eager") -> bool:
    """Whether a row of a CSV has a ratio to another row, or the reason why it is not known: it was timed once, or the machine was busy."""
    ratio = row[column]
    return float(ratio) > 0 if ratio else bool(row["doubt"])


def make_here(*files: str) -> None:
    """Have the workflow make files in this checkout, for all tests.

    One test process at a time: each of them is a run in the same folder.
    """
    (ROOT / ".venvs").mkdir(exist_ok=True)
    with FileLock(ROOT / ".venvs/tests.lock"):
        Checkout(ROOT).snakemake("--cores", "2", *files)
    empty = [file for file in files if not (ROOT / file).stat().st_size]
    assert not empty, f"could not make {empty}: see the logs in results/"


def made_environments(*names: str) -> Path:
    """The folder of environments, with those of these names."""
    make_here(*(f".venvs/{name}/versions.json" for name in names))
    return ROOT / ".venvs"


def environment() -> dict[str, str]:
    """This process's environment, less what pytest and a terminal put there."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COLUMNS")} | {
        "COLUMNS": "200"
    }


def in_environment(python: Path, module: str, *arguments: object, case: object = None, fork: bool = True) -> Any:  # fmt: skip
    """What a script of the tests, run with an environment's Python and given `case` as JSON,
    prints as JSON in its last line."""
    done = run_module(
        python, f"tests.pipeline.{module}", *arguments, stdin=json.dumps(case), fork=fork
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def request_stage(python: Path, stage: str, out: Path, /, fork: bool = True, **fields: object) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a stage with an environment's Python and these fields of a request. Its results go to `out`."""
    folder = out / f"request-{stage}"
    [file] = [
        path
        for place in ("scripts/stages", "scripts/tools/*")
        for path in ROOT.glob(f"{place}/{stage}.py")
    ]
    module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    request = StageRequest(module, str(python), requests.plain(fields))
    request.write(folder)
    words = ("--request", folder / requests.FILE, "--out", out)
    return run_module(python, request.module, *words, fork=fork)


def run_stage(python: Path, stage: str, out: Path, /, **fields: object) -> None:
    """Run a stage, which has to end well."""
    done = request_stage(python, stage, out, **fields)
    assert done.returncode == 0, done.stderr[-3000:]


def run_module(
    python: Path,
    module: str,
    *arguments: object,
    stdin: str = "",
    fork: bool = True,
    cwd: Path = ROOT,
    variables: Mapping[str, str] | None = None,
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a module with an environment's Python: in a fork of a process that has imported the packages of the environment, or in one of
    its own. `merged`: its stderr is in its stdout."""
    words = [str(argument) for argument in arguments]
    command = [str(python), "-m", module, *words]
    env = environment() | dict(variables or {})
    if fork:
        request = {"module": module, "arguments": words, "stdin": stdin, "env": env}
        request |= {"cwd": str(cwd), "merged": merged, "timeout_s": RUN_TIMEOUT_S}
        serves = module == "snakemake" and "-n" not in words and cwd != ROOT
        warm = [forks(made) for made in imported_before(cwd)] if serves else []
        for one in warm:
            one({})  # or the run would start a server itself, meanwhile

        def began(run: int) -> None:
            for one in warm:
                python = str(cwd / one.python.relative_to(ROOT))
                one({"serves": run, "python": python, "env": env, "cwd": str(cwd)})

        return subprocess.CompletedProcess(command, **forks(python)(request, began))
    return subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
        check=False,
        env=env,
        timeout=RUN_TIMEOUT_S,
    )


def imported_before(folder: Path) -> list[Path]:
    """Of the environments of a checkout, the Pythons for which runs have started fork servers. The next run is given servers that are
    forked from a process with their packages, whose import takes longer than most stages."""
    logs = folder.parent.glob("*/results/logs/fork-server-*.txt")
    names = {"torch-mlir", *(log.stem.removeprefix("fork-server-") for log in logs)}
    return [
        ROOT / ".venvs" / name / "bin/python"
        for name in sorted(names)
        if (folder / ".venvs" / name).is_symlink()
        and (folder / ".venvs" / name).resolve() == (ROOT / ".venvs" / name).resolve()
    ]


def forks(python: Path) -> Answering:
    """The process of an environment that others are forked from. Tests that supervise a stage in this process end it with all others."""
    known = FORKS.get(python)
    if known is None or known.has_ended:
        packages = PACKAGES_OF_DRIVER if python == DRIVER else ()
        FORKS[python] = known = Answering(python, "forks", *packages)
    return known


class Answering:
    """A process of a script of the tests, with an environment's Python, that answers one case after the other: it takes
    seconds to start."""

    def __init__(self, python: Path, module: str, *arguments: str) -> None:
        self.python = python
        self._process = subprocess.Popen(
            [str(python), "-u", "-m", f"tests.pipeline.{module}", *arguments],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Answering:
        return self

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def __call__(self, case: object, began: Callable[[int], None] | None = None) -> Any:
        """What the script prints as `{"answer": …}` when it is given a line of JSON. `began`: is called with the process that it prints
        as `{"process": …}` before."""
        print(json.dumps(case), file=self._process.stdin, flush=True)
        # Libraries print notes of their own.
        for line in self._process.stdout or ():
            if began and line.startswith('{"process"'):
                began(json.loads(line)["process"])
            if line.startswith('{"answer"'):
                return json.loads(line)["answer"]
        pytest.fail(f"{case}: the process ended with {self._process.wait()}; its stderr says why")

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


FORKS: dict[Path, Answering] = {}


def end_forks() -> None:
    """End the processes that others are forked from."""
    while FORKS:
        FORKS.popitem()[1].__exit__()


atexit.register(end_forks)


def keep_models(checkout: Checkout, *names: str) -> None:
    """Leave only these model files in the matrix."""
    for file in (checkout.path / "models").glob("*.py"):
        if file.stem not in names:
            file.unlink()


def without_timings(checkout: Checkout) -> list[dict[str, str]]:
    """The rows without what is measured anew in each run."""
    return [{k: v for k, v in row.items() if k not in TIMINGS} for row in checkout.rows()]
