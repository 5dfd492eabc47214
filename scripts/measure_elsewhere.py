"""Measure the module of a bundle on this machine: verify it, time it, and write a record for scripts.import_record.

A bundle of `python -m scripts.bundle --measure` has this script with all modules that it imports. It needs Python 3.11 or
later, IREE's runtime and nothing else. Everything is done as in a run of the workflow: the same verification, the same
stopping rule, and a second round minutes after the first one. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.lib.artifacts import digest
from scripts.lib.artifacts.digest import Digest
from scripts.lib.core import atomic, commands, exits
from scripts.lib.core.machine import physical_cores

BUNDLE, RECORD, FORMAT = "measure.json", "record.json", 1
LOG_CHARS = 20_000
"""How much of the end of a log a record has."""
_NAME = re.compile(r"[^\w.-]+")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.measure_elsewhere", description=__doc__
    )
    parser.add_argument(
        "--name", default=platform.node(), help="of this machine, for the rows (default: host name)"
    )
    parser.add_argument("--threads", type=int, help="CPU threads (default: physical cores)")
    parser.add_argument(
        "--device", help="device URI, such as cuda://1 (default: that of the target)"
    )
    parser.add_argument(
        "--pause",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="between the rounds (default: 60)",
    )
    parser.add_argument("--out", type=Path, default=Path(RECORD), help=f"default: {RECORD}")
    args = parser.parse_args()
    folder = Path(__file__).absolute().parents[1]
    bundle = atomic.read_json(folder / BUNDLE)
    number = bundle.get("threads")
    if number and args.threads not in (None, number):
        exits.fail(
            f"this bundle is of a row with {number} threads, found --threads {args.threads}: leave the option out, or make a "
            "bundle of the row with that number"
        )
    check(folder, bundle["files"])
    rounds = measure(folder, words(bundle["command"], args.threads, args.device), bundle["rounds"], args.pause)  # fmt: skip
    made = {
        "format": FORMAT,
        "name": _NAME.sub("-", args.name).strip("-.") or "elsewhere",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": physical_cores(),
        "row": bundle["row"],
        "fingerprint": bundle["fingerprint"],
        "rounds": rounds,
    }
    atomic.write_json(args.out, made)
    ended = rounds[-1]
    if ended["returncode"] != 0:
        exits.fail(f"not measured, see above; {args.out} says why")
    timed = [one["measurement"]["latency"] for one in rounds if one["measurement"].get("latency")]
    values = [f"{ms:.4g}" for one in timed for ms in one["values_ms"]]
    print(f"verified; ms per call: {', '.join(values)}")
    print(
        f"{args.out}: python -m scripts.import_record {args.out} adds it to the results of a checkout"
    )


def check(folder: Path, files: dict[str, Any]) -> None:
    """Exit if a file of the bundle is missing or has changed since it was made."""
    for name, made in files.items():
        if what := digest.difference(folder / name, Digest(**made)):
            exits.fail(f"{folder / name}: {what}; copy the bundle again")


def words(command: Sequence[str], threads: int | None, device: str | None) -> list[str]:
    """The options of scripts.measure_iree, with those that are different on this machine."""
    found = list(command)
    if device:
        found[found.index("--device") + 1] = device
    return [*found, *(["--threads", str(threads)] if threads else [])]


def measure(
    folder: Path, command: Sequence[str], rounds: int, pause_s: float
) -> list[dict[str, Any]]:
    """Each round with its exit code, its measurement (None if there is none) and the end of its log.

    A round that fails is the last one.
    """
    found: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        if number > 1:
            print(f"second round in {pause_s:g} s", flush=True)
            time.sleep(pause_s)
        first = ["--first", "measurement_1.json"] if number > 1 else []
        found.append(_round(folder, [*command, *first], number))
        if found[-1]["returncode"] != 0:
            break
    return found


def _round(folder: Path, command: Sequence[str], number: int) -> dict[str, Any]:
    out, log = folder / f"measurement_{number}.json", folder / f"log_{number}.txt"
    out.unlink(missing_ok=True)
    whole = [sys.executable, "-m", "scripts.measure_iree", *command, "--out", out.name]
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    environment = os.environ | {exits.LIMIT_VARIABLE: str(memory_mb), "PYTHONPATH": str(folder)}
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            whole, cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False
        )
    said = log.read_text(encoding="utf-8", errors="replace")
    print(said, end="", flush=True)
    return {
        "returncode": done.returncode,
        "measurement": json.loads(out.read_text(encoding="utf-8")) if out.is_file() else None,
        "log": said[-LOG_CHARS:],
    }


if __name__ == "__main__":
    commands.run(main)
