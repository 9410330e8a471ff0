"""The disk flushes of Redis's append-only file. They are counted in studies that configure this file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from costof.messages.answers import SliceAnswer
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch
from costof.programs.parts import ServerConfiguration
from costof.programs.redis.parts import RedisPart

APPEND_ONLY = "appendonly"
PAGE_BYTES = 4096


class Durability(RedisPart[ServerConfiguration]):
    @classmethod
    def is_needed(cls, configuration: ServerConfiguration) -> bool:
        return APPEND_ONLY in configuration.settings

    def evidence(self) -> dict[str, str]:
        return {"connected replicas": str(self.server.ask("INFO", "replication")["connected_slaves"])}

    def readings(self) -> dict[str, float]:
        """Return the flushes and the bytes of the append-only file.

        Redis does not count flushes, so they are computed from the pages (of 4,096 bytes) that Redis has made dirty,
        which the kernel counts. The first append after a flush makes the file's last page dirty again. Each flush
        therefore adds one dirty page, and every 4,096 appended bytes add another. The number of flushes is therefore
        the number of dirtied pages minus the file's size in pages.
        """
        written = int(self.server.ask("INFO", "persistence").get("aof_current_size", 0))
        pages = pages_written(self.server.process.pid)
        flushes = {} if pages is None else {FLUSHES: pages - written / PAGE_BYTES}
        return {LOG_BYTES: float(written), **flushes}

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        settings = self.configuration.settings
        always = (settings.get(APPEND_ONLY), settings.get("appendfsync")) == ("yes", "always")
        return flush_mismatch(increases, answer, always)


def pages_written(pid: int) -> float | None:
    """Return how many pages of files a process has made dirty, by the kernel's count; None if unknown."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split(": ") for line in lines)
    return int(counts["write_bytes"]) / PAGE_BYTES
