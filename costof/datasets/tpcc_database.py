"""TPC-C's tables in a database until the end of a run: made, filled, found sound (clause 3.3.2), kept small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costof.datasets import tpcc
from costof.errors import CostofError, ErrorText, WarningText

#: Asks the server itself, past whatever stands before it.
Ask = Callable[[str], Sequence[tuple[Any, ...]]]
FACT = "consistency conditions"
ALL_HELD = "1 to 12 held after the load and after the run"
# Ten lines an order: tables of this many stay in the memory of a lab's server, and on the disk of anybody's. A run of
# hours would make tens of millions of them.
MOST_ORDERS = 500_000


class TpccDatabase:
    """`where` names the server. `make` the tables, `fill` them, and before a slice `renew` them if they have grown."""

    def __init__(
        self, ask: Ask, database: str, where: str, try_statement: Callable[[str], object] | None = None
    ) -> None:
        """`try_statement`: for statements that a server may refuse."""
        self._ask = ask
        self._ask_if_it_may = try_statement or ask
        self._database = database
        self._where = where
        self._load: Callable[[], None] = lambda: None
        self._violations: list[str] | None = None

    def make(self) -> None:
        for statement in tpcc.create_tables(self._database):
            self._ask(statement)

    def fill(self, load: Callable[[], None]) -> None:
        """Load the data and check it. Raises `TPCC_UNSOUND` where a run would measure something else than TPC-C."""
        self._load = load
        load()
        for statement in tpcc.after_load(self._database):
            self._ask_if_it_may(statement)
        if found := self._check():
            raise CostofError(ErrorText.TPCC_UNSOUND, where=self._where, detail="; ".join(found))

    def renew(self) -> None:
        """Empty the tables and fill them again, if New-Orders have made them large."""
        ((next_orders,),) = self._ask(f"SELECT COALESCE(SUM(d_next_o_id), 0) FROM `{self._database}`.district")  # noqa: S608
        if int(next_orders) > MOST_ORDERS:
            for table in tpcc.TABLES:
                self._ask(f"TRUNCATE TABLE `{self._database}`.{table}")
            self.fill(self._load)

    def facts(self) -> dict[str, str]:
        return {FACT: "; ".join(self._after_run()) or ALL_HELD}

    def warnings(self) -> list[str]:
        found = self._after_run()
        return [WarningText.TPCC_UNSOUND.text(detail="; ".join(found))] if found else []

    def _after_run(self) -> list[str]:
        if self._violations is None:
            self._violations = self._check()
        return self._violations

    def _check(self) -> list[str]:
        return tpcc.violations(_Cursor(self._ask, self._database))


class _Cursor:
    """Asks by a connection that may be another one each time, so each question names the database."""

    def __init__(self, ask: Ask, database: str) -> None:
        self._ask = ask
        self._database = database
        self._rows: Sequence[tuple[Any, ...]] = ()

    def execute(self, query: str, /) -> None:
        self._ask(f"USE `{self._database}`")
        self._rows = self._ask(query)

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        return self._rows
