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

#: After SIGTERM, before SIGKILL.
GRACE_SECONDS = 1.0
#: Between two looks at how much it has written.
LOOK_SECONDS = 1.0
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
        if wrong or not leaves:
            # Its number is its own until it is waited for, and so is the group's.
            _kill_group(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if wrong is _PARENT_GONE:
            raise ParentGoneError
        return Ended(
            elapsed_ns=elapsed,
            cpu_ns=int((used.ru_utime + used.ru_stime) * 1e9),
            peak_memory_bytes=used.ru_maxrss * 1024,
            output=_read(output),
            error_output=_read(errors),
            wrong=wrong or _of_status(process.returncode),
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
