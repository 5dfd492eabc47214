"""Imports packages, by default those of a stage environment, and forks a process for each module to run, as the fork server of a run does.

Reads {"module", "arguments", "stdin", "env", "cwd", "merged", "timeout_s"} as lines of JSON. Answers each with the id of the process,
then with the exit code and what was printed. {"serves", "python", "env", "cwd"} asks for a fork server of a run, which is forked too: its
packages are there. {} is answered when all is imported. Run with the Python of an environment; used by tests/checkouts.py.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile

from scripts.supervise import fork_server

IMPORTED = os.pipe()
"""By which fork servers name the packages of ON_DEMAND that stages have imported: the next ones have them."""


def main() -> None:
    fork_server.preload(sys.argv[1:] or fork_server.PACKAGES)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    servers: dict[int, int] = {}
    while True:
        # One request at a time: the next line comes after the answer.
        for ready in select.select([0, IMPORTED[0], *servers], [], [])[0]:
            if ready == IMPORTED[0]:
                fork_server.preload(os.read(ready, fork_server.MESSAGE_BYTES).decode().split())
            elif ready:
                os.waitpid(servers.pop(ready), 0)
                os.close(ready)
            elif line := sys.stdin.readline():
                request = json.loads(line)
                if "serves" in request:
                    child = serve(**request)
                    servers[os.pidfd_open(child)] = child
                    print(json.dumps({"answer": child}), flush=True)
                else:
                    print(json.dumps({"answer": run(**request) if request else None}), flush=True)
            else:
                return


def serve(serves: int, python: str, env: dict[str, str], cwd: str) -> int:
    """Fork the fork server of the run `serves` (its process) for an environment, and return its process."""
    child = os.fork()
    if not child:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        sys.executable, sys.prefix = python, os.path.dirname(os.path.dirname(python))
        code = become("scripts.stages.fork_server", ["--owner", str(serves), "--python", python], env, cwd)  # fmt: skip
        os.write(IMPORTED[1], "".join(f"{n}\n" for n in fork_server.ON_DEMAND if n in sys.modules).encode())  # fmt: skip
        fork_server.leave(code)
    return child


def become(module: str, arguments: list[str], env: dict[str, str], cwd: str) -> int:
    """In a forked process: run a module as `python -m` would."""
    os.chdir(cwd)
    sys.path[0] = cwd
    if workflow := sys.modules.get("snakemake.workflow"):
        workflow.Workflow._rundir = cwd  # it was set when Snakemake was imported
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    return fork_server.run_stage(fork_server.Request(module, arguments, env))


def run(module: str, arguments: list[str], stdin: str, env: dict[str, str], cwd: str, merged: bool, timeout_s: int) -> dict:  # fmt: skip
    """Run a module as `python -m` would, and return how it ended. `merged`: what it writes to stderr is in its stdout."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # fmt: skip
        given.write(stdin.encode())
        given.seek(0)
        child = os.fork()
        if not child:
            for number, file in enumerate((given, out, out if merged else err)):
                os.dup2(file.fileno(), number)
            signal.alarm(timeout_s)
            fork_server.leave(become(module, arguments, env, cwd))
        print(json.dumps({"process": child}), flush=True)
        _, status = os.waitpid(child, 0)
        answer: dict[str, object] = {"returncode": os.waitstatus_to_exitcode(status)}
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            answer[name] = file.read().decode()
    return answer


if __name__ == "__main__":
    main()
