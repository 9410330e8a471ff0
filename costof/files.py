"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a temporary file and rename it to `path`, so that a full disk or a crash leaves the old file intact.

    Raises `OSError`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            # Without fsync, the rename may reach the disk before the content. Some file systems report a full disk only
            # in fsync.
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
