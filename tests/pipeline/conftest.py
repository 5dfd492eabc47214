"""Real runs of the workflow, each in a checkout of its own over shared environments."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ("torch-mlir", "torch-xla", "iree")


@dataclass
class Checkout:
    """A copy of the project's files to run, break and repair."""

    path: Path

    def snakemake(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run snakemake as a user would; its whole output is in `.stdout`."""
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=environment(),
        )
        if check and done.returncode != 0:
            pytest.fail(f"snakemake {' '.join(arguments)}: exit {done.returncode}\n{done.stdout[-6000:]}")  # fmt: skip
        return done

    def rows(self) -> list[dict[str, str]]:
        with (self.path / "results/latency.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

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


def environment() -> dict[str, str]:
    """This process's environment, less what pytest and a terminal put there."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COLUMNS")} | {
        "COLUMNS": "200"
    }


def in_environment(python: Path, module: str, *arguments: object, case: object = None) -> Any:
    """What a script of the tests, run with an environment's Python and given `case` as JSON,
    prints as JSON in its last line."""
    done = subprocess.run(
        [str(python), "-m", f"tests.pipeline.{module}", *map(str, arguments)],
        cwd=ROOT,
        input=json.dumps(case),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def environments() -> Path:
    """The stage environments, made by the workflow itself in this checkout."""
    wanted = [f".venvs/{env}/versions.json" for env in ENVIRONMENTS]
    Checkout(ROOT).snakemake("--cores", "2", *wanted)
    empty = [file for file in wanted if not (ROOT / file).stat().st_size]
    assert not empty, f"could not make {empty}: see results/env/*/log.txt"
    return ROOT / ".venvs"


@pytest.fixture(scope="session")
def make_checkout(environments, tmp_path_factory):
    """A function that makes a checkout with the given models, targets and baselines."""

    def make(name: str, **config) -> Checkout:
        path = tmp_path_factory.mktemp(name)
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        )
        for file in filter(None, listed.stdout.split("\0")):
            # Times come along: an env file newer than its environment would remake that.
            if (ROOT / file).exists():
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, path / file, follow_symlinks=False)
        (path / ".venvs").mkdir()
        for env in ENVIRONMENTS:
            (path / ".venvs" / env).symlink_to(environments / env)
            shutil.copytree(ROOT / "results/env" / env, path / "results/env" / env)
        made = Checkout(path)
        # Neither expectations nor targets name models that a test may leave out, and every
        # frontend is in a run.
        shipped = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
        for entry in (*shipped["targets"].values(), *shipped["frontends"].values()):
            entry.pop("models", None)
            entry.pop("default", None)
        whole = {key: shipped[key] for key in ("targets", "frontends")}
        made.configure(**({"expect": {}} | whole | config))
        return made

    return make


def keep_models(checkout: Checkout, *names: str) -> None:
    """Leave only these model files in the matrix."""
    for file in (checkout.path / "models").glob("*.py"):
        if file.stem not in names:
            file.unlink()
