"""Verify a baseline runtime on the same weights and inputs as IREE, or time its calls when its group asks."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from scripts.torch_runtime.arguments import argument_parser, prepare_process, work
from scripts.torch_runtime.verify_session import serve, verify_baseline
from scripts.verify import arguments as check_arguments


def main() -> None:
    parser = argument_parser("scripts.stages.verify_baseline", __doc__)
    check_arguments.add_tolerance(parser)
    parser.add_argument(
        "--collect", default="[]", type=json.loads, help='JSON list of profiles: ["profiler"]'
    )
    parser.add_argument(
        "--cache",
        type=Path,
        help="folder for what inductor compiles, which the timing uses again (default: a temporary folder)",
    )
    parser.add_argument(
        "--serve", action="store_true", help="time calls on request (scripts/stages/time_group.py)"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    check = check_arguments.check(args)
    if args.cache and not args.serve:
        shutil.rmtree(args.cache, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="baseline-") as folder:
        cell = work(args, Path(folder).absolute())
        prepare_process(cell)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str((args.cache or cell.scratch).absolute())
        if args.serve:
            prepared = None
            if not cell.program:
                from scripts.torch_runtime.torch_session import prepare_fork

                prepared = prepare_fork(cell, check)
            serve(cell, check, prepared)
        else:
            verify_baseline(cell, check, args.collect, args.out)


if __name__ == "__main__":
    main()
