"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a temporary file and rename it to `path`, so that a full disk or a crash leaves the old file intact.

    Raises `OSError`.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, str | bytes]) -> None:
    """Write several files that belong together. A full disk leaves all old files intact.

    All temporary files are complete before the first one is renamed. Only a crash between two renames can leave new
    files beside old ones. Raises `OSError`.
    """
    temporaries = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in contents}
    try:
        for path, content in contents.items():
            with temporaries[path].open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                # Without fsync, the rename may reach the disk before the content. Some file systems report a full disk
                # only in fsync.
                os.fsync(file.fileno())
        for path, temporary in temporaries.items():
            temporary.replace(path)
    except BaseException:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
        raise
