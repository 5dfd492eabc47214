"""A Slurm of three nodes on loopback, of Debian's slurm-wlm and munge, in a folder of its own.

Its daemons are this process's children. Only its slurm.conf is linked to from where Slurm looks for
one by itself, for as long as it runs: Snakemake's executor takes SLURM_CONF out of the environment
of a job's steps. Each node is a slurmd with its own name and port. It says that it has more cores than
the machine, so that jobs really run beside each other; the last one says that it has a GPU of the kind
that docs/clusters.md asks for.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

NODES = ("n1", "n2", "n3")
DAEMONS = ("munged", "slurmctld", "slurmd")
"""What has to be installed. Each node has a slurmd."""
START_SECONDS = 60
SYSTEM_CONF = Path("/etc/slurm/slurm.conf")
CLUSTER = "ClusterName=loopback"

_CONF = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=5,bf_interval=5
KillWait=5
MinJobAge=86400
PrologFlags=NoHold
GresTypes=gpu
PartitionName=cpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=n3 MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory={memory_mb} State=UNKNOWN"


@dataclass(frozen=True)
class Job:
    """A submission: its number, state, Snakemake's comment, and what it asked for."""

    number: str
    state: str
    partition: str
    cpus: int
    memory_mb: int
    exclusive: bool
    constraint: str
    node: str
    comment: str


