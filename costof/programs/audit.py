"""Audit logs: reading a server's log, and comparing its entries with the statements that clients have sent."""

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

#: Names of counters in `LabServer.readings`: an audit log's entries, and their bytes. `OF_CLASS` is the prefix of the
#: counters of one class of statements: 'audit_entries_read' counts entries of the class 'read'.
ENTRIES = "audit_entries"
BYTES = "audit_bytes"
OF_CLASS = "audit_entries_"
#: A disk with fewer free bytes counts as full.
FULL_BYTES = 16 * 1024
QUERIES_OF_A_PIPELINE = 16
STATEMENTS_OF_A_FAILURE = 64


class ServerLog:
    """The log of a lab's server. Each line is read once and passed to all `readers`.

    The process named `writer` writes the file. It is the server itself, or a log collector or syslog daemon to which
    the server sends its lines. `send_mark` sends one line with a given text to the collector or daemon; it is None if
    the server writes the file.
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
        """Read the new lines of the log, until the entries of all answered statements have been read.

        A server writes or sends an entry before it answers the statement. A log collector or syslog daemon keeps the
        order of lines but may write them late. The method therefore sends one more line, the mark, and reads the file
        until the mark is in it.
        """
        if self._send_mark is None:
            self._read_lines()
        else:
            self._marks += 1
            mark = f"costof mark {self._marks}."
            self._send_mark(mark)
            # Stop waiting if the disk is full: the mark is then never written.
            found = lambda: mark in self._read_lines() or is_full(self.file.path)  # noqa: E731
            self._lab.wait_until(f"reading the log of {self._writer}", found, only=self._lab.processes[self._writer])
        self.file.shorten()

    def _read_lines(self) -> str:
        lines = self.file.new_lines()
        for reader in self.readers:
            reader(lines)
        return lines


class AuditLog:
    """Counts of an audit log's entries by class, such as 'read', and the entries' total bytes.

    The regular expression `entry` matches the line of an entry and captures one word in it, such as SELECT. `classes`
    maps this word to the entry's class. Lines with other words are ignored.
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
    """Return how many statements of each class the client sent in a slice (a measured window), such as {"read": 900}.

    The numbers are computed from the client's counts of operations. A load generator of `--client`, such as pgbench,
    counts operations of all kinds together; `of_program` then has the number of statements in one operation, such as
    {"read": 14, "write": 4}. Return None for a `kind` of workload whose operations have an unknown number of
    statements.
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
    audited: Collection[str], sent: Mapping[str, int], increases: Mapping[str, float], answer: SliceAnswer, log: LogFile
) -> str | None:
    """Return how the audit entries of a slice (a measured window) differ from the sent statements; None if they agree.

    Each statement of a class in `audited` must have one entry, and statements of other classes must have none. More
    entries are permitted in two cases: a failed operation may have sent statements that the client did not count, and a
    load generator of `--client`, such as pgbench, sends some statements outside its operations.
    """
    failed = STATEMENTS_OF_A_FAILURE * sum(error.count for error in answer.errors)
    uncounted = math.inf if REPORTED in answer.counts else failed
    for name in [key.removeprefix(OF_CLASS) for key in increases if key.startswith(OF_CLASS)]:
        entries = int(increases[f"{OF_CLASS}{name}"])
        statements = sent.get(name, 0) if name in audited else 0
        if not statements <= entries <= statements + (uncounted if name in audited else 0):
            cause = "; the disk of the log is full" if is_full(log.path) else ""
            counted = plural_formatted(f"{entries:,}", "entry", "entries")
            return f"the audit log got {counted} of class {name} for {plural(statements, 'audited statement')}{cause}"
    return None


def is_full(path: Path) -> bool:
    return shutil.disk_usage(path if path.exists() else path.parent).free < FULL_BYTES
