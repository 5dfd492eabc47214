"""Measure the module of a bundle on this machine: verify it, time it, and write a record for scripts.tools.report.import_record.

A bundle of `vmfbench bundle --measure` has this script with all modules that it imports. It needs Python 3.11 or
later, IREE's runtime and nothing else. The module is verified and timed as in a run of the workflow: in twelve processes, one
after the other, beside a second one of the same module as a control. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.core import atomic, commands, exits, private
from scripts.core.atomic import Digest
from scripts.core.commands import option
from scripts.core.machine import physical_cores
from scripts.core.requests import StageRequest
from scripts.measure.timing.turns import Rule
from scripts.supervise import members
from scripts.supervise.members import VERIFICATION, Member

BUNDLE, RECORD, FORMAT = "measure.json", "record.json", 2
MEMBER = "module"
"""The name of the module in the timing."""
LOG_CHARS = 20_000
"""How much of the end of a log a record has."""


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str = option(
        f"{platform.machine()}-{private.machine_id()[:4]}",
        help="of this machine, for the rows (default: its architecture and four digits)",
    )
    threads: int | None = option(None, help="CPU threads (default: physical cores)")
    device: str | None = option(
        None, help="device URI, such as cuda://1 (default: that of the target)"
    )
    budget: float = option(
        Rule.budget_s, metavar="SECONDS", help=f"of timing (default: {Rule.budget_s:g})"
    )
    out: Path = option(Path(RECORD), help=f"default: {RECORD}")


def main() -> None:
    args = commands.parse_options(Options)
    folder = Path(__file__).absolute().parents[3]
    try:
        bundle = atomic.read_json(folder / BUNDLE)
        _check_files(folder, bundle["files"])
        fields = {**bundle["request"]}
        fields["device"] = args.device or fields["device"]
        kept = {key: bundle[key] for key in ("row", "fingerprint")}
        number = bundle.get("threads")
    except (LookupError, TypeError, AttributeError, ValueError, OSError) as error:
        exits.fail(
            f"{folder / BUNDLE}: not that of a bundle ({error!r:.300}); copy the bundle again"
        )
    if number and args.threads not in (None, number):
        exits.fail(
            f"this bundle is of a row with {number} threads, found --threads {args.threads}: leave the option out, or make a "
            "bundle of the row with that number"
        )
    if args.threads:
        fields["threads"] = args.threads
    record = {
        "format": FORMAT,
        "name": re.sub(r"[^\w.-]+", "-", args.name).strip("-.") or "elsewhere",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": physical_cores(),
        **kept,
        **verified(folder, fields),
        "timing": None,
    }
    if record["returncode"] == 0:
        record["timing"] = timed(folder, record["verified"]["flags"], Rule(budget_s=args.budget))
    atomic.write_json(args.out, private.cleaned(record))
    if record["returncode"] != 0:
        exits.fail(f"not measured, see above; {args.out} says why")
    member = record["timing"]["members"][MEMBER]
    if member["status"] != "ok":
        exits.fail(f"{member['detail']}; {args.out} says it too")
    print(f"verified; ms per call: {', '.join(f'{ms:.4g}' for ms in member['values_ms'])}")
    print(f"{args.out}: vmfbench import {args.out} adds it to the results of a checkout")


def _check_files(folder: Path, recorded: Mapping[str, Any]) -> None:
    """Exit if a file of the bundle is not the recorded one, or is none of its folder."""
    for name, values in recorded.items():
        path = folder / name
        if not (path.is_file() and path.resolve().is_relative_to(folder.resolve())):
            exits.fail(f"{path}: found no file in the folder of the bundle; copy the bundle again")
        if what := atomic.difference_from(path, Digest(**values)):
            exits.fail(f"{path}: {what}; copy the bundle again")


def verified(folder: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Verify the module: the exit code, what was found out (None if nothing was) and the end of the log."""
    out, log = folder / VERIFICATION, folder / "log.txt"
    out.unlink(missing_ok=True)
    request = StageRequest("scripts.stages.verify_iree", sys.executable, fields)
    request.write(folder)
    # In the folder, to which the paths of the raw inputs are relative.
    command = request.command(Path())
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    environment = os.environ | {exits.LIMIT_VARIABLE: str(memory_mb), "PYTHONPATH": str(folder)}
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False
        )
    said = log.read_text(encoding="utf-8", errors="replace")
    print(said, end="", flush=True)
    return {
        "returncode": done.returncode,
        "verified": json.loads(out.read_text(encoding="utf-8")) if out.is_file() else None,
        "log": said[-LOG_CHARS:],
    }


def timed(folder: Path, flags: Sequence[str], rule: Rule) -> dict[str, Any]:
    """Time the module, with the flags of iree-benchmark-module: the values of a GroupTiming."""
    member = Member(
        MEMBER,
        (sys.executable, "-m", "scripts.stages.time_module", *flags),
        folder / "timing.txt",
        forked=False,
        env={"PYTHONPATH": str(folder)},
        folder=folder,
    )
    return asdict(members.time_in_turns([member], rule, lambda text: print(text, flush=True)))


if __name__ == "__main__":
    commands.run(main)
