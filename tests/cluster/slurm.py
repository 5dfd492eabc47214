"""A Slurm of one node on loopback, of Debian's slurm-wlm and munge, in a folder of its own.

Its daemons are this process's children. Only its slurm.conf is linked to from where Slurm looks for
one by itself, for as long as it runs: Snakemake's executor takes SLURM_CONF out of the environment
of a job's steps. The node says that it has more cores than the machine, so that jobs really run
beside each other, and a GPU of the kind that docs/clusters.md asks for, which is in its name only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
START_SECONDS = 60
SYSTEM_CONF = Path("/etc/slurm/slurm.conf")
CLUSTER = "ClusterName=loopback"

_CONF = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
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
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} Gres=gpu:1 Features=a100 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes={host} MaxTime=INFINITE State=UP
"""


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
    comment: str


class Slurm:
    """Started by `start`, ended by `stop`; `environment` is that of a user of it."""

    def __init__(self, folder: Path, cpus: int = 8, memory_mb: int = 64000) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen] = {}
        self.host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        self.conf.write_text(
            _CONF.format(
                host=self.host,
                folder=folder,
                user=os.environ.get("USER") or "root",
                ctld_port=_free_port(),
                slurmd_port=_free_port(),
                cpus=cpus,
                memory_mb=memory_mb,
            )
        )
        (folder / "gres.conf").write_text("AutoDetect=off\nName=gpu File=/dev/null\n")
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """All daemons up and the node idle; raises RuntimeError with their logs where it is not."""
        if SYSTEM_CONF.exists() and CLUSTER not in SYSTEM_CONF.read_text(encoding="utf-8"):
            raise RuntimeError(f"{SYSTEM_CONF} exists: this machine has a Slurm of its own")
        SYSTEM_CONF.parent.mkdir(parents=True, exist_ok=True)
        SYSTEM_CONF.unlink(missing_ok=True)  # left by a session of these tests that was killed
        SYSTEM_CONF.symlink_to(self.conf)
        for daemon in DAEMONS:
            self.start_daemon(daemon)
        self.wait(lambda: self.node_state() == "idle", "the node to be idle")

    def start_daemon(self, name: str) -> None:
        path = _path(name)
        if path is None:
            raise RuntimeError(f"no {name} here: apt-get install slurm-wlm munge")
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
            "slurmd": ("-D", "-f", str(self.conf), "-N", self.host),
        }[name]
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [path, *options], stdout=out, stderr=out, env=self.environment
            )
        ready = {
            "munged": (self.folder / "munge.socket").exists,
            "slurmctld": lambda: "UP" in self.command("scontrol", "ping", check=False),
            "slurmd": lambda: self.node_state() not in ("", "unk", "down*", "idle*"),
        }[name]
        self.wait(ready, f"{name} to be up")

    def stop_daemon(self, name: str, kill: bool = False) -> None:
        daemon = self._daemons.pop(name)
        daemon.kill() if kill else daemon.terminate()
        daemon.wait()

    def stop(self) -> None:
        if "slurmctld" in self._daemons:
            self.command("scancel", f"--user={os.getuid()}", check=False)
            self.wait(lambda: not self.running(), "jobs to end")
        for name in reversed(DAEMONS):
            if name in self._daemons:
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

    def node_state(self) -> str:
        return self.command("sinfo", "-h", "-p", "cpu", "-o", "%t", check=False).strip()

    def jobs(self) -> list[Job]:
        """Every submission so far, the first one first."""
        fields = "%i|%T|%P|%C|%m|%h|%f|%k"
        listed = self.command("squeue", "-h", "--states=all", "-S", "i", "-o", fields)
        rows = (line.split("|", 7) for line in listed.splitlines())
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

    def _logs(self) -> str:
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*.out")]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-1500:]}" for log in logs)


def missing_daemons() -> list[str]:
    """What of Slurm is not installed here."""
    return [name for name in DAEMONS if _path(name) is None]


def _path(daemon: str) -> str | None:
    return shutil.which(daemon, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _mb(size: str) -> int:
    """MiB of Slurm's `16G` or `900M`."""
    return int(float(size.rstrip("MG")) * (1024 if size.endswith("G") else 1))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