class Slurm:
    """Started by `start`, ended by `stop`; `environment` is that of a user of it."""

    def __init__(self, folder: Path, cpus: int = 8, memory_mb: int = 64000) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen] = {}
        host = socket.gethostname().split(".")[0]
        (folder / "state").mkdir(parents=True)
        conf = _CONF.format(
            host=host,
            folder=folder,
            user=os.environ.get("USER") or "root",
            ctld_port=_free_port(),
        )
        for name in NODES:
            (folder / f"spool-{name}").mkdir()
            node = _NODE.format(
                name=name, host=host, port=_free_port(), cpus=cpus, memory_mb=memory_mb
            )
            conf += node + (" Gres=gpu:1 Features=a100\n" if name == NODES[-1] else "\n")
        self.conf.write_text(conf)
        (folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName={NODES[-1]} Name=gpu File=/dev/null\n"
        )
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """All daemons up and the nodes idle; raises RuntimeError with their logs where one is not."""
        if SYSTEM_CONF.exists() and CLUSTER not in SYSTEM_CONF.read_text(encoding="utf-8"):
            raise RuntimeError(f"{SYSTEM_CONF} exists: this machine has a Slurm of its own")
        SYSTEM_CONF.parent.mkdir(parents=True, exist_ok=True)
        SYSTEM_CONF.unlink(missing_ok=True)  # left by a session of these tests that was killed
        SYSTEM_CONF.symlink_to(self.conf)
        for daemon in ("munged", "slurmctld", *NODES):
            self.start_daemon(daemon)
        for node in NODES:
            self.wait(lambda node=node: self.node_state(node) == "idle", f"{node} to be idle")

    def start_daemon(self, name: str) -> None:
        """Start `munged`, `slurmctld`, or the slurmd of a node by the node's name."""
        program = "slurmd" if name in NODES else name
        path = _path(program)
        if path is None:
            raise RuntimeError(f"no {program} here: apt-get install slurm-wlm munge")
        options = {
            "munged": (
                "--foreground",
                "--force",
                f"--key-file={self.folder}/munge.key",
                f"--socket={self.folder}/munge.socket",
                f"--pid-file={self.folder}/munged.pid",
                f"--log-file={self.folder}/munged.log",
                f"--seed-file={self.folder}/munged.seed",
            ),
            "slurmctld": ("-D", "-f", str(self.conf)),
            "slurmd": ("-D", "-f", str(self.conf), "-N", name),
        }[program]
        begun = f"{datetime.now():%Y-%m-%dT%H:%M:%S}"
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [path, *options], stdout=out, stderr=out, env=self.environment
            )
        ready = {
            "munged": (self.folder / "munge.socket").exists,
            "slurmctld": lambda: "UP" in self.command("scontrol", "ping", check=False),
            "slurmd": lambda: (
                self._slurmd_start(name) >= begun and "*" not in self.node_state(name)
            ),
        }[program]

        def up() -> bool:
            if (code := self._daemons[name].poll()) is not None:
                raise RuntimeError(f"{name} ended with exit code {code}\n{self._logs()}")
            return bool(ready())

        self.wait(up, f"{name} to be up")

    def stop_daemon(self, name: str, kill: bool = False) -> None:
        daemon = self._daemons.pop(name)
        daemon.kill() if kill else daemon.terminate()
        daemon.wait()

    def lose_node(self, name: str) -> None:
        """What a node without power is: its slurmd and all that runs on it are gone, and Slurm is told that it is down."""
        below = psutil.Process(self._daemons[name].pid).children(recursive=True)
        on_it = [psutil.Process(self._daemons[name].pid), *below]
        for job in self.running():
            if job.node == name:
                on_it += _processes_of(job.number)
        for process in on_it:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._daemons.pop(name).wait()
        self.command("scontrol", "update", f"nodename={name}", "state=down", "reason=lost")

    def stop(self) -> None:
        if "slurmctld" in self._daemons:
            self.command("scancel", f"--user={os.getuid()}", check=False)
            self.wait(lambda: not self.running(), "jobs to end")
        for name in reversed(list(self._daemons)):
            self.stop_daemon(name)
        if SYSTEM_CONF.is_symlink() and SYSTEM_CONF.readlink() == self.conf:
            SYSTEM_CONF.unlink()

    def command(self, *command: str, check: bool = True) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}\n{self._logs()}")
        return done.stdout

    def node_state(self, name: str) -> str:
        return self.command("sinfo", "-h", "-n", name, "-o", "%t", check=False).strip()

    def _slurmd_start(self, name: str) -> str:
        """When the slurmd of a node began that slurmctld has last heard of: `alloc` is a node without one, too."""
        said = self.command("scontrol", "show", "node", name, check=False)
        return next(iter(re.findall(r"SlurmdStartTime=(\d\S*)", said)), "")

    def jobs(self) -> list[Job]:
        """Every submission so far, the first one first."""
        fields = "%i|%T|%P|%C|%m|%h|%f|%N|%k"
        listed = self.command("squeue", "-h", "--states=all", "-S", "i", "-o", fields)
        rows = (line.split("|", 8) for line in listed.splitlines())
        return [
            Job(number, state, partition, int(cpus), _mb(memory), shared == "NO", *rest)
            for number, state, partition, cpus, memory, shared, *rest in rows
        ]

    def running(self) -> list[Job]:
        return [job for job in self.jobs() if job.state in ("RUNNING", "COMPLETING")]

    def wait(self, ready: Callable[[], object], what: str, seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {seconds:g} s for {what}\n{self._logs()}")
            time.sleep(0.2)

    def account(self) -> str:
        """Nodes, jobs, steps and the ends of the daemons' logs: what a failed test shows."""
        asked = (("sinfo", "-N", "-l"), ("squeue", "--states=all"), ("squeue", "--steps"))
        return "\n".join([*(self.command(*words, check=False) for words in asked), self._logs()])

    def _logs(self) -> str:
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*.out")]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in logs)


def missing_daemons() -> list[str]:
    """What of Slurm is not installed here."""
    return [name for name in DAEMONS if _path(name) is None]


def _path(daemon: str) -> str | None:
    return shutil.which(daemon, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _processes_of(job: str) -> list[psutil.Process]:
    """The slurmstepd processes of a job, and what they have started."""
    steps = [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [""])[0].startswith(f"slurmstepd: [{job}.")
    ]
    return steps + [below for step in steps for below in step.children(recursive=True)]


def _mb(size: str) -> int:
    """MiB of Slurm's `16G` or `900M`."""
    return int(float(size.rstrip("MG")) * (1024 if size.endswith("G") else 1))


def _free_port() -> int:
    """A port below those that Linux gives to connections (32768 on), which may take it while its daemon is away."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
