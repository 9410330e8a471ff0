"""`costof completion`: shells complete commands, studies and options."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from costof.cli.main import cli

#: For each shell: arguments that start it without the user's configuration, and the command that loads the completion.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source {script}"),
    "fish": (["fish", "--no-config", "-i"], "source {script}"),
}
#: The shell completes the word before each tab, so the line becomes `costof run mongodb-tls --dry-run`.
TYPED = "costof ru\tmongodb-t\t--dry\t"


def typed_at(shell: list[str], lines: list[str], folder: Path) -> str:
    """Type lines into a shell at a terminal, and return all that the terminal shows until the shell ends."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "dumb", "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    terminal, shells = pty.openpty()
    of_its_own = ["setsid", "--ctty", "--wait", *shell]
    with subprocess.Popen(of_its_own, stdin=shells, stdout=shells, stderr=shells, cwd=folder, env=environment):
        os.close(shells)
        os.write(terminal, "".join(f"{line}\r" for line in lines).encode())
        shown = b""
        # Reading fails as soon as no process has the terminal open.
        with suppress(OSError):
            while chunk := os.read(terminal, 65536):
                shown += chunk
    os.close(terminal)
    return shown.decode(errors="replace")


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [([], "ru", "run"), (["run"], "mongodb-t", "mongodb-tls"), (["run", "mongodb-tls"], "--dry", "--dry-run")],
)
def test_unfinished_word_of_a_command_line_is_completed(words: list[str], begun: str, completed: str) -> None:
    found = ShellComplete(cli, {}, "costof", "_COSTOF_COMPLETE").get_completions(words, begun)
    assert [each.value for each in found] == [completed]


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_shell_at_a_terminal_completes_a_whole_command_line(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}: scripts/system-packages tests installs it")
    script = tmp_path / "script"
    costof = Path(sys.executable).parent / "costof"
    script.write_text(subprocess.run([costof, "completion", shell], capture_output=True, text=True, check=True).stdout)
    command, read = SHELLS[shell]
    shown = typed_at(command, [read.format(script=script), TYPED, "exit"], tmp_path)
    assert "What does TLS cost a MongoDB client?" in shown, shown
