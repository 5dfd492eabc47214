"""A process that has imported an environment's packages and forks stages on request.

Importing torch and its dependencies takes most of the time of a short stage. Forked stages share the
imported packages and nothing else: each is a process with its own limits, log and end. Packages that not every
run needs, such as those of models, are imported when a stage has imported them.

The server forks only while it has a single thread and has computed nothing. (A fork copies only the
calling thread, and also the locks that other threads hold.) A stage imports this project's own
modules itself, as they are when it starts. The server ends with its run, and its stages with it.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import faulthandler
import gc
import importlib
import importlib.util
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from scripts.core import commands, exits, process
from scripts.supervise import sandbox

PACKAGES = (
    "numpy",
    "torch",
    "torch.export._trace",
    "torch.export._unlift",
    "torch_mlir.compiler_utils",
    "torch_mlir.dialects.torch",
    "torch_mlir.extras.fx_decomp_util",
    "torch_mlir.extras.fx_importer",
    "torch_xla.stablehlo",
    "iree.compiler.dialects.flow",
    "iree.compiler.dialects.func",
    "iree.compiler.ir",
    "iree.runtime",
)
"""Packages to import if the environment has them. Importing must not start a thread (a test checks)."""

ON_DEMAND = (
    "torch._inductor.compile_fx",
    "torchvision",
    "torchao",
    "torch_geometric",
    "transformers.masking_utils",
    "transformers.modeling_layers",
    "transformers.modeling_utils",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
)
"""Packages that not every run needs: those that a stage has imported are imported for the next stages."""

MESSAGE_BYTES = 1 << 20
"""Maximum size of a request in bytes; it contains all environment variables."""


@dataclass
class Server:
    """Forks stages until process `owner` ends. `listener` is bound and listening. `children`: the connections from
    supervisors, with the stage that was forked for each, if any. `imported`: a pipe by which stages name the packages of
    ON_DEMAND that they have imported. `demanded`: those that were named so far."""

    listener: socket.socket
    owner: int
    children: dict[socket.socket, int | None] = field(default_factory=dict)
    pid: int = field(default_factory=os.getpid)
    imported: tuple[int, int] = field(default_factory=os.pipe)
    demanded: set[str] = field(default_factory=set)

    def serve(self) -> Request | None:
        """Serve until the owner ends, then return None. In a forked process, return its request."""
        owner = process.opened(self.owner)
        if owner is None:
            return None
        with selectors.DefaultSelector() as ready:
            ready.register(self.listener, selectors.EVENT_READ)
            ready.register(owner, selectors.EVENT_READ)
            ready.register(self.imported[0], selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fd == owner:
                        return None
                    if key.fd == self.imported[0]:
                        self._import(os.read(key.fd, MESSAGE_BYTES).decode().split())
                        continue
                    if key.fileobj is self.listener:
                        connection, _ = self.listener.accept()
                        # Of this user only: an abstract socket has no permissions.
                        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                        if array.array("i", peer)[1] == os.getuid():
                            self.children[connection] = None
                            ready.register(connection, selectors.EVENT_READ)
                        else:
                            connection.close()
                        continue
                    connection = cast(socket.socket, key.fileobj)
                    request = self._answer(connection)
                    if request is not None:  # this is the forked process
                        return request
                    if connection.fileno() < 0:
                        ready.unregister(connection)
                        del self.children[connection]

    def _answer(self, connection: socket.socket) -> Request | None:
        """Do what a supervisor requests. Closes the connection if the supervisor is gone or served."""
        try:
            data, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 2)
        except ConnectionError:
            data, fds = b"", []
        if data == REAP or not data:
            if (child := self.children[connection]) is not None:
                ended = self._reap(child, kill=not data)
                with contextlib.suppress(OSError):
                    connection.send(json.dumps(ended).encode())
            connection.close()
            return None
        request = Request(**json.loads(data))
        answer: dict[str, Any]
        if (threads := len(os.listdir("/proc/self/task"))) > 1:
            answer = {"refused": f"the process to fork has {threads} threads"}
        else:
            child = self.children[connection] = os.fork()
            if not child:
                self._become_stage(request, fds)
                return request
            answer = {"pid": child}
        for fd in fds:
            os.close(fd)
        connection.send(json.dumps(answer).encode())
        return None

    def _import(self, names: list[str]) -> None:
        """Import packages of ON_DEMAND that a stage has imported, once each. A stage in a sandbox may say any name."""
        new = [name for name in names if name in ON_DEMAND and name not in self.demanded]
        for problem in preload(new):
            print(f"note: {problem}", flush=True)
        self.demanded.update(new)

    def tell_imported(self) -> None:
        """In a forked process: name the packages of ON_DEMAND that the stage has imported itself."""
        names = [name for name in ON_DEMAND if name in sys.modules and name not in self.demanded]
        if names:
            os.write(self.imported[1], "".join(f"{name}\n" for name in names).encode())

    def _reap(self, child: int, kill: bool) -> dict[str, float]:
        """Exit code and peak resident set of a stage, after the end of its whole process tree."""
        if kill:  # its supervisor is gone
            process.kill_tree(child)
        _, status, usage = os.wait4(child, 0)
        process.kill_descendants(
            but=[pid for pid in self.children.values() if pid and pid != child]
        )
        return {
            "returncode": os.waitstatus_to_exitcode(status),
            "max_rss_mb": process.rss_mb(usage),
        }

    def _become_stage(self, request: Request, fds: Sequence[int]) -> None:
        """In the forked process: set up its own session, output and environment."""
        process.die_with_parent()
        if os.getppid() != self.pid:
            os._exit(128 + signal.SIGKILL)
        process.adopt_orphans()
        os.setsid()
        self.listener.close()
        for connection in self.children:
            connection.close()
        output, own_channel = fds
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.clear()
        os.environ.update(request.env)
        os.environ[commands.CHANNEL_VARIABLE] = str(own_channel)


@dataclass(frozen=True)
class Request:
    """A stage to run: `python -m <module> <arguments>` in this folder, with this environment. `writable`: the folders that it may
    write to, in a sandbox; None for no sandbox."""

    module: str
    arguments: list[str]
    env: dict[str, str]
    writable: list[str] | None = None


REAP = b"reap"
"""Message of a supervisor whose stage has ended."""


def address(python: str, owner: int) -> bytes:
    """The abstract socket (unix(7)) of the server for a run, a folder and an environment."""
    return f"\0vmfbench/{os.getuid()}/{owner}/{os.path.abspath(python)}".encode()[:107]


def listen(where: bytes) -> socket.socket | None:
    """The listening socket; None if another server uses the address."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(where)
    except OSError:
        listener.close()
        return None
    listener.listen(64)
    return listener


