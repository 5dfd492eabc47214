"""Worker: make the references of operator problems (inputs, eager and float64 results, signature)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scripts.core import commands, exits
from scripts.core.commands import option
from scripts.features.operators.batch import batch_worker
from scripts.features.operators.calls import reference
from scripts.features.operators.calls.calling import Call, NotCallable
from scripts.features.operators.problems.problem import Problem
from scripts.verify import verification


@dataclass(frozen=True, kw_only=True)
class Options(batch_worker.Options):
    seed: int = option(0, help="of the inputs")
    threads: int = option(1, help="CPU threads")
    out: Path = option(help="folder of the batch")


def main() -> None:
    args = commands.parse_options(Options)
    torch.set_num_threads(args.threads)

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        problem = Problem(payload["op"], payload["args"])
        try:
            facts |= reference.make(Call(problem), args.seed, args.out / problem.name)
        except NotCallable as error:
            exits.fail(str(error), exits.UNSUPPORTED)
        if not facts["deterministic"]:
            exits.fail(f"{verification.NONDETERMINISTIC}: two eager runs differ")
        facts["files"] = batch_worker.record_files(args.out / problem.name, reference.FILES)

    batch_worker.serve(args, handle)


if __name__ == "__main__":
    main()
