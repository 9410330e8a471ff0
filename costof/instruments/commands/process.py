"""Functions that run one command in a new session, with a timeout that also ends the command's children."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from costof.lab.supervisor import parents
from costof.messages.answers import COPY_OF_ITSELF

#: Default timeout, for commands that are not measured, such as those that change settings before a measurement.
STEP_SECONDS = 60.0
#: Seconds between SIGTERM and SIGKILL for a command that does not end.
GRACE_SECONDS = 1.0
#: Interval between checks whether the output is larger than `MOST_OUTPUT`.
LOOK_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.001
#: A child that has just been forked has its parent's process name until it calls exec. Wait at most this long for the
#: child's own name.
NAMING_SECONDS = 0.02
LONGEST_NAME = 15
MOST_OUTPUT = 64 * 2**20


class ParentGoneError(Exception):
    """The process at the other end of the pipe `parent` has ended, so the command was ended too."""


class NotStartedError(Exception):
    """The command could not be started. The message says why."""


@dataclass(frozen=True)
class FinishedCommand:
    """The result of a command that has ended.

    `failure` says why the command failed. It is None if the exit status is 0.

    `user_ns` and `system_ns` are the CPU time of the process and of the children that it waited for, as getrusage(2)
    counts it. `stopped` is true if the command did not end by itself but was ended, for example at its timeout.
    """

    elapsed_ns: int
    user_ns: int
    system_ns: int
    peak_memory_bytes: int
    output: str
    error_output: str
    failure: str | None
    status: int = 0
    stopped: bool = False
    #: Names of processes that the command left running and that were then killed.
    killed_children: tuple[str, ...] = ()

    @property
    def cpu_ns(self) -> int:
        return self.user_ns + self.system_ns


#: Values of `Streams.stdout` that discard the output. `NULL` sends it to /dev/null. `PIPE` sends it to a pipe, which a
#: thread empties: some programs do less work if they write to /dev/null.
NULL, PIPE = "null", "pipe"


@dataclass(frozen=True)
class Streams:
    """The standard streams of a command. By default the input is empty, and the output is kept in memory.

    `stdin` is a file to read. `stdout` is `NULL`, `PIPE`, or a file that each run overwrites. `shown` is a file, such
    as /dev/stderr, to which standard output and standard error are both appended. It overrides `stdout`.
    """

    stdin: Path | None = None
    stdout: str | None = None
    shown: Path | None = None


KEPT_IN_MEMORY = Streams()


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    timeout_seconds: float,
    parent: int | None = None,
    directory: Path | None = None,
    keep_children: bool = False,
    streams: Streams = KEPT_IN_MEMORY,
) -> FinishedCommand:
    """Run a command until it ends or its time is over.

    `parent` is the reading end of a pipe from the process that ordered the command: when the pipe closes, the command
    is ended. None means no such pipe.

    Processes that the command leaves in its process group are killed, unless `keep_children` is set. Raises
    `NotStartedError`. Raises `ParentGoneError` if the pipe `parent` closed.
    """
    # Collect the output in memory files. Emptying a pipe while the command is measured would cost CPU time.
    with (
        _closing(os.memfd_create("output")) as output,
        _closing(os.memfd_create("errors")) as errors,
        _input(streams) as stdin,
        _outputs(streams, output, errors) as (stdout, stderr),
    ):
        started = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                argv,
                env=environment,
                cwd=directory,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise NotStartedError(error.strerror or str(error)) from None
        failure = _wait_for_end(process.pid, started + int(timeout_seconds * 1e9), parent, (output, errors))
        elapsed = time.monotonic_ns() - started
        program = Path(argv[0]).name[:LONGEST_NAME]
        if not (failure or keep_children):
            _wait_for_names(process.pid, program)
        if failure or not keep_children:
            # Kill the group before wait4 reaps the process: after wait4, the kernel may give the group's ID to another
            # group.
            _kill_group(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        killed = () if keep_children else _reap_group(process.pid, program)
        if failure is _PARENT_GONE:
            raise ParentGoneError
        return FinishedCommand(
            elapsed_ns=elapsed,
            user_ns=int(used.ru_utime * 1e9),
            system_ns=int(used.ru_stime * 1e9),
            peak_memory_bytes=used.ru_maxrss * 1024,
            output=_read(output),
            error_output=_read(errors),
            failure=failure or _status_text(process.returncode),
            status=process.returncode,
            stopped=failure is not None,
            killed_children=() if failure else killed,
        )


@contextlib.contextmanager
def _input(streams: Streams) -> Iterator[int]:
    if streams.stdin is None:
        yield subprocess.DEVNULL
        return
    try:
        descriptor = os.open(streams.stdin, os.O_RDONLY)
    except OSError as error:
        raise NotStartedError(f"cannot read its input {streams.stdin}: {error.strerror}") from None
    with _closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def _outputs(streams: Streams, output: int, errors: int) -> Iterator[tuple[int, int]]:
    """Yield the descriptors for a command's standard output and standard error.

    `output` and `errors` are the memory files to use unless `streams` has another destination.
    """
    if streams.shown is not None:
        with _closing(_open_for_writing(streams.shown, os.O_APPEND)) as shown:
            yield shown, shown
    elif streams.stdout is None:
        yield output, errors
    elif streams.stdout == NULL:
        yield subprocess.DEVNULL, errors
    elif streams.stdout == PIPE:
        reading, writing = os.pipe()
        thread = threading.Thread(target=_drain, args=(reading,), daemon=True)
        thread.start()
        with _closing(writing):
            yield writing, errors
        # Do not wait until the pipe closes: a daemon that the command started may keep it open.
        thread.join(GRACE_SECONDS)
    else:
        with _closing(_open_for_writing(Path(streams.stdout), os.O_TRUNC)) as file:
            yield file, errors


def _open_for_writing(path: Path, flags: int) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o666)
    except OSError as error:
        raise NotStartedError(f"cannot write its output to {path}: {error.strerror}") from None


def _drain(reading: int) -> None:
    with _closing(reading):
        while os.read(reading, 2**16):
            pass


_PARENT_GONE = "its parent has ended"


def _wait_for_end(pid: int, deadline: int, parent: int | None, written: Sequence[int]) -> str | None:
    """Wait until the process has ended. End it at the deadline, if the pipe `parent` closes, or if it writes too much.

    Return why this function ended the process; None if the process ended by itself.
    """
    with _closing(os.pidfd_open(pid)) as ended:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if parent is not None:
            # No events are needed: poll always reports POLLHUP, that is, that the other end of the pipe has closed.
            poll.register(parent, 0)
        why = None
        while True:
            left = (deadline - time.monotonic_ns()) / 1e9
            events = [number for number, _ in poll.poll(max(0.0, min(left, LOOK_SECONDS)) * 1000)]
            if ended in events:
                return why
            if parent in events:
                why = _PARENT_GONE
            elif left <= 0:
                why = "it ran longer than its timeout"
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


def _wait_for_names(group: int, leader: str) -> None:
    """Wait at most `NAMING_SECONDS` until no remaining child of a command still has the command's name.

    A child that has just been forked has the command's name, `leader`, until it calls exec. The function waits because
    costof shows the children's names to the user.
    """
    deadline = time.monotonic() + NAMING_SECONDS
    while time.monotonic() < deadline:
        try:
            # waitid raises ChildProcessError if no child is left. The command's own process has ended but is not reaped
            # yet; without WEXITED, waitid ignores it.
            os.waitid(os.P_PGID, group, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        ours = [pid for pid, parent in parents().items() if parent == os.getpid() and pid != group]
        if leader not in map(_process_name, ours):
            return
        time.sleep(LOOK_AGAIN_SECONDS)


def _reap_group(group: int, leader: str) -> tuple[str, ...]:
    """Reap the children in a process group after SIGKILL, and return the names of those that SIGKILL has ended.

    A child that still had the command's name, `leader`, is reported as `COPY_OF_ITSELF`. The function waits at most
    `GRACE_SECONDS`, because it cannot kill processes of other users.
    """
    names: list[str] = []
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        try:
            # With WNOWAIT, the dead process keeps its name until it is reaped. This process is a subreaper: it inherits
            # the children of the dead process, and the loop finds them later.
            ended = os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return tuple(dict.fromkeys(names))
        if ended is not None:
            if ended.si_code == os.CLD_KILLED and ended.si_status == signal.SIGKILL:
                name = _process_name(ended.si_pid)
                names.append(COPY_OF_ITSELF if name == leader else name)
            os.waitpid(ended.si_pid, 0)
        elif time.monotonic() > deadline:
            return tuple(dict.fromkeys(names))
        else:
            time.sleep(LOOK_AGAIN_SECONDS)


def adopted() -> dict[int, str]:
    """Return the running processes that earlier commands left behind, as {pid: name}.

    This process, a subreaper, has inherited them. Call the function only while no command runs, because the function
    reaps every child that has ended.
    """
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return {pid: _process_name(pid) for pid, parent in parents().items() if parent == os.getpid()}
        except ChildProcessError:
            return {}


def _process_name(pid: int) -> str:
    """Return the name of a process, without its arguments, which may hold a password."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process"


def _status_text(status: int) -> str | None:
    if status < 0:
        return f"it was ended by signal {-status} ({signal.strsignal(-status)})"
    return f"it ended with status {status}" if status else None


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def last_line(ended: FinishedCommand) -> str:
    """Return ': ' and the last line of the error output or, without that, of the output; '' if both are empty."""
    lines = (ended.error_output.strip() or ended.output.strip()).splitlines()
    return f": {lines[-1][-300:]}" if lines else ""


def _read(number: int) -> str:
    return os.pread(number, MOST_OUTPUT, 0).decode(errors="replace")
