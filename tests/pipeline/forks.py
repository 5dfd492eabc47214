"""Imports packages, by default those of a stage environment, and forks a process for each module to run, as the fork server of a run does.

Reads {"module", "arguments", "stdin", "env", "cwd", "merged", "timeout_s"} as lines of JSON, and answers each with the exit code and what was printed. Run with
the Python of an environment; used by tests/checkouts.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile

from scripts.supervise import fork_server


def main() -> None:
    fork_server.preload(sys.argv[1:] or fork_server.PACKAGES)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    for line in sys.stdin:
        print(json.dumps({"answer": run(**json.loads(line))}), flush=True)


def run(module: str, arguments: list[str], stdin: str, env: dict[str, str], cwd: str, merged: bool, timeout_s: int) -> dict:  # fmt: skip
    """Run a module as `python -m` would, and return how it ended. `merged`: what it writes to stderr is in its stdout."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # fmt: skip
        given.write(stdin.encode())
        given.seek(0)
        child = os.fork()
        if not child:
            for number, file in enumerate((given, out, out if merged else err)):
                os.dup2(file.fileno(), number)
            os.chdir(cwd)
            sys.path[0] = cwd
            if workflow := sys.modules.get("snakemake.workflow"):
                workflow.Workflow._rundir = cwd  # it was set when Snakemake was imported
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            os.environ.clear()
            os.environ.update(env)
            signal.alarm(timeout_s)
            request = fork_server.Request(module, arguments, env)
            fork_server.leave(fork_server.run_stage(request))
        _, status = os.waitpid(child, 0)
        answer: dict[str, object] = {"returncode": os.waitstatus_to_exitcode(status)}
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            answer[name] = file.read().decode()
    return answer


if __name__ == "__main__":
    main()
