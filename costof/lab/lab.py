"""A run's lab, with its temporary folder, loopback addresses and server processes."""

from __future__ import annotations

import json
import os
import queue
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from costof.errors import CostofError, ErrorText
from costof.lab.flushes import folder_on_disk
from costof.lab.log_file import LogFile
from costof.lab.supervisor import parents
from costof.messages.process import READY_SECONDS, ended_children_cpu_seconds, process_cpu_seconds

if TYPE_CHECKING:
    from costof.lab.host import Host

LONGEST_TEMPORARY_FOLDER = 60


class Resource(ABC):
    """Base class for resources, such as a topology or a service: context managers that consist of parts.

    The parts are context managers too. `_open` enters them. They exit in reverse order, at the end or if `_open` fails.
    """

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._open(stack)
            self._leave = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave.close()

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Enter the resource's parts, each by `stack.enter_context`. Raises `CostofError`."""


@dataclass
class Process:
    """A running program of the lab.

    The CPU times of programs with the same `role`, such as 'server', are added up. If the program `forks`, the CPU time
    of its children is included.
    """

    name: str
    role: str
    pid: int
    log: Path
    exit_status: int | None = None
    forks: bool = False

    def __post_init__(self) -> None:
        self.lines = LogFile(self.log)

    def why_dead(self, subject: str) -> str | None:
        """Return a text such as '<subject> ended (status 1: …)' if the program has ended; None while it runs."""
        if self.exit_status is None:
            return None
        # A killed program could not log a reason.
        killed = f"killed by signal {-self.exit_status}"
        why = killed if self.exit_status < 0 else f"status {self.exit_status}: {last_line(self.log)}"
        return f"{subject} ended ({why})"

    def new_lines(self) -> str:
        """Return the complete lines that the program wrote to its log since the last call."""
        return self.lines.new_lines()


