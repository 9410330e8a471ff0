"""The build backend of the source distribution: maturin, which runs after the command's script is made executable."""

import os
from pathlib import Path

from maturin import *  # noqa: F403  # the backend has all functions of maturin

# maturin does not keep file modes in the source distribution. Without this mode, pip would install a command that
# cannot be executed.
Path("packaging/scripts/costof").chmod(0o755)
# Without Rust, maturin would download a compiler; with this variable it reports that Cargo is missing.
os.environ.setdefault("MATURIN_NO_INSTALL_RUST", "1")
