"""What pip builds the source distribution by: maturin, which keeps no file's mode there, and the command's mode."""

from pathlib import Path

from maturin import *  # noqa: F403  # each of its functions is the backend's

# pip makes executable what is executable in the wheel.
Path("packaging/scripts/costof").chmod(0o755)
