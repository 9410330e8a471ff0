"""Audit logs: how a server's log is read, and its entries compared with the statements that clients have sent."""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from costof.format import plural, plural_formatted
from costof.lab.lab import Lab
from costof.lab.log_file import LogFile
from costof.lab.syslog import SyslogDaemon
from costof.messages.answers import REPORTED, REPORTED_FAILURE, SliceAnswer

#: The names of the readings of an audit log (`LabServer.readings`), and the prefix of those of one class of entries.
ENTRIES = "audit_entries"
BYTES = "audit_bytes"
OF_CLASS = "audit_entries_"
#: A disk with less free space counts as full.
FULL_BYTES = 16 * 1024
#: The number of queries in an operation of kind `pipeline`.
QUERIES_OF_A_PIPELINE = 16
#: The largest number of statements that a failed operation may have sent.
STATEMENTS_OF_A_FAILURE = 64


class ServerLog:
    """The log of a lab's server, of which each line is read once, by all `readers`.

    The process `writer` writes the file. If it is a collector or a syslog daemon, it gets the lines from the server's
    other processes, and from `send_mark`.
    """

    def __init__(self, lab: Lab, writer: str, file: LogFile, send_mark: Callable[[str], object] | None = None) -> None:
        self.file = file
        self.readers: list[Callable[[str], object]] = []
        self._lab = lab
        self._writer = writer
        self._send_mark = send_mark
        self._marks = 0

    @classmethod
    def of_syslog(cls, lab: Lab, daemon: SyslogDaemon) -> ServerLog:
        return cls(lab, daemon.process.name, daemon.process.lines, daemon.send)

    def read(self) -> None:
        """Read the new lines, among them all entries of statements that have been answered.

        The server's processes write the entries before they answer. A collector or a syslog daemon writes them in the
        order in which it gets them, so that a mark, which comes last, follows them.
        """
        if self._send_mark is None:
            self._read_lines()
        else:
            self._marks += 1
            mark = f"costof mark {self._marks}."
            self._send_mark(mark)
            # On a full disk the mark is lost, as are the entries.
            found = lambda: mark in self._read_lines() or is_full(self.file.path)  # noqa: E731
            self._lab.wait_until(f"reading the log of {self._writer}", found, only=self._lab.processes[self._writer])
        self.file.shorten()

    def _read_lines(self) -> str:
        lines = self.file.new_lines()
        for reader in self.readers:
            reader(lines)
        return lines


class AuditLog:
    """The entries of an audit log by class, such as 'read', and their bytes.

    `entry` matches lines, with a word in one of its groups. `classes` gives the class of entries with this word; other
    lines are no entries.
    """

    def __init__(self, entry: re.Pattern[str], classes: Mapping[str, str]) -> None:
        self._entry = entry
        self._classes = classes
        self._entries: Counter[str] = Counter(dict.fromkeys(classes.values(), 0))
        self._bytes = 0

    def add(self, lines: str) -> None:
        for match in self._entry.finditer(lines):
            if name := self._classes.get(match[match.lastindex or 0]):
                self._entries[name] += 1
                self._bytes += len(match[0].encode()) + 1

    def readings(self) -> dict[str, float]:
        by_class = {f"{OF_CLASS}{name}": float(count) for name, count in self._entries.items()}
        return {ENTRIES: float(self._entries.total()), BYTES: float(self._bytes), **by_class}


def statements_sent(
    kind: str | None, answer: SliceAnswer, of_program: Mapping[str, int] | None = None
) -> dict[str, int] | None:
    """Return the number of statements of each class that the client has sent in a slice, by its own count.

    `of_program` has the number of statements of an operation that a load generator reports. Return None if the
    workload's kind does not say this.
    """
    if REPORTED in answer.counts:
        failed = sum(error.count for error in answer.errors if error.error_class == REPORTED_FAILURE)
        done = answer.counts[REPORTED] - failed
        return {name: count * done for name, count in (of_program or {}).items()}

    def count(phase: str) -> int:
        return answer.phases[phase].count if phase in answer.phases else 0

    operations = count("operation")
    match kind:
        case "connect" | "query":
            return {"read": count("first_operation") + operations}
        case "pipeline":
            return {"read": QUERIES_OF_A_PIPELINE * operations}
        case "tpcb":
            return {"read": operations, "write": 4 * operations, "misc": 2 * operations}
        case "ycsb":
            return {"read": count("read") + count("scan"), "write": count("insert") + count("update")}
    return None


def entries_mismatch(
    audited: Collection[str], sent: Mapping[str, int], moved: Mapping[str, float], answer: SliceAnswer, log: LogFile
) -> str | None:
    """Return why the entries of a slice are not exactly those of the statements that were sent; None if they are.

    `audited` are the audited classes. Statements of other classes must have no entry. A failed operation may have sent
    statements that the client did not count, and a load generator sends some beside its operations.
    """
    failed = STATEMENTS_OF_A_FAILURE * sum(error.count for error in answer.errors)
    uncounted = math.inf if REPORTED in answer.counts else failed
    for name in [key.removeprefix(OF_CLASS) for key in moved if key.startswith(OF_CLASS)]:
        entries = int(moved[f"{OF_CLASS}{name}"])
        statements = sent.get(name, 0) if name in audited else 0
        if not statements <= entries <= statements + (uncounted if name in audited else 0):
            cause = "; the disk of the log is full" if is_full(log.path) else ""
            counted = plural_formatted(f"{entries:,}", "entry", "entries")
            return f"the audit log got {counted} of class {name} for {plural(statements, 'audited statement')}{cause}"
    return None


def is_full(path: Path) -> bool:
    return shutil.disk_usage(path if path.exists() else path.parent).free < FULL_BYTES
