"""Import an environment's packages once, and fork the stages of a run that use them.

Started by the supervisor; runs with the Python of the environment until the run ends.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from scripts.core import commands, process
from scripts.core.commands import option
from scripts.supervise import fork_server


@dataclass(frozen=True, kw_only=True)
class Options:
    owner: int = option(help="process id of the run")
    python: str = option(help="path of this Python as the supervisors write it")


def main() -> int:
    args = commands.parse_options(Options)
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
        code = fork_server.run_stage(request)
        server.tell_imported()
        fork_server.leave(code)
    process.kill_descendants()
    return 0


if __name__ == "__main__":
    sys.exit(main())
