"""Import an environment's packages once, and fork the stages of a run that use them.

Started by the supervisor; runs with the Python of the environment until the run ends.
"""

from __future__ import annotations

import argparse
import sys
import time

from scripts.core import process
from scripts.supervise import fork_server


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.stages.fork_server", description=__doc__
    )
    parser.add_argument("--owner", required=True, type=int, help="process id of the run")
    parser.add_argument(
        "--python", required=True, help="path of this Python as the supervisors write it"
    )
    args = parser.parse_args()
    listener = fork_server.listen(fork_server.address(args.python, args.owner))
    if listener is None:
        return 0  # another one was first
    process.adopt_orphans()
    start = time.monotonic()
    with fork_server.ends_with(args.owner):
        problems = fork_server.preload()
    for problem in problems:
        print(f"note: {problem}", flush=True)
    print(f"packages imported in {time.monotonic() - start:.1f} s", flush=True)
    server = fork_server.Server(listener, args.owner)
    request = server.serve()
    if request is not None:
        fork_server.leave(fork_server.run_stage(request))
    process.kill_descendants()
    return 0


if __name__ == "__main__":
    sys.exit(main())
