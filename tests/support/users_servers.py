"""Servers of costof's users, all with the same interface.

Tests use the interface to see what a server contains, and to put data of other users where a run writes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.messages.plan import Workload
from costof.programs.access import Access
from costof.programs.mariadb.target import SysbenchTarget
from costof.programs.postgres.lab import DATABASE
from costof.programs.redis.connection import RUNS
from costof.programs.redis.lab import PORT, TLS_PORT, USER
from costof.programs.redis.target import StringsTarget
from costof.programs.target_database import MARKER, MARKER_NAME
from costof.run.instruments import LOAD
from costof.services import Service
from costof.services.open import open_service
from costof.study.plan import Plan
from tests.support.engines import WORKLOADS
from tests.support.mongodb import PASSWORD, start_standalone
from tests.support.postgres import users_postgres
from tests.support.programs import ADMIN, databases, url_of, users_mariadb
from tests.support.redis import users_redis
from tests.support.small_plans import plan_of

#: The database, schema or prefix of keys of a run, as if given with `--database`.
CHOSEN = "costof_mine"
#: The name of an account that lacks a privilege, and the name of a table or key of another user.
LIMITED, THEIRS = "limited", "theirs"
#: Statements that damage the marker by which costof recognizes a run's own database: name another run in it, delete it,
#: or drop its table.
SPOILED = {"changed": "UPDATE {} SET run = 'another'", "removed": "DELETE FROM {}", "lost": "DROP TABLE {}"}


class UsersServer:
    """A server with another user's data, and an account with all privileges that a run needs.

    A place is what a run creates on the server: a database, a schema, or keys with a common prefix. A marker in it says
    which run created it. Each server has:

    - `url(user, password)`: the URL; by default with that account;
    - `places()` and `contents(place)`: the names of places, and of tables or keys in a place;
    - `put(place)`: put `THEIRS` into the place, which is created if it does not exist;
    - `forge(place)`: create a place with a damaged marker;
    - `spoil(place, how)`: damage the marker of a place, in one of the ways in `SPOILED`;
    - `drop(place)`: remove a place;
    - `limited(lacking)`: yield the URL of an account that lacks one of `privileges` for the place `CHOSEN`;
    - `grant(message)`: execute the grant that costof recommends in an error message.
    """

    study: ClassVar[str]
    scheme: ClassVar[str]
    records: ClassVar[int] = 200
    #: The engine's workloads in a small run. The last workload other than `load` reads or writes the run's records.
    workloads: ClassVar[tuple[Workload, ...]] = WORKLOADS
    #: `writes` has the verb in each line of a dry run that announces a write, `needs` the privileges that the dry run
    #: names for the place `CHOSEN`.
    writes: ClassVar[list[str]] = ["create", "insert", "insert", "drop"]
    needs: ClassVar[str]
    privileges: ClassVar[tuple[str, ...]]
    #: Whether the error about missing privileges mentions --database for an account with privileges on only one place.
    grants_one_place: ClassVar[bool] = False
    SYSTEM: ClassVar[set[str]] = set()
    server: Any
    ca_file: Path
    password: str

    def state(self) -> set[str]:
        """Return the names of all places (databases, schemas or prefixes of keys) and of the tables or keys in them."""
        places = self.places() - self.SYSTEM
        return places | {f"{place}.{thing}" for place in places for thing in self.contents(place)}

    def occupy(self, place: str) -> None:
        """Put data of another user where a run would write. The run must not change them."""
        self.put(place)

    def access(self, url: str | None = None, database: str | None = None) -> Access:
        return Access(url or self.url(), self.ca_file, allow_plain=True, database=database)

    @property
    def settings(self) -> list[str]:
        """The levels, and the number of records, of a small run."""
        return [f"records={self.records}", "transport=plain,tls"]

    @property
    def inserted(self) -> str:
        """A regular expression for the lines of a dry run about the run's data."""
        return rf"\b{self.records:,} (records|strings) of"

    @property
    def measured(self) -> list[str]:
        return [each.name for each in self.workloads if each.name != LOAD]

    def plan(self) -> Plan:
        return plan_of(self.study, "quick", *self.settings, target=f"{self.scheme}://shown")

    def open(self, access: Access | None = None) -> Service:
        return open_service(self.plan(), access or self.access(), "20261123-101112-study")

    def place_of(self, service: Service) -> str:
        return str(service.server.database)


class SqlServer(UsersServer):
    """A server with SQL. `ask_in(place, statement)` executes a statement in the database or schema `place`."""

    def contents(self, place: str) -> set[str]:
        tables = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{place}'"  # noqa: S608
        return {name for (name,) in self.ask_in(place, tables)}

    def make_empty(self, place: str) -> None:
        self.ask_in(place, f"CREATE SCHEMA {place}")

    def put(self, place: str) -> None:
        if place not in self.places():
            self.make_empty(place)
        self.ask_in(place, f"CREATE SCHEMA IF NOT EXISTS {place}")
        self.ask_in(place, f"CREATE TABLE {place}.{THEIRS} (id INT)")

    def forge(self, place: str) -> None:
        self.put(place)
        marker = f"'{MARKER}' AS id, 'theirs' AS run, '{{}}' AS about"
        self.ask_in(place, f"CREATE TABLE {place}.{MARKER_NAME} AS SELECT {marker}")

    def spoil(self, place: str, how: str) -> None:
        self.ask_in(place, SPOILED[how].format(f"{place}.{MARKER_NAME}"))


