"""A real terminal for tests: a window of tmux, whose screen is read as a user sees it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.programs import eventually

COLOUR = re.compile(r"\x1b\[[\d;]*\b(3[0-7]|9[0-7]|38|48)[\d;]*m")


class Terminal:
    """A window of tmux with one program in it. Drawing takes some time, so tests wait for a text."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-L", self._name, "-f", "/dev/null", *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    def screen(self, *options: str) -> str:
        return self.run("capture-pane", "-p", *options, "-t", "it").rstrip()

    def wait_for(self, text: str) -> str:
        eventually(f"'{text}' on the screen", lambda: text in self.screen())
        return self.screen()

    def resize(self, width: int, height: int) -> None:
        """Resize the window, and wait until tmux has sent the new size to the program in it."""
        self.run("resize-window", "-t", "it", "-x", str(width), "-y", str(height))
        device = self.run("display-message", "-p", "-t", "it", "#{pane_tty}").strip()
        with open(device) as tty:  # noqa: PTH123  # a device
            eventually("the terminal's size", lambda: tuple(os.get_terminal_size(tty.fileno())) == (width, height))

    def press(self, key: str) -> None:
        self.run("send-keys", "-t", "it", key)

    @property
    def shows_cursor(self) -> bool:
        return self.run("display-message", "-p", "-t", "it", "#{cursor_flag} #{alternate_on}").split() == ["1", "0"]


@contextmanager
def terminal(
    command: Sequence[str], folder: Path, width: int = 110, height: int = 30, environment: Mapping[str, str] = {}
) -> Iterator[Terminal]:
    """Run a command in a terminal; when it ends, the screen shows 'ended with' and its status."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    window = Terminal(f"costof-{uuid4().hex[:12]}")
    variables = [f"{name}={value}" for name, value in {"CI": "", **environment}.items()]
    line = shlex.join(["env", "-u", "NO_COLOR", "-u", "COLUMNS", "-u", "LINES", *variables, *command])
    # The shell survives Ctrl-C, which its program still gets.
    shell = f"trap : INT; {line}; echo ended with $?; exec sleep infinity"
    size = ["-x", str(width), "-y", str(height)]
    window.run("new-session", "-d", "-s", "it", *size, "-c", str(folder), "sh", "-c", shell)
    try:
        yield window
    finally:
        window.run("kill-server")