@dataclass
class Lab:
    """A run's lab, a context manager. A separate process, the supervisor, removes it even if this process is killed."""

    processes: dict[str, Process] = field(default_factory=dict)
    on_disk: bool = False
    """Whether the lab's folders must be on a disk, not in memory. A run that measures flushes needs this.

    If no suitable folder is on a disk, entering the lab raises `NO_DISK`.
    """

    def __enter__(self) -> Lab:
        parent = folder_on_disk() if self.on_disk else _temporary_folder()
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "costof.lab.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._ended: dict[str, int] = {}
        self._registering = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.folder = Path(tempfile.mkdtemp(prefix="costof-", dir=parent))
        self._tell(directory=str(self.folder))
        self._network = _free_loopback_network()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._supervisor.stdin.close()
        self._supervisor.wait()
        self._listener.join()
        self._supervisor.stdout.close()

    def new_folder(self) -> Path:
        """Create a folder for files that other users need, directly under /tmp. It is removed with the lab."""
        parent = folder_on_disk() if self.on_disk else "/tmp"  # noqa: S108
        folder = Path(tempfile.mkdtemp(prefix="costof-", dir=parent))
        self._tell(directory=str(folder))
        return folder

    def address(self, number: int) -> str:
        """Return the loopback address of this lab's host with the `number` (1 to 254)."""
        return f"{self._network}.{number}"

    def spawn(
        self,
        name: str,
        role: str,
        argv: list[str],
        env: dict[str, str] | None = None,
        forks: bool = False,
        host: Host | None = None,
    ) -> Process:
        """Start a program as the supervisor's child, on `host` if given. Raises `LAB_FAILED` if it cannot start."""
        log = self.folder / f"{name}.log"
        argv = [*host.prefix, *argv] if host else argv
        self._tell(spawn={"name": name, "argv": argv, "env": env or {}, "log": str(log)})
        answer = self._answers.get(timeout=READY_SECONDS)
        if "failed" in answer:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{argv[0]}: {answer['failed']['detail']}")
        process = Process(name, role, answer["spawned"]["pid"], log, forks=forks)
        with self._registering:
            self.processes[name] = process
            # If the program ended at once, its exit may have been reported before the program was registered here.
            if name in self._ended:
                process.exit_status = self._ended.pop(name)
        return process

    def undo(self, argv: list[str]) -> None:
        """Register a command for the lab's end. Call `undo` before the action that the command undoes."""
        self._tell(undo=argv)

    def run(self, name: str, argv: list[str], env: dict[str, str] | None = None) -> None:
        """Run a program as the supervisor's child until it ends. Raises `LAB_FAILED` if its exit status is not 0."""
        process = self.spawn(name, name, argv, env)
        self._wait_for_end(process)
        if process.exit_status != 0:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{name}: {last_line(process.log)}")

    def stop(self, name: str) -> None:
        """End a process and forget it, so that `dead` does not report it."""
        self.kill(name)
        self._wait_for_end(self.processes[name])

    def _wait_for_end(self, process: Process) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while process.exit_status is None:
            if time.monotonic() > deadline:
                raise CostofError(ErrorText.LAB_FAILED, detail=f"{process.name} took more than {READY_SECONDS:.0f} s")
            time.sleep(0.005)
        del self.processes[process.name]

    def kill(self, name: str) -> None:
        self._tell(kill=name)

    def dead(self) -> list[Process]:
        """Return the processes that ended without `stop`."""
        return [process for process in self.processes.values() if process.exit_status is not None]

    def wait_until(
        self, what: str, ready: Callable[[], bool], seconds: float = READY_SECONDS, only: Process | None = None
    ) -> None:
        """Poll `ready` until it returns true.

        Raises `LAB_FAILED` after `seconds`, with `what` in the message, or if a program of the lab ends in the
        meantime. With `only`, the end of any other program is ignored.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            for process in self.dead():
                if only is None or process is only:
                    raise CostofError(ErrorText.LAB_FAILED, detail=f"{process.name} ended: {last_line(process.log)}")
            if time.monotonic() > deadline:
                raise CostofError(ErrorText.LAB_FAILED, detail=f"{what} took more than {seconds:.0f} s")
            time.sleep(0.02)

    def cpu_seconds(self, without: Collection[str] = ()) -> dict[str, float]:
        """Return the CPU seconds so far by role, such as {"server": 1.2}, without the processes named in `without`."""
        total: dict[str, float] = {}
        for process in self.processes.values():
            if process.exit_status is None and process.name not in without:
                total[process.role] = total.get(process.role, 0.0) + _cpu_seconds(process)
        return total

    def _tell(self, **message: object) -> None:
        assert self._supervisor.stdin is not None
        try:
            self._supervisor.stdin.write(json.dumps(message).encode() + b"\n")
            self._supervisor.stdin.flush()
        except BrokenPipeError:
            raise CostofError(ErrorText.LAB_FAILED, detail="the lab's supervisor was killed") from None

    def _listen(self) -> None:
        assert self._supervisor.stdout is not None
        for line in self._supervisor.stdout:
            message = json.loads(line)
            if "exited" in message:
                with self._registering:
                    process = self.processes.get(message["exited"]["name"])
                    if process is not None:
                        process.exit_status = message["exited"]["status"]
                    else:
                        self._ended[message["exited"]["name"]] = message["exited"]["status"]
            else:
                self._answers.put(message)


def _cpu_seconds(process: Process) -> float:
    if not process.forks:
        return process_cpu_seconds(process.pid)
    pids = [process.pid, *descendants_of(process.pid)]
    # With a process per connection, most of a server's CPU time belongs to processes that have ended.
    return sum(process_cpu_seconds(pid) + ended_children_cpu_seconds(pid) for pid in pids)


def descendants_of(pid: int) -> list[int]:
    parent_by_child = parents()
    family = [pid]
    for ancestor in family:
        family += [child for child, parent in parent_by_child.items() if parent == ancestor]
    return family[1:]


def last_line(log: Path) -> str:
    """Return the shortened last line of a program's log, in which most programs say why they ended."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    # MariaDB's last line says only that it aborts.
    reasons = [line for line in lines if not line.endswith("Aborting")]
    return reasons[-1][-300:] if reasons else "it wrote nothing"


def _free_loopback_network() -> str:
    """Return the first three numbers of an unused /24 of 127.0.0.0/8, to separate simultaneous runs."""
    while True:
        network = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(254) + 1}"
        with socket.socket() as probe:
            if probe.connect_ex((f"{network}.1", 27017)) != 0:
                return network


def _temporary_folder() -> str | None:
    """Return '/tmp' if socket paths in TMPDIR would exceed 108 bytes (unix(7)); else None, which means TMPDIR."""
    return None if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY_FOLDER else "/tmp"  # noqa: S108


def is_root() -> bool:
    return os.geteuid() == 0
