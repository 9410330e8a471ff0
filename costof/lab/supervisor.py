"""The supervisor: owns everything a run leaves on the machine, and undoes it when the run ends, however it ends.

A process of its own, started as `python -m costof.lab.supervisor`. It starts the lab's programs as its children and
holds the end of a pipe. When the pipe closes (the run ended, crashed, or was killed with -9) it kills what it started,
runs the undo commands in reverse order and removes the directories. Normal teardown takes the same road, so the road
that matters after a crash is the one that every run tests.

One JSON object a line. In: `{"spawn": {name, argv, env, log}}`, `{"kill": name}`, `{"directory": path}`,
`{"undo": argv}`. Out: `{"spawned": {name, pid}}`, `{"failed": {name, detail}}`, `{"exited": {name, status}}`.
Only the standard library, so that it starts at once.
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


def _die_with_the_supervisor() -> None:
    # Even the supervisor can be killed with -9; then the kernel ends its children.
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def parents() -> dict[int, int]:
    """The parent of every process of the machine, from /proc: not every kernel lists the children."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError), (entry / "stat").open("rb") as file:
                # The name, in parentheses, may hold anything; after it come the state and the parent.
                found[int(entry.name)] = int(file.read().rpartition(b")")[2].split()[1])
    return found


class Supervisor:
    """Children by name, directories and undo commands in the order they came."""

    def __init__(self) -> None:
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.undo: list[list[str]] = []
        self.directories: list[str] = []
        self.selector = selectors.DefaultSelector()

    def say(self, kind: str, **fields: Any) -> None:
        # Whoever listened may be gone; that is no reason to stop cleaning up.
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
                    preexec_fn=_die_with_the_supervisor,
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
            # The group, for programs that fork. The data is the run's own, so there is nothing to flush.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def ended(self, key: selectors.SelectorKey) -> None:
        self.selector.unregister(key.fileobj)
        os.close(key.fd)
        status = self.children[key.data].wait()
        self.say("exited", name=key.data, status=status)

    def serve(self) -> None:
        """Obey until the pipe closes."""
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

    def end_orphans(self) -> None:
        """End what the programs left: a child that began a session of its own (sshd's do) is in no group of ours.

        Orphans come to the supervisor, the subreaper, so that its children are all there is; theirs come to it in turn.
        """
        while orphans := [pid for pid, parent in parents().items() if parent == os.getpid()]:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def tear_down(self) -> None:
        for name in reversed(list(self.children)):
            self.kill(name)
        for child in self.children.values():
            child.wait()
        self.end_orphans()
        for argv in reversed(self.undo):
            # One that cannot even be started must not keep the others from being run.
            with contextlib.suppress(OSError):
                subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for directory in reversed(self.directories):
            shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    # A Ctrl-C or a hang-up of the terminal is the run's business; the supervisor ends when the pipe does.
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
