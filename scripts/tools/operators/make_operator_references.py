"""Worker: make the references of operator problems (inputs, eager and float64 results, signature)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from scripts.core import exits, requests
from scripts.core.requests import Folders
from scripts.measure.verify import verification
from scripts.tools.operators.batch import batch_worker
from scripts.tools.operators.calls import reference
from scripts.tools.operators.calls.calling import Call, NotCallable
from scripts.tools.operators.problems.problem import Problem


@dataclass(frozen=True, kw_only=True)
class OperatorReferenceRequest(batch_worker.TasksRequest):
    seed: int = 0
    threads: int = 1


def make_operator_references(args: OperatorReferenceRequest, folders: Folders) -> None:
    """Make the references, each in a folder of its own."""
    torch.set_num_threads(args.threads)

    def handle(payload: dict[str, Any], facts: dict[str, Any]) -> None:
        problem = Problem(payload["op"], payload["args"])
        try:
            facts |= reference.make(Call(problem), args.seed, folders.results / problem.name)
        except NotCallable as error:
            exits.fail(str(error), exits.UNSUPPORTED)
        if not facts["deterministic"]:
            exits.fail(f"{verification.NONDETERMINISTIC}: two eager runs differ")
        facts["files"] = batch_worker.record_files(folders.results / problem.name, reference.FILES)

    batch_worker.serve(args, handle)


if __name__ == "__main__":
    requests.run(OperatorReferenceRequest, make_operator_references)
