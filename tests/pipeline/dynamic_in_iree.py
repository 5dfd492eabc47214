"""Call a module with inputs of several shapes, with and without the check of its dynamic dimensions; print the shapes of the
results, or the errors, as JSON.

Run with the Python of the environment iree; used by test_dynamic.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from scripts.core.dimensions import Dimension
from scripts.iree.session import Module, Session


def main() -> None:
    case = json.load(sys.stdin)
    report = json.loads(Path(case["report"]).read_text(encoding="utf-8"))
    dimensions = tuple(Dimension(**one) for one in report["dimensions"])
    checks = {"checked": dimensions, "unchecked": ()}
    sessions = {
        name: Session(
            Module(Path(case["vmfb"]), Path(case["weights"]), "local-task", dimensions=open_ones), 1
        )
        for name, open_ones in checks.items()
    }
    answers = []
    for shapes in case["shapes"]:
        inputs = [np.ones(shape, np.float32) for shape in shapes]
        answers.append({name: _called(session, inputs) for name, session in sessions.items()})
    print(json.dumps(answers))


def _called(session: Session, inputs: list[np.ndarray]) -> list[int] | str:
    try:
        outputs, _ = session.call(inputs)
    except ValueError as error:
        return str(error)
    return list(outputs[0].shape)


if __name__ == "__main__":
    main()
