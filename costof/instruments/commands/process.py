"""One command's life: started in a session of its own, waited for, and ended with its children at its time-out."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from costof.lab.supervisor import parents
from costof.messages.answers import COPY_OF_ITSELF

#: What brings a level into force, undoes it or proves it takes no longer.
STEP_SECONDS = 60.0
#: After SIGTERM, before SIGKILL.
GRACE_SECONDS = 1.0
#: Between two looks at how much it has written.
LOOK_SECONDS = 1.0
#: Between two looks at what was killed and has not ended yet.
LOOK_AGAIN_SECONDS = 0.001
#: For children that were just forked to be another program.
NAMING_SECONDS = 0.02
#: Of a process, as the kernel keeps it.
LONGEST_NAME = 15
MOST_OUTPUT = 64 * 2**20


class ParentGoneError(Exception):
    """Whoever asked for the command is no more; it was ended."""


class NotStartedError(Exception):
    """The message says why."""


@dataclass(frozen=True)
class Ended:
    """A command that is over. `wrong` says in words why it has failed; None where its status is 0.

    CPU time is that of the process and of its children that it has waited for, as getrusage(2) counts.
    """

    elapsed_ns: int
    cpu_ns: int
    peak_memory_bytes: int
    output: str
    error_output: str
    wrong: str | None
    status: int = 0
    #: Names of processes that it had left running when it ended, and that were killed.
    left: tuple[str, ...] = ()


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    timeout_seconds: float,
    parent: int | None = None,
    directory: Path | None = None,
    leaves: bool = False,
) -> Ended:
    """Run it to its end. `parent`: the end of a pipe; when its other end is closed the command is ended.

    What its group has left behind is killed, unless it is one that `leaves` something on purpose.
    Raises `NotStartedError` and `ParentGoneError`.
    """
    # Files in memory: pipes would have to be emptied while the command is measured.
    with _closing(os.memfd_create("output")) as output, _closing(os.memfd_create("errors")) as errors:
        started = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                argv,
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise NotStartedError(error.strerror or str(error)) from None
        wrong = _waited(process.pid, started + int(timeout_seconds * 1e9), parent, (output, errors))
        elapsed = time.monotonic_ns() - started
        program = Path(argv[0]).name[:LONGEST_NAME]
        if not (wrong or leaves):
            _await_names(process.pid, program)
        if wrong or not leaves:
            # Its number is its own until it is waited for, and so is the group's.
            _kill_group(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        killed = () if leaves else _reap_group(process.pid, program)
        if wrong is _PARENT_GONE:
            raise ParentGoneError
        return Ended(
            elapsed_ns=elapsed,
            cpu_ns=int((used.ru_utime + used.ru_stime) * 1e9),
            peak_memory_bytes=used.ru_maxrss * 1024,
            output=_read(output),
            error_output=_read(errors),
            wrong=wrong or _of_status(process.returncode),
            status=process.returncode,
            left=() if wrong else killed,
        )


_PARENT_GONE = "its parent has gone"


def _waited(pid: int, deadline: int, parent: int | None, written: Sequence[int]) -> str | None:
    """Until the process has ended, by itself or ended by us: why then, in words."""
    with _closing(os.pidfd_open(pid)) as ended:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if parent is not None:
            # No event but the one that is always told: the other end was closed.
            poll.register(parent, 0)
        why = None
        while True:
            left = (deadline - time.monotonic_ns()) / 1e9
            found = [number for number, _ in poll.poll(max(0.0, min(left, LOOK_SECONDS)) * 1000)]
            if ended in found:
                return why
            if parent in found:
                why = _PARENT_GONE
            elif left <= 0:
                why = "it took longer than its time-out"
            elif any(os.fstat(number).st_size > MOST_OUTPUT for number in written):
                why = f"it wrote more than {MOST_OUTPUT // 2**20} MiB"
            if why:
                _kill_group(pid, signal.SIGTERM)
                if not _ends_within(ended, GRACE_SECONDS):
                    _kill_group(pid, signal.SIGKILL)
                    _ends_within(ended, None)
                return why


def _ends_within(descriptor: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _kill_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _await_names(group: int, leader: str) -> None:
    """Wait until the running children that a command has left have programs of their own to be named by, for a moment.

    A child that was just forked has the leader's name.
    """
    deadline = time.monotonic() + NAMING_SECONDS
    while time.monotonic() < deadline:
        try:
            # Without WEXITED the leader, which has ended, does not count: an error says that no other is left.
            os.waitid(os.P_PGID, group, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        ours = [pid for pid, parent in parents().items() if parent == os.getpid() and pid != group]
        if leader not in map(_name_of, ours):
            return
        time.sleep(LOOK_AGAIN_SECONDS)


def _reap_group(group: int, leader: str) -> tuple[str, ...]:
    """Reap what is left of a killed group, where this process is its reaper; return the names of those that ran on.

    What another user may not kill is left alone. A child without a program of its own has the leader's name.
    """
    names: list[str] = []
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        try:
            # A dead process keeps its name until it is reaped, and hands its own children to us before it is seen dead.
            ended = os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return tuple(dict.fromkeys(names))
        if ended is not None:
            if ended.si_code == os.CLD_KILLED and ended.si_status == signal.SIGKILL:
                name = _name_of(ended.si_pid)
                names.append(COPY_OF_ITSELF if name == leader else name)
            os.waitpid(ended.si_pid, 0)
        elif time.monotonic() > deadline:
            return tuple(dict.fromkeys(names))
        else:
            time.sleep(LOOK_AGAIN_SECONDS)


def adopted() -> dict[int, str]:
    """Return the names of the running processes that ended commands have left to this one, their reaper, by number.

    Called while no command runs.
    """
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return {pid: _name_of(pid) for pid, parent in parents().items() if parent == os.getpid()}
        except ChildProcessError:
            return {}


def _name_of(pid: int) -> str:
    """Return the name of a process, without its arguments, which may hold a password."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process"


def _of_status(status: int) -> str | None:
    if status < 0:
        return f"it was ended by signal {-status} ({signal.strsignal(-status)})"
    return f"it ended with status {status}" if status else None


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def last_line(ended: Ended) -> str:
    """': ' and what it said last, where errors are said first of all; '' where it said nothing."""
    lines = (ended.error_output.strip() or ended.output.strip()).splitlines()
    return f": {lines[-1][-300:]}" if lines else ""


def _read(number: int) -> str:
    return os.pread(number, MOST_OUTPUT, 0).decode(errors="replace")
