"""Check the account of `vmfbench why` on models with one planted cause of a longer call.

    python -m benchmarks.planted_causes /scratch/planted

Each model (benchmarks/planted_model.py) is run in that folder with and without its cause, and the two programs of IREE are compared as
`vmfbench why` compares a runtime with another. The account is right if its largest term is that of the cause, and if the terms of the region with the largest gap
are as large as the difference of the latencies without a profiler. (A scatter in one workgroup is slower code, too. The region of
many tiny dispatches does not have the time between them.)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from scripts.core.checkout import ROOT
from scripts.results.wording import table
from scripts.tools.profile import account as accounts
from scripts.tools.profile import profile_files
from scripts.tools.profile.profile_files import IREE

TERM = {
    "transpose": accounts.LAYOUTS,
    "elementwise": accounts.MORE,
    "scatter": accounts.IDLE,
    "narrow_loop": accounts.SLOWER,
    "tiny_dispatches": accounts.BETWEEN,
    "unpacked_weight": accounts.MORE,
}
PATH = "torchmlir-stablehlo/llvm-cpu"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planted_causes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--causes", nargs="+", choices=TERM, default=list(TERM), metavar="CAUSE")
    args = parser.parse_args()
    folder, causes = args.folder.absolute(), args.causes
    _run(folder, causes)
    rows = []
    for cause in causes:
        planted, without = (
            profile_files.read(folder / "results", f"{_name(cause, variant)}/{PATH}")
            for variant in (True, False)
        )
        both = replace(planted, others={"without": without.iree}, values_ms={})
        account = accounts.account(both)
        (largest, estimate), *_ = account.terms.items()
        difference = account.call_ms[IREE] - account.call_ms["without"]
        region = account.regions[0]
        sizes = (estimate.ms, region.iree_ms - region.other_ms, difference)
        rows.append([cause, TERM[cause], largest, *(f"{ms:.3f}" for ms in sizes), f"{region.name} {region.shape}"])  # fmt: skip
    head = ("cause", "expected", "largest term", "ms", "region ms", "difference ms", "region")
    print(table(head, rows))


def _run(folder: Path, causes: Sequence[str]) -> None:
    """Profile the models of the causes."""
    folder.mkdir(parents=True, exist_ok=True)
    file = str(ROOT / "benchmarks/planted_model.py")
    models = {_name(cause, planted): {"file": file, "cause": cause, "planted": planted} for cause in causes for planted in (True, False)}  # fmt: skip
    frontend, target = PATH.split("/")
    config = folder / "planted.yaml"
    config.write_text(yaml.safe_dump({"models": {"*": None, **models}}), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(folder)]  # fmt: skip
    command += ["--cores", "2", "profile", "--configfile", str(config)]
    chosen = [f"frontends={frontend}", f"targets={target}", "baselines=eager"]
    subprocess.run([*command, "--config", *chosen], check=True)


def _name(cause: str, planted: bool) -> str:
    return f"{cause.replace('_', '-')}-{'planted' if planted else 'without'}"


if __name__ == "__main__":
    main()
