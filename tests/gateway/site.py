"""A MariaDB with the corpus' tables, and gateways before it, for tests that attack."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.messages.plan import TlsFiles, Transport
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.server import USER, MariadbServer
from tests.gateway.corpus import NAMES, SALARIES
from tests.support.programs import check_of
from tests.support.raw_mysql import Client

SHOP, CATALOGUE = "shop", "catalogue"

# `f` and `numbers` are there to be misused; a badge's columns have names that servers find in ways of their own.
SCHEMA = """
CREATE DATABASE d; CREATE DATABASE other; USE d;
CREATE TABLE people (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(64), salary INT, city VARCHAR(64),
  initial CHAR(1) AS (LEFT(name, 1)), KEY name_idx (name));
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, person_name VARCHAR(64),
  FOREIGN KEY (person_name) REFERENCES people (name) ON DELETE CASCADE);
CREATE TABLE guesses (word VARCHAR(64));
CREATE TABLE notes (id INT, t VARCHAR(255));
CREATE TABLE badges (number INT PRIMARY KEY, city VARCHAR(64), `prénom` VARCHAR(64), secret VARCHAR(64) INVISIBLE);
CREATE VIEW names_v AS SELECT name AS x FROM people;
CREATE SEQUENCE numbers;
CREATE FUNCTION f(word TEXT) RETURNS TEXT DETERMINISTIC RETURN CONCAT(word, '!');
CREATE PROCEDURE p() SELECT CONCAT(name) FROM people;
CREATE TABLE other.people (id INT, town VARCHAR(64))
"""
EMPTY = ("orders", "people", "guesses", "notes", "badges")

ACCOUNTS = f"""
unknown_clients = "ciphertext"
[[accounts]]
name = "{USER}"
role = "plaintext"
[[accounts]]
name = "{SHOP}"
role = "opaque"
"""
PROTECTED = ("people", "name"), ("people", "salary"), ("badges", "number"), ("badges", "prénom"), ("badges", "secret")
COLUMNS = "".join(f'[[columns]]\ndatabase = "d"\ntable = "{table}"\ncolumn = "{name}"\n' for table, name in PROTECTED)


def rules(password: str, settings: str = "", accounts: str = ACCOUNTS, columns: str = COLUMNS) -> str:
    return settings + accounts + columns + check_of(CATALOGUE, password)


@dataclass
class Site:
    server: MariadbServer
    process: GatewayProcess
    tls: ssl.SSLContext
    # By settings' name, and whether under TLS.
    addresses: dict[tuple[str, bool], str] = field(default_factory=dict)

    def client(self, settings: str = "", user: str | bytes = SHOP, *, secured: bool = False, **more: Any) -> Client:
        name = user.encode() if isinstance(user, str) else user
        tls = self.tls if secured else None
        more = {"database": b"d", **more}
        return Client(self.addresses[settings, secured], name, self.server.password.get_secret_value(), tls=tls, **more)

    def direct(self, user: str = SHOP, **more: Any) -> Client:
        """Past the gateway."""
        return Client(
            f"{self.server.address}:{self.server.port}",
            user.encode(),
            self.server.password.get_secret_value(),
            b"d",
            **more,
        )

    def fill(self) -> None:
        """The data as it is at the start."""
        ask = self.server.ask
        ask("SET SESSION foreign_key_checks = 0")
        for table in EMPTY:
            ask(f"TRUNCATE d.{table}")
        for place, (name, salary) in enumerate(zip(NAMES, SALARIES, strict=True), 1):
            ask(
                "INSERT INTO d.people (id, name, salary, city) "
                f"VALUES ({place}, '{name.decode()}', {salary}, 'city-{place}')"
            )
        ask(f"INSERT INTO d.orders VALUES (1, '{NAMES[0].decode()}'), (2, '{NAMES[1].decode()}')")
        ask("INSERT INTO d.guesses VALUES ('guess'), ('x')")
        ask("INSERT INTO d.notes VALUES (1, 'a note'), (2, 'another')")
        ask(
            "INSERT INTO d.badges (number, city, `prénom`, secret) "
            f"VALUES ({SALARIES[0]}, 'city-1', '{NAMES[0].decode()}', '{NAMES[1].decode()}')"
        )
        ask("INSERT INTO other.people VALUES (1, 'town')")


def make_database(server: MariadbServer) -> None:
    for statement in SCHEMA.split(";"):
        server.ask(statement)
    password = server.password.get_secret_value()
    for user in (SHOP, CATALOGUE):
        server.ask(f"CREATE USER {user} IDENTIFIED VIA mysql_native_password USING PASSWORD('{password}')")
    # All that a server can give: no refusal below may be for want of a privilege.
    server.ask(f"GRANT ALL ON *.* TO {SHOP}")
    server.ask(f"GRANT ALL ON *.* TO {USER}")
    server.ask(f"GRANT SELECT, SHOW VIEW ON *.* TO {CATALOGUE}")


def listeners(
    lab: Lab, server: MariadbServer, texts: dict[str, str], certificate: Path
) -> dict[tuple[str, bool], GatewayListener]:
    """A plain and a TLS listener for each of the rules."""
    upstream = Transport(kind="tls", ca_file=server.ca_file)
    endpoint = f"{server.address}:{server.port}"
    made = {}
    for name, text in texts.items():
        rules_file = lab.folder / f"rules-{name or 'default'}.toml"
        write_private(rules_file, text.encode())
        made[name, False] = GatewayListener(address="127.0.0.1:0", rules_file=rules_file, server=endpoint)
        made[name, True] = GatewayListener(
            address="127.0.0.1:0",
            rules_file=rules_file,
            server=endpoint,
            tls=TlsFiles.of(certificate),
            server_transport=upstream,
        )
    return made


def begin(
    process: GatewayProcess,
    lab: Lab,
    server: MariadbServer,
    settings: Sequence[tuple[str, str]],
    columns: str = COLUMNS,
) -> Site:
    """`settings`: of the rules, by a name of the test's own; `columns`: what they protect."""
    texts = {name: rules(server.password.get_secret_value(), lines, columns=columns) for name, lines in settings}
    certificate = server._authority.issue("gateway", "ecdsa-p256", ["127.0.0.1"])
    made = listeners(lab, server, texts, certificate)
    ready = process.begin(list(made.values()))
    context = ssl.create_default_context(cafile=str(server.ca_file))
    site = Site(server, process, context, dict(zip(made, ready.listeners, strict=True)))
    site.fill()
    return site
