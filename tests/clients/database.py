"""Run the statements of `facts` over a connection of Python's database API (PEP 249) with `%s` for parameters."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from tests.clients.facts import NOTE, SALARY, name_of, shown

SUMMARY = (
    "SELECT c.name, COUNT(*), SUM(v.price), MAX(v.at) FROM cities c JOIN visits v ON v.city_id = c.id "
    "WHERE c.id = %s GROUP BY c.name HAVING COUNT(*) > 1"
)


def round_trip(connection: Any, owner: str, **cursor_settings: Any) -> list[str]:
    """Return the lines that `facts.check` expects. `cursor_settings` are the arguments of `connection.cursor`."""
    return _Trip(connection, owner, cursor_settings).lines


class _Trip:
    def __init__(self, connection: Any, owner: str, cursor_settings: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self._connection = connection
        self._owner = owner
        # Each statement needs its own cursor, because a cursor for prepared statements is tied to its first statement.
        self._cursor = lambda: connection.cursor(**cursor_settings)
        connection.ping()
        self._columns()
        self._cities()
        self._people()
        self._leave()

    def _run(self, statement: str, *values: Any) -> Any:
        cursor = self._cursor()
        cursor.execute(statement, values)
        return cursor

    def _ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self._run(statement, *values)
        rows = [tuple(row) for row in cursor.fetchall()]
        cursor.close()
        return rows

    def _tell(self, subject: str, *values: Any) -> None:
        self.lines.append(f"{subject}: {', '.join(map(shown, values))}")

    def _columns(self) -> None:
        # Send SHOW COLUMNS as text, as applications do. `_ask` would prepare it, which not every server can do.
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW COLUMNS FROM cities")
            self._tell("columns", *(row[0] for row in cursor.fetchall()))

    def _cities(self) -> None:
        city = self._run("INSERT INTO cities (name, residents) VALUES (%s, %s)", self._owner, 3).lastrowid
        visits = [
            (city, datetime(2026, 1, 2, 3, 4, 5), None, Decimal("1.50")),
            (city, datetime(2026, 1, 3), NOTE, Decimal("2.25")),
        ]
        self._cursor().executemany("INSERT INTO visits (city_id, at, note, price) VALUES (%s, %s, %s, %s)", visits)
        self._connection.commit()
        for row in self._ask("SELECT at, note, price FROM visits WHERE city_id = %s ORDER BY at LIMIT 9", city):
            self._tell("visit", *row)
        self._tell("summary", *self._ask(SUMMARY, city)[0])
        self._tell("updated", self._run("UPDATE cities SET residents = residents + %s WHERE id = %s", 1, city).rowcount)
        self._connection.commit()
        self._run("UPDATE cities SET residents = 99 WHERE id = %s", city)
        self._connection.rollback()
        self._tell("residents", *self._ask("SELECT residents FROM cities WHERE id = %s", city)[0])

    def _people(self) -> None:
        insert = "INSERT INTO people (name, salary, city) VALUES (%s, %s, %s)"
        person = self._run(insert, name_of(self._owner), SALARY - 1, self._owner).lastrowid
        self._run("UPDATE people SET salary = %s WHERE id = %s", SALARY, person)
        self._tell("person", *self._ask("SELECT name, salary, city FROM people WHERE id = %s", person)[0])
        self._tell("found", *self._ask("SELECT COUNT(*) FROM people WHERE name = %s", name_of(self._owner))[0])

    def _leave(self) -> None:
        self._run("DELETE FROM people WHERE city = %s", self._owner)
        self._run("DELETE FROM visits WHERE city_id IN (SELECT id FROM cities WHERE name = %s)", self._owner)
        self._run("DELETE FROM cities WHERE name = %s", self._owner)
        self._connection.commit()
        self._tell("left", *self._ask("SELECT COUNT(*) FROM cities WHERE name = %s", self._owner)[0])
