"""The supervisor: a process that removes everything a run created on the machine, however the run ends.

It is started as `python -m costof.lab.supervisor`, reads orders from a pipe, and starts the lab's programs as its
children. The pipe closes when the run has ended, has crashed, or was killed with -9. The supervisor then kills the
programs, runs the undo commands in reverse order and removes the directories. A normal end works the same way as a
crash, so every run tests the cleanup.

Messages are one JSON object on each line. In: `{"spawn": {name, argv, env, log}}`, `{"kill": name}`, `{"directory":
path}`, `{"undo": argv}`. Out: `{"spawned": {name, pid}}`, `{"failed": {name, detail}}`, `{"exited": {name, status}}`.
The module imports only the standard library, so that it starts quickly.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def parents() -> dict[int, int]:
    """Return the pid of each process's parent, as {pid: parent's pid}.

    They are read from /proc/PID/stat, since not every kernel lists a process's children.
    """
    parent_by_pid = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # The process may have ended.
            with contextlib.suppress(OSError), (entry / "stat").open("rb") as file:
                # State and parent follow the name, which is in parentheses and may contain any characters.
                parent_by_pid[int(entry.name)] = int(file.read().rpartition(b")")[2].split()[1])
    return parent_by_pid


def kill_children() -> None:
    """Kill all descendants of this process, which must be a subreaper (prctl(2)).

    When a child is killed, the kernel makes this process the parent of the child's own children. The function therefore
    repeats until no child is left.
    """
    while children := [pid for pid, parent in parents().items() if parent == os.getpid()]:
        for pid in children:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


class Supervisor:
    """A process that starts the lab's programs as its children and cleans up when the run ends.

    It stores the children by name, and the directories and undo commands in the order of their registration.
    """

    def __init__(self) -> None:
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.undo: list[list[str]] = []
        self.directories: list[str] = []
        self.selector = selectors.DefaultSelector()

    def say(self, kind: str, **fields: Any) -> None:
        # The run that reads these messages may have ended, but cleanup must continue.
        with contextlib.suppress(OSError):
            os.write(1, json.dumps({kind: fields}).encode() + b"\n")

    def obey(self, message: dict[str, Any]) -> None:
        if "spawn" in message:
            self.spawn(**message["spawn"])
        elif "kill" in message:
            self.kill(message["kill"])
        elif "directory" in message:
            self.directories.append(message["directory"])
        elif "undo" in message:
            self.undo.append(message["undo"])

    def spawn(self, name: str, argv: list[str], env: dict[str, str], log: str) -> None:
        try:
            with Path(log).open("ab") as output:
                child = subprocess.Popen(
                    argv,
                    env={**os.environ, **env},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    # If the supervisor itself is killed with -9, the kernel ends its children.
                    preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
                )
        except OSError as error:
            self.say("failed", name=name, detail=str(error))
            return
        self.children[name] = child
        self.selector.register(os.pidfd_open(child.pid), selectors.EVENT_READ, name)
        self.say("spawned", name=name, pid=child.pid)

    def kill(self, name: str) -> None:
        child = self.children.get(name)
        if child is not None and child.poll() is None:
            # Kill the whole group, for programs that fork. The data is temporary, so nothing needs to be flushed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def ended(self, key: selectors.SelectorKey) -> None:
        self.selector.unregister(key.fileobj)
        os.close(key.fd)
        status = self.children[key.data].wait()
        self.say("exited", name=key.data, status=status)

    def serve(self) -> None:
        self.selector.register(0, selectors.EVENT_READ, None)
        waiting = b""
        while True:
            for key, _ in self.selector.select():
                if key.data is not None:
                    self.ended(key)
                    continue
                received = os.read(0, 65536)
                if not received:
                    return
                *lines, waiting = (waiting + received).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))

    def tear_down(self) -> None:
        for name in reversed(list(self.children)):
            self.kill(name)
        for child in self.children.values():
            child.wait()
        # Programs may leave processes outside their groups, such as sshd's children in new sessions.
        kill_children()
        for argv in reversed(self.undo):
            # Run the other undo commands even if one cannot be started.
            with contextlib.suppress(OSError):
                subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for directory in reversed(self.directories):
            shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    # Ignore Ctrl-C and hang-ups of the terminal, which the run handles. The supervisor ends when the pipe closes.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = Supervisor()
    try:
        supervisor.serve()
    finally:
        supervisor.tear_down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