class Mariadb(SqlServer):
    study, scheme = "mysql-transport", "mysql"
    privileges = SysbenchTarget.PRIVILEGES
    needs = f"GRANT {', '.join(privileges)} ON `costof\\_mine`.* TO '{ADMIN}'@'%';"
    grants_one_place = True
    SYSTEM: ClassVar[set[str]] = {"mysql", "sys", "information_schema", "performance_schema"}

    def __init__(self, stack: contextlib.ExitStack, lab: Lab) -> None:
        self.server = stack.enter_context(users_mariadb(lab))
        self.ca_file, self.password = self.server.ca_file, self.server.password.get_secret_value()

    def url(self, user: str = ADMIN, password: str | None = None) -> str:
        return url_of(self.server, user, password)

    def places(self) -> set[str]:
        return databases(self.server)

    def ask_in(self, place: str, statement: str) -> Any:
        return self.server.ask(statement)

    def drop(self, place: str) -> None:
        self.server.ask(f"DROP DATABASE {place}")

    @contextlib.contextmanager
    def limited(self, lacking: str) -> Iterator[str]:
        rest = ", ".join(name for name in self.privileges if name != lacking)
        self.server.ask(f"CREATE USER {LIMITED} IDENTIFIED BY '{self.password}'")
        self.server.ask(f"GRANT {rest} ON `costof\\_mine`.* TO {LIMITED}")
        yield self.url(LIMITED)
        self.server.ask(f"DROP USER {LIMITED}")

    def grant(self, message: str) -> None:
        (grant,) = re.findall(r"GRANT .*;", message)
        self.server.ask(grant)


class Postgres(SqlServer):
    """A PostgreSQL server whose account may create databases, so a run gets its own database."""

    study, scheme, user = "postgres-tls", "postgresql", "maker"
    privileges = ("create a database or a schema",)
    needs = f'CREATEDB; or GRANT CREATE ON DATABASE "{DATABASE}" TO "'
    granting = r'ALTER ROLE "reader" CREATEDB;'
    SYSTEM: ClassVar[set[str]] = {"template0", "template1", "postgres", "public", "information_schema"}

    def __init__(self, stack: contextlib.ExitStack, lab: Lab) -> None:
        self.server = stack.enter_context(users_postgres(lab))
        self.ca_file, self.password = self.server.ca_file, self.server.password.get_secret_value()

    def url(self, user: str = "", password: str | None = None) -> str:
        return self.server.url(user or self.user, password)

    def places(self) -> set[str]:
        return self.server.places()

    def ask_in(self, place: str, statement: str) -> Any:
        """Execute a statement in the database or schema `place`, as its owner."""
        is_database = self.server.ask(f"SELECT 1 FROM pg_database WHERE datname = '{place}'")  # noqa: S608
        url = self.server.url(self.user, database=place if is_database else DATABASE)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def make_empty(self, place: str) -> None:
        self.server.ask(f"CREATE DATABASE {place} OWNER {self.user} TEMPLATE template0")

    def drop(self, place: str) -> None:
        self.server.ask(f"DROP DATABASE {place} WITH (FORCE)")

    @contextlib.contextmanager
    def limited(self, lacking: str) -> Iterator[str]:
        yield self.url("reader")
        self.server.ask("ALTER ROLE reader NOCREATEDB")
        self.server.ask(f"REVOKE CREATE ON DATABASE {DATABASE} FROM reader")

    def grant(self, message: str) -> None:
        (grant,) = re.findall(self.granting, message)
        self.server.ask(grant)


class PostgresSchema(Postgres):
    """A PostgreSQL server whose account may not create databases. A run gets a schema in the database of the URL."""

    user = "guest"
    granting = rf'GRANT CREATE ON DATABASE "{DATABASE}" TO "reader";'
    make_empty = SqlServer.make_empty

    def drop(self, place: str) -> None:
        self.server.ask(f"DROP SCHEMA {place} CASCADE")


class PostgresCommits(Postgres):
    """A PostgreSQL server for a study of commits, whose arms insert rows and differ in a setting of the session."""

    study = "postgres-durability"
    workloads = (Workload(name="commit", kind="ycsb", workers=2, ycsb={"phase": "load", "field_length": 10}),)

    @property
    def settings(self) -> list[str]:
        return ["commit=off,local", "clients=1"]

    @property
    def inserted(self) -> str:
        return r"insert rows into .* at most [\d,]+ in all"


