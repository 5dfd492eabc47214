"""Make `.venvs/<env>/` with uv from the pip section of an environment file."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import yaml
from uv import find_uv_bin

from scripts.lib.core import atomic, channel, exits, process


def main() -> None:
    channel.working()
    parser = argparse.ArgumentParser(prog="python -m scripts.make_env", description=__doc__)
    parser.add_argument("--env-file", required=True, type=Path)
    parser.add_argument("--prefix", required=True, type=Path, help="folder of the environment")
    parser.add_argument("--out-versions", required=True, type=Path)
    args = parser.parse_args()
    python, packages = read_env(args.env_file)
    uv = find_uv_bin()
    run([uv, "venv", "--clear", "--quiet", "--python", python, str(args.prefix)])
    interpreter = args.prefix / "bin" / "python"
    # Importing torch without bytecode takes two to three times as long, in every process, and where
    # PYTHONDONTWRITEBYTECODE is set or the folder cannot be written to, none would ever be written.
    run([uv, "pip", "install", "--compile-bytecode", "--python", str(interpreter), *packages])
    listed = subprocess.run(
        [uv, "pip", "list", "--format", "json", "--python", str(interpreter)],
        check=True,
        capture_output=True,
        text=True,
    )
    versions = {package["name"]: package["version"] for package in json.loads(listed.stdout)}
    atomic.write_json(args.out_versions, versions)


def read_env(path: Path) -> tuple[str, list[str]]:
    """The Python version and the pip requirements of a conda environment file."""
    dependencies = yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]
    pythons = [d for d in dependencies if isinstance(d, str) and d.startswith("python=")]
    pips = [d["pip"] for d in dependencies if isinstance(d, dict) and "pip" in d]
    if len(pythons) != 1 or len(pips) != 1:
        exits.fail(f"{path}: expected one `python=` and one `pip:` among the dependencies")
    return pythons[0].removeprefix("python="), pips[0]


def run(command: list[str]) -> None:
    """Run an installer step; its message stands in the log, its exit code is ours."""
    done = process.run_tool(command)
    if done.returncode != 0:
        process.exit_like(done.returncode)


if __name__ == "__main__":
    main()
