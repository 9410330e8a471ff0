"""The disk flushes of MariaDB's commits. They are counted in studies that set whether a commit waits for a flush."""

from __future__ import annotations

from collections.abc import Mapping

from costof.messages.answers import SliceAnswer
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch
from costof.programs.mariadb.encryption_at_rest import EncryptionConfiguration
from costof.programs.mariadb.parts import MariadbPart

#: The settings that decide whether a commit waits for a flush of the redo log and of the binary log.
REDO, BINLOG = "innodb-flush-log-at-trx-commit", "sync-binlog"


class Durability(MariadbPart[EncryptionConfiguration]):
    @classmethod
    def is_needed(cls, configuration: EncryptionConfiguration) -> bool:
        return bool({REDO, BINLOG} & configuration.settings.keys())

    def readings(self) -> dict[str, float]:
        """Return the flushes of InnoDB's files and of the binary log, and the bytes written to the redo log."""
        status = self.server.status("Innodb_data_fsyncs") | self.server.status("Innodb_lsn_current")
        flushes = int(status["Innodb_data_fsyncs"])
        if self.configuration.settings.get(BINLOG) == "1":
            # Each group of transactions flushes the binary log once.
            flushes += int(self.server.status("Binlog_group_commits")["Binlog_group_commits"])
        return {FLUSHES: float(flushes), LOG_BYTES: float(status["Innodb_lsn_current"])}

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        if self.configuration.encrypt is not None:
            # In a study of encryption, slices (measured windows) of reads and of writes alternate. During reads, the
            # server still flushes pages of earlier writes, so the number of flushes proves nothing.
            return None
        settings = self.configuration.settings
        return flush_mismatch(increases, answer, "1" in (settings.get(REDO, "1"), settings.get(BINLOG)))
