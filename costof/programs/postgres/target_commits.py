"""The commits of a run's sessions on a user's own PostgreSQL server: when they wait for a flush, and for a standby.

Each session of the run has its own `synchronous_commit`. No setting of the server is changed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import psycopg

from costof.messages.answers import SliceAnswer
from costof.programs.flushes import BACKGROUND_PER_SECOND, FLUSHES, LOG_BYTES, flush_mismatch
from costof.programs.postgres.connection import PostgresSession, error_text
from costof.programs.postgres.durability import COUNTED_FLUSHES

SETTING = "synchronous_commit"
#: The values with which a commit waits for a synchronous standby. Without a synchronous standby, they mean the same as
#: 'local'.
STANDBY_VALUES = frozenset({"remote_write", "on", "remote_apply"})
NO_STANDBY = "without a synchronous standby (synchronous_standby_names is empty) the server treats it as 'local'"
#: From version 15 on, the count of a session's flushes is exact as soon as the session has ended.
FIRST_EXACT_VERSION = 150_000
#: Values of `wal_sync_method` with which every write is also a flush, which the server does not count.
UNCOUNTED_METHODS = frozenset({"open_sync", "open_datasync"})
SHOWN = ("fsync", "wal_sync_method", SETTING, "synchronous_standby_names")
#: If the flushes of other sessions exceed this share of the run's own commits, the run reports them. Fewer flushes
#: hardly change the number of flushes per commit.
NOTABLE_SHARE = 0.05
END_SECONDS, POLL_SECONDS = 5.0, 0.005


def session_settings(target_settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the session settings of an arm (measured variant), such as {"synchronous_commit": "off"}."""
    return dict(target_settings.get("session", {}))


class TargetCommits:
    """The server's reports about the commits of all sessions with the same `application_name`."""

    def __init__(self, session: PostgresSession, application_name: str) -> None:
        self._session = session
        self._name = application_name
        #: Why the server's flushes cannot be counted; None if they can be counted.
        self.hidden: str | None = None
        #: The highest rate of flushes per second that other sessions caused. It is measured in slices (measured
        #: windows) in which the run's own commits wait for no flush.
        self.others_per_second = 0.0
        self._read_flushes = ""

    def find_counters(self) -> None:
        """Choose the query for the number of flushes, and test it. Set `hidden` if flushes cannot be counted."""
        ((version,),) = self._session.ask("SELECT current_setting('server_version_num')::int")
        ((method,),) = self._session.ask("SHOW wal_sync_method")
        self._read_flushes = COUNTED_FLUSHES[version >= 180_000]
        if version < FIRST_EXACT_VERSION:
            self.hidden = "before version 15, PostgreSQL counts flushes too late"
        elif method in UNCOUNTED_METHODS:
            self.hidden = f"with wal_sync_method={method}, PostgreSQL counts no flushes"
        else:
            try:
                self._session.try_to(self._read_flushes)
            except psycopg.Error as error:
                self.hidden = error_text(error)

    def readings(self) -> dict[str, float]:
        """Return the flushes of the log and the bytes written to it, by all sessions; {} if `hidden` is set."""
        if self.hidden is not None:
            return {}
        ((flushes,),) = self._session.ask(self._read_flushes)
        ((position,),) = self._session.ask("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return {FLUSHES: float(flushes), LOG_BYTES: float(position)}

    def wait_for_end(self) -> None:
        """Wait at most `END_SECONDS` until the server has ended (and counted) all sessions that clients have closed."""
        ends_at = time.monotonic() + END_SECONDS
        while time.monotonic() < ends_at:
            ((left,),) = self._session.ask(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", self._name
            )
            if not left:
                return
            time.sleep(POLL_SECONDS)

    def lacks(self, value: str) -> str | None:
        """Return why commits would not wait as this value of `synchronous_commit` requires; None if they would."""
        ((fsync, standbys),) = self._session.ask(
            "SELECT current_setting('fsync'), current_setting('synchronous_standby_names')"
        )
        if fsync == "off" and value != "off":
            return "the server flushes no commit (fsync is off)"
        return NO_STANDBY if value in STANDBY_VALUES and not standbys.strip() else None

    def settings(self) -> dict[str, str]:
        """Return the server's settings for commits. A session without settings of its own uses them."""
        return {name: str(self._session.ask(f"SHOW {name}")[0][0]) for name in SHOWN}

    def standbys(self) -> str:
        """Return text such as '1 synchronous of 2', or a text that the account may not see the standbys."""
        total, visible, synchronous = self._standbys()
        if total and not visible:
            return "not visible to this account; grant it pg_monitor to see them"
        return f"{synchronous} synchronous of {total}"

    def mismatch(self, settings: Mapping[str, str], increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return why the commits of a slice (a measured window) did not wait as `settings` require; None if they did.

        If there were too few flushes, commits did not wait. More flushes than needed prove nothing, because other
        sessions may flush the log too.
        """
        shown = answer.evidence.get("session_settings")
        expected = ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))
        if answer.operations and shown is not None and shown != expected:
            return f"the server had {shown} in the client's session instead of {expected}"
        value = settings[SETTING]
        if (reason := self.lacks(value)) is not None:
            return reason
        if value in STANDBY_VALUES:
            total, visible, synchronous = self._standbys()
            if not synchronous and (visible or not total):
                return "no synchronous standby was connected"
        if value != "off":
            return flush_mismatch(increases, answer, flushes_commits=True)
        flushes = increases.get(FLUSHES, 0.0)
        per_second = flushes / (answer.elapsed_ns / 1e9) if answer.elapsed_ns else 0.0
        if per_second > BACKGROUND_PER_SECOND and flushes > NOTABLE_SHARE * answer.operations:
            self.others_per_second = max(self.others_per_second, per_second)
        return None

    def _standbys(self) -> tuple[int, int, int]:
        """Return the numbers of connected standbys, of standbys with readable state, and of synchronous standbys."""
        synchronous = "count(*) FILTER (WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum'))"
        ((total, visible, in_step),) = self._session.ask(
            f"SELECT count(*), count(sync_state), {synchronous} FROM pg_stat_replication"  # noqa: S608
        )
        return int(total), int(visible), int(in_step)
