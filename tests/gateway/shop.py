"""A shop's tables in a MariaDB behind a gateway, for applications with ordinary drivers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from costof import encrypted
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, USER, MariadbServer
from tests.support.programs import check_of, running_mariadb
from tests.support.taps import Tap

KEY = "00112233445566778899aabbccddeeff"
SHOP, ANALYST, STRANGER, CATALOGUE = "shop", "analyst", "stranger", "catalogue"
NAMES = ("Abercrombie", "O'Brien-Secret", "Zaphod-the-Secret")

TABLES = """
CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(40) UNIQUE, price DECIMAL(12,2), city VARCHAR(40), visits INT);
CREATE TABLE other (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40));
CREATE TABLE numbers (id INT AUTO_INCREMENT PRIMARY KEY, price INT);
CREATE VIEW names AS SELECT id, name AS city FROM people
"""
RULES = f"""
unknown_clients = "ciphertext"
[master_keys]
app = "{KEY}"
[[accounts]]
name = "{USER}"
role = "plaintext"
[[accounts]]
name = "{SHOP}"
role = "ciphertext"
master_key = "app"
"""
#: The statements that the gateway accepts from accounts that may only send approved statements.
APPROVED = [
    "SELECT name, price, city, visits FROM people ORDER BY id",
    "SELECT * FROM people",
    "SELECT p.name AS n, o.name FROM people AS p JOIN other o ON o.id = p.id + 1",
    "SELECT name AS city FROM people WHERE id IN (SELECT id FROM other)",
    "SELECT city FROM (SELECT name AS city FROM people) AS other",
    "SELECT city FROM (SELECT name AS city FROM people LIMIT 9) AS people",
    "WITH other AS (SELECT name AS city FROM people) SELECT city FROM other",
    "SELECT name FROM other UNION ALL SELECT name FROM people",
    "SELECT (SELECT name FROM people LIMIT 1), city FROM other",
    "SELECT city FROM names AS other",
    "SELECT city FROM names AS people",
    "SELECT people.city FROM names AS people, people AS other WHERE people.id = other.id",
    "SELECT DISTINCT name AS city FROM people",
    "SELECT name AS city FROM people GROUP BY name ORDER BY MAX(id)",
    "SELECT SQL_BUFFER_RESULT name AS city FROM people",
    "SELECT p.name AS city FROM people AS p JOIN other AS people ON people.id = p.id ORDER BY people.city",
    "SELECT CONCAT(name, '!'), UPPER(name), MAX(name) FROM people",
    "SELECT id FROM people WHERE name = ?",
    "DELETE FROM people WHERE id < ? RETURNING name",
    "SELECT city FROM other",
    "SELECT city FROM people",
    "SELECT name FROM people",
    "SELECT name FROM people ORDER BY id",
    "SELECT name FROM people WHERE id = ?",
    "SELECT name, city FROM people WHERE id = ?",
    "SELECT name, visits, city FROM people WHERE id >= ? ORDER BY id",
    "UPDATE people SET visits = visits + ? WHERE id = ?",
    "INSERT INTO people (id, name) VALUES (?, ?)",
    "INSERT INTO numbers (price) VALUES (?)",
]


def approval(text: str, **more: object) -> str:
    """Return the entry of an approved statement for the rules file. `more` has further keys, such as `outputs`."""
    # JSON and TOML write strings and lists in the same way.
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"text": text, **more}.items()]
    return "\n".join(["", "[[statements]]", *lines, ""])


def column(table: str, name: str, algorithm: str | None = None) -> str:
    chosen = f'algorithm = "{algorithm}"\n' if algorithm else ""
    return f'[[columns]]\ndatabase = "{DATABASE}"\ntable = "{table}"\ncolumn = "{name}"\n{chosen}'


PEOPLE = column("people", "name") + column("people", "price", "sm4-cbc")


@dataclass
class Shop:
    server: MariadbServer
    process: GatewayProcess
    rules_file: Path
    address: str

    def login(self, user: str = SHOP, port: int | None = None) -> dict[str, Any]:
        host, own = self.address.split(":")
        login = {
            "host": host,
            "port": port or int(own),
            "user": user,
            "password": self.server.password.get_secret_value(),
        }
        return {**login, "database": DATABASE, "autocommit": True, "ssl_disabled": True, "read_timeout": 300}

    def connect(self, user: str = SHOP, port: int | None = None, **settings: Any) -> pymysql.Connection:
        """Connect an account to the gateway with an ordinary driver, which does not decrypt."""
        return pymysql.connect(**{**self.login(user, port), **settings})

    def decrypting(self, user: str = SHOP, **settings: Any) -> encrypted.Connection:
        return encrypted.connect(master_keys={"app": KEY}, **{**self.login(user), **settings})

    def write(self, rules: str) -> None:
        write_rules(self.rules_file, rules, self.server)

    def reload(self, rules: str) -> str | None:
        self.write(rules)
        return self.process.reload()[self.address]

    def counters(self) -> Any:
        return self.process.counters().listeners[self.address]


def write_rules(rules_file: Path, rules: str, server: MariadbServer) -> None:
    """Write rules to the file. If the section [check] or approved statements are missing, add the usual entries."""
    check = "" if "[check]" in rules else check_of(CATALOGUE, server.password.get_secret_value())
    statements = "" if "[[statements]]" in rules else "".join(map(approval, APPROVED))
    write_private(rules_file, (rules + check + statements).encode())


@contextlib.contextmanager
def shop_server(lab: Lab) -> Iterator[MariadbServer]:
    with running_mariadb(lab) as server:
        for user in (SHOP, ANALYST, STRANGER, CATALOGUE):
            server._query(f"CREATE USER {user} IDENTIFIED BY %s", server.password.get_secret_value())
            server._query(f"GRANT ALL ON {DATABASE}.* TO {user}")
        server._query(f"USE {DATABASE}")
        for statement in TABLES.split(";"):
            server._query(statement)
        for place, name in enumerate(NAMES):
            city = f"city-{place}"
            server._query("INSERT INTO people VALUES (%s, %s, %s, %s, %s)", place, name, f"{place}.25", city, place)
        server._query("INSERT INTO other VALUES (1, 'plain-one', 'here'), (2, 'plain-two', 'there')")
        yield server


@contextlib.contextmanager
def gateway_before(
    lab: Lab, server: MariadbServer, name: str, rules: str = RULES + PEOPLE, **more: Any
) -> Iterator[Shop]:
    """Start another gateway with these rules in front of the server, and stop it at the end."""
    rules_file = lab.folder / f"{name}.toml"
    write_rules(rules_file, rules, server)
    with GatewayProcess() as process:
        listener = GatewayListener(
            address="127.0.0.1:0", rules_file=rules_file, server=f"{server.address}:{server.port}", **more
        )
        ready = process.begin([listener])
        assert ready.warnings == []
        yield Shop(server, process, rules_file, ready.listeners[0])


def rows(connection: Any, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def refusal(connection: Any, statement: str) -> tuple[int, str]:
    with pytest.raises(pymysql.MySQLError) as raised, connection.cursor() as cursor:
        cursor.execute(statement)
    return raised.value.args


def attacks() -> list[bytes]:
    path = Path(__file__).parents[1] / "vectors" / "gateway-attacks.txt"
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return [line.encode().decode("unicode_escape").encode("latin1") for line in lines]


def shows(data: bytes) -> bool:
    return any(word in data for word in (b"Abercrombie", b"Secret"))


@contextlib.contextmanager
def tapped(shop: Shop) -> Iterator[tuple[Callable[..., pymysql.Connection], Tap]]:
    with Tap(shop.address) as tap:
        yield (lambda user=SHOP, **settings: shop.connect(user, tap.port, **settings)), tap
