"""Verify and time a baseline runtime on the same weights, inputs and stopping rule as IREE."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from scripts.lib.baseline.arguments import argument_parser, prepare_process, work
from scripts.lib.baseline.measure import measure
from scripts.lib.timing import arguments as timing_arguments
from scripts.lib.verification import arguments as check_arguments


def main() -> None:
    parser = argument_parser("scripts.measure_baseline", __doc__)
    check_arguments.add_tolerance(parser)
    timing_arguments.add_rule(parser)
    parser.add_argument(
        "--collect", default="[]", type=json.loads, help="profiles to take after the timing, JSON"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    check, rule = check_arguments.check(args), timing_arguments.timing(args).rule
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix="baseline-") as folder:
        scratch = Path(folder).absolute()
        cell = work(args, scratch)
        prepare_process(cell)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch)
        measure(cell, check, rule, args.collect, args.out)


if __name__ == "__main__":
    main()
