"""Verify and time a baseline runtime on the same weights, inputs and stopping rule as IREE."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from scripts.lib.torch_runtime.arguments import argument_parser, prepare_process


def main() -> None:
    parser = argument_parser("scripts.measure_baseline", __doc__)
    parser.add_argument("--tolerance", default="{}", type=json.loads, help='{"tol":, "cosine":}')
    parser.add_argument("--rule", default="{}", type=json.loads, help="stopping rule, JSON")
    parser.add_argument(
        "--collect", default="[]", type=json.loads, help="profiles to take after the timing, JSON"
    )
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    prepare_process(args)
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix="inductor-") as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(cache).absolute())
        from scripts.lib.torch_runtime import baseline

        baseline.measure(args)


if __name__ == "__main__":
    main()
