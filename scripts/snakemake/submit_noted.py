"""Submit a job to a cluster and note its id, even if Snakemake is killed meanwhile.

    python submit_noted.py <notes> <submit command> <job script>

It runs the command with the script, as Snakemake's cluster-generic executor would, and passes on
its output and exit code. While it runs, it holds a shared lock on the notes, which shows the next
run that a submission is in progress. It has its own session, so that neither Ctrl-C nor a kill of
the run's process group interrupts a submission. It is run as a file, once per submission, and
imports only the standard library, because importing Snakemake takes seconds.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys


def main() -> int:
    notes, command, script = sys.argv[1:]
    if os.getpgrp() != os.getpid():  # otherwise it already has its own session
        os.setsid()
    with open(notes, "a+", encoding="utf-8") as file:  # on NFS, a shared lock needs read access
        fcntl.flock(file, fcntl.LOCK_SH)
        done = subprocess.run(
            ["/bin/sh", "-c", f'{command} "$0"', script],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        jobid = done.stdout.partition("\n")[0].strip()
        if not done.returncode and jobid:
            file.write(f"{jobid}\n")
    print(done.stdout, end="")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
