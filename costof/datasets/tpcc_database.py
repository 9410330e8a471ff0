"""TPC-C's tables during a run: creation, load, consistency checks (clause 3.3.2), and a reload when they grow large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costof.datasets import tpcc
from costof.errors import CostofError, ErrorText, WarningText

#: A function that executes a statement directly at the server, not through the encrypting proxy, and returns the rows.
RunStatement = Callable[[str], Sequence[tuple[Any, ...]]]
FACT = "consistency conditions"
ALL_HELD = "1 to 12 held after the load and after the run"
# With more orders than this, the tables are emptied and loaded again. This many orders fit into the server's memory,
# but a run of hours would create tens of millions of orders, each with about ten lines.
MAX_ORDERS = 500_000


class TpccDatabase:
    """TPC-C's tables in one database.

    Call `make` to create the tables and `fill` to load them. Call `renew` before each slice (measured window).
    """

    def __init__(
        self, run: RunStatement, database: str, where: str, run_optional: Callable[[str], object] | None = None
    ) -> None:
        """Store the arguments without executing a statement. `where` is the server's name in error messages.

        `run_optional` executes the statements that may fail, such as ANALYZE TABLE. The default is `run`.
        """
        self._run = run
        self._run_optional = run_optional or run
        self._database = database
        self._where = where
        self._load: Callable[[], None] = lambda: None
        self._violations: list[str] | None = None

    def make(self) -> None:
        for statement in tpcc.create_tables(self._database):
            self._run(statement)

    def fill(self, load: Callable[[], None]) -> None:
        """Load the data and check it. Raises `TPCC_UNSOUND` if a consistency condition does not hold."""
        self._load = load
        load()
        for statement in tpcc.after_load(self._database):
            self._run_optional(statement)
        if violations := self._check():
            raise CostofError(ErrorText.TPCC_UNSOUND, where=self._where, detail="; ".join(violations))

    def renew(self) -> None:
        """Empty and fill the tables again if there are more than `MAX_ORDERS` orders."""
        ((next_orders,),) = self._run(f"SELECT COALESCE(SUM(d_next_o_id), 0) FROM `{self._database}`.district")  # noqa: S608
        if int(next_orders) > MAX_ORDERS:
            for table in tpcc.TABLES:
                self._run(f"TRUNCATE TABLE `{self._database}`.{table}")
            self.fill(self._load)

    def facts(self) -> dict[str, str]:
        return {FACT: "; ".join(self._after_run()) or ALL_HELD}

    def warnings(self) -> list[str]:
        violations = self._after_run()
        return [WarningText.TPCC_UNSOUND.text(detail="; ".join(violations))] if violations else []

    def _after_run(self) -> list[str]:
        if self._violations is None:
            self._violations = self._check()
        return self._violations

    def _check(self) -> list[str]:
        return tpcc.violations(_Cursor(self._run, self._database))


class _Cursor:
    """A cursor that selects the database before each query, because a reconnect resets the selected database."""

    def __init__(self, run: RunStatement, database: str) -> None:
        self._run = run
        self._database = database
        self._rows: Sequence[tuple[Any, ...]] = ()

    def execute(self, query: str, /) -> None:
        self._run(f"USE `{self._database}`")
        self._rows = self._run(query)

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        return self._rows
