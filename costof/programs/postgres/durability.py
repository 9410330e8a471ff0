"""The disk flushes of PostgreSQL's log. They are counted in studies that set whether a commit waits for a flush."""

from __future__ import annotations

from collections.abc import Mapping

from costof.messages.answers import SliceAnswer
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch
from costof.programs.postgres.file_system import FileSystemConfiguration
from costof.programs.postgres.parts import PostgresPart

#: The settings that decide whether a commit waits for a flush.
COMMIT_SETTINGS = frozenset({"synchronous_commit", "fsync"})
#: The query for the number of flushes of PostgreSQL's log. The key is True for version 18 or later.
COUNTED_FLUSHES = {
    True: "SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'",
    False: "SELECT wal_sync FROM pg_stat_wal",
}
END_MILLISECONDS = 5000


class Durability(PostgresPart[FileSystemConfiguration]):
    @classmethod
    def is_needed(cls, configuration: FileSystemConfiguration) -> bool:
        return bool(COMMIT_SETTINGS & configuration.settings.keys())

    def readings(self) -> dict[str, float]:
        ((flushes,),) = self.server.ask(COUNTED_FLUSHES[self.server.major >= 18])
        ((position,),) = self.server.ask("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return {FLUSHES: float(flushes), LOG_BYTES: float(position)}

    def finish_counting(self) -> None:
        """End the clients' connections: a server process reports its counts late, except when it ends.

        costof's load generator opens new connections before each slice (measured window).
        """
        clients = f"FROM pg_stat_activity WHERE usename = '{self.server.user}'"
        self.server.ask(f"SELECT pg_terminate_backend(pid) {clients}")
        self.server.ask(f"SELECT pg_terminate_backend(pid, {END_MILLISECONDS}) {clients}")

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        if self.configuration.file_system is not None:
            # In a study of file systems, slices (measured windows) of reads and of writes alternate. Reads after writes
            # clean up pages, which writes to the log without a commit, so the number of flushes proves nothing.
            return None
        flushes_commits = not any(self.configuration.settings.get(name) == "off" for name in COMMIT_SETTINGS)
        return flush_mismatch(increases, answer, flushes_commits)
