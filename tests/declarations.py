"""What the files of models, exporters and runtimes declare, and a config.yaml that names such files."""

from collections.abc import Mapping
from pathlib import Path

import yaml

EXPORTER = {
    "OPTIONS": {},
    "REWRITES": {},
    "VERSIONS": {"a-tool": "frontend"},
    "MEMORY_FACTOR": 1.0,
    "TESTS": ("eval",),
    "FORKABLE": True,
}
RUNTIME = {
    "DEVICES": ("cpu", "cuda"),
    "TESTS": ("eval", "train"),
    "TAKES": ("precision",),
    "LAZY": False,
    "VERSIONS": {"torch": "torch"},
    "MEMORY_FACTOR": 1.0,
    "FORKABLE": True,
}
MODEL = "def get_model(size='s'): ...\ndef get_dummy_input(batch_size=1): ...\n"
CONFIG = yaml.safe_load("""
models:
  b: {batch_size: 2, dtype: f16, size: 50, tolerance: {tol: 0.1}}
  b-again: {file: models/b.py}
  mine: {file: elsewhere/mine.py}
reference: {env: e}
frontends:
  f: {exporter: x, env: e, options: {dialect: torch}}
  g: {exporter: plain, env: e, ir_format: bytecode}
targets:
  cpu: {backend: llvm-cpu, flags: [--a, --b]}
  gpu: {backend: cuda, arch: sm_90, opt_level: O3, device: "cuda://1"}
  amd: {backend: rocm}
baselines:
  eager: {runtime: eager, device: cpu, env: e}
tests: [eval]
measure: {budget_s: 5}
limits: {compile: {timeout_s: 10}}
expect: {"*": ok}
""")


def exporter(**changes) -> str:
    """The text of an exporter's file; a name that is changed to None is left out."""
    return _text(EXPORTER | changes)


def runtime(**changes) -> str:
    """The text of a runtime's file."""
    return _text(RUNTIME | changes)


def write_project(folder: Path, files: Mapping[str, str]) -> Path:
    """Write what CONFIG names and some more files into the folder of a Snakefile, and return the folder."""
    named = {
        "models/b.py": MODEL,
        "elsewhere/mine.py": MODEL,
        "envs/e.yaml": "",
        "scripts/frontends/exporters/x.py": exporter(OPTIONS={"dialect": ("torch", "linalg")}),
        "scripts/frontends/exporters/plain.py": exporter(),
        "scripts/baselines/eager.py": runtime(),
    }
    for file, text in {**named, **files}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return folder


def _text(declared: dict) -> str:
    return "".join(f"{k} = {v!r}\n" for k, v in declared.items() if v is not None)
