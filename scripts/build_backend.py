"""What pip builds the source distribution by: maturin, which keeps no file's mode there, and the command's mode."""

import os
from pathlib import Path

from maturin import *  # noqa: F403  # each of its functions is the backend's

# pip makes executable what is executable in the wheel.
Path("packaging/scripts/costof").chmod(0o755)
# Where no wheel fits and there is no Rust, maturin would fetch a compiler unasked; so it says that Cargo is missing.
os.environ.setdefault("MATURIN_NO_INSTALL_RUST", "1")