class Mongodb(UsersServer):
    study, scheme, password = "mongodb-tls", "mongodb", PASSWORD
    privileges = ("insert, update, remove, createCollection, dropCollection",)
    needs = '.grantRolesToUser("tester", [{"role": "readWrite", "db": "costof_mine"}])'
    grants_one_place = True
    SYSTEM: ClassVar[set[str]] = {"admin", "config", "local"}

    def __init__(self, stack: contextlib.ExitStack, lab: Lab) -> None:
        self.server = start_standalone(lab, Authority(lab.folder / "certificates"), 1)
        self.ca_file = self.server.ca_file
        self.client = stack.enter_context(self.server.client())
        self.put("somebodys")

    def url(self, user: str = "tester", password: str = PASSWORD) -> str:
        return f"mongodb://{user}:{password}@{self.server.address}/?authSource=admin"

    def places(self) -> set[str]:
        return set(self.client.list_database_names())

    def contents(self, place: str) -> set[str]:
        return set(self.client[place].list_collection_names())

    def put(self, place: str) -> None:
        self.client[place][THEIRS].insert_one({})

    def forge(self, place: str) -> None:
        self.client[place][MARKER_NAME].insert_one({"_id": MARKER, "run": "theirs"})

    def spoil(self, place: str, how: str) -> None:
        markers, marker = self.client[place][MARKER_NAME], {"_id": MARKER}
        if how == "lost":
            markers.drop()
        elif how == "removed":
            markers.delete_one(marker)
        else:
            markers.update_one(marker, {"$set": {"run": "another"}})

    def drop(self, place: str) -> None:
        self.client.drop_database(place)

    @contextlib.contextmanager
    def limited(self, lacking: str) -> Iterator[str]:
        self.client.admin.command("createUser", LIMITED, pwd=PASSWORD, roles=[{"role": "read", "db": CHOSEN}])
        yield self.url(LIMITED)
        self.client.admin.command("dropUser", LIMITED)

    def grant(self, message: str) -> None:
        ((user, role, database),) = re.findall(r'User\("([^"]*)", \[\{"role": "(\w+)", "db": "(\w+)"', message)
        self.client.admin.command("grantRolesToUser", user, roles=[{"role": role, "db": database}])


class Redis(UsersServer):
    study, scheme = "redis-tls", "rediss"
    #: So many records that costof needs several commands to delete them.
    records = 1200
    writes: ClassVar[list[str]] = ["write", "write", "remove"]
    privileges = ("GET", "HDEL")
    needs = f"ACL SETUSER {USER} ~costof:* +ping +get"

    def __init__(self, stack: contextlib.ExitStack, lab: Lab) -> None:
        self.server = stack.enter_context(users_redis(lab))
        self.ca_file, self.password = self.server.ca_file, self.server.password.get_secret_value()
        self.server.ask("SET", THEIRS, "1")

    def url(self, user: str = USER, password: str | None = None) -> str:
        login = f"{user}:{password or self.password}"
        return f"rediss://{login}@{self.server.address}:{TLS_PORT}/?plain_port={PORT}"

    def state(self) -> set[str]:
        return super().state() | self.server.all_keys()

    def places(self) -> set[str]:
        return self.server.places()

    def contents(self, place: str) -> set[str]:
        prefix = f"costof:{place}:"
        return {key.removeprefix(prefix) for key in self.server.all_keys() if key.startswith(prefix)}

    def put(self, place: str) -> None:
        self.server.ask("SET", f"costof:{place}:{THEIRS}", "1")

    def occupy(self, place: str) -> None:
        self.server.ask("SET", f"costof:{place}:key:{self.records - 1:012}", "1")

    def forge(self, place: str) -> None:
        self.server.ask("HSET", RUNS, place, "theirs")

    def spoil(self, place: str, how: str) -> None:
        spoiled = {"changed": ("HSET", RUNS, place, "another"), "removed": ("HDEL", RUNS, place), "lost": ("DEL", RUNS)}
        self.server.ask(*spoiled[how])

    def drop(self, place: str) -> None:
        self.server.ask("DEL", "costof:nothing", *(f"costof:{place}:{name}" for name in self.contents(place)))
        self.server.ask("HDEL", RUNS, place, f"{place}:alive")

    @contextlib.contextmanager
    def limited(self, lacking: str) -> Iterator[str]:
        url = self.url(LIMITED)
        (needed,) = StringsTarget(Access(url), self.study, "run", 1).needs()
        rules = [rule for rule in needed.split()[3:] if rule != f"+{lacking.lower()}"]
        self.server.ask("ACL SETUSER", LIMITED, "on", f">{self.password}", *rules)
        yield url
        self.server.ask("ACL DELUSER", LIMITED)

    def grant(self, message: str) -> None:
        ((user, rules),) = re.findall(r"ACL SETUSER (\S+)((?: [~+][\w:*|]+)+)", message)
        self.server.ask("ACL SETUSER", user, *rules.split())


USERS_SERVERS: dict[str, type[Any]] = {
    "mariadb": Mariadb,
    "postgres-database": Postgres,
    "postgres-schema": PostgresSchema,
    "postgres-commits": PostgresCommits,
    "mongodb": Mongodb,
    "redis": Redis,
}