@contextlib.contextmanager
def ends_with(owner: int) -> Iterator[None]:
    """End this process within a second of the process `owner`, even during an import."""

    def look(*_: object) -> None:
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def preload(packages: Iterable[str] = PACKAGES) -> list[str]:
    """Import those of the packages that the environment has. Returns those that cannot be imported, with the reasons."""
    # OpenBLAS starts its threads when numpy is imported. (A stage gets variables of its own.)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    problems = []
    for package in packages:
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            continue
        try:
            importlib.import_module(package)
        except Exception as error:  # a stage that needs it says the same, with more
            problems.append(f"{package}: {type(error).__name__}: {error}")
    return problems


def import_all() -> NoReturn:
    """Import all packages that stages may import, print those that cannot be imported, and end this process."""
    gc.disable()  # it would look at all code objects again and again
    for problem in preload((*PACKAGES, *ON_DEMAND)):
        print(f"note: {problem}")
    leave(0)


def run_stage(request: Request) -> int:
    """Run a stage in the forked process as `python -m` would; return its exit code."""
    if request.writable is not None:
        sandbox.enter(request.writable)
    faulthandler.enable()
    tempfile.tempdir = None  # of the server's environment; the stage has its own TMPDIR
    # torch.distributed makes a temporary folder when it is imported. It is the server's, which deletes it.
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
        owner = (finalizer.peek() or [None])[0]
        if isinstance(owner, tempfile.TemporaryDirectory):
            atexit.unregister(owner.cleanup)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    for name in [n for n in sys.modules if n.partition(".")[0] == "scripts"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    sys.argv = [request.module, *request.arguments]
    try:
        return exits.code_of(
            lambda: runpy.run_module(request.module, run_name="__main__", alter_sys=True)
        )
    except KeyboardInterrupt:  # it must not unwind the server, whose copy this process is
        traceback.print_exc()
        return 1


def leave(code: int) -> NoReturn:
    """End a forked process as the interpreter would, but without tearing down its modules.

    The tear-down takes two to three seconds with torch imported, and copies every shared page.
    """
    # The interpreter calls this first: it waits for threads and ends pools. It has no public name,
    # and typeshed does not contain it.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed by the stage
            stream.flush()
    os._exit(code)
