"""PostgreSQL servers for tests: one whose settings can be changed for a while, and one that is a costof user's own."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

from costof.lab.certificates import Authority
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.messages.plan import Transport
from costof.programs.postgres.lab import ACCESS, DATABASE, PORT, USER, PostgresServer
from costof.programs.server import Place
from tests.support.programs import eventually


class RunningServer(PostgresServer):
    """A PostgreSQL server whose certificate authority is known, and whose settings can be changed for a while."""

    @property
    def tls(self) -> Transport:
        return Transport(kind="tls").trusting(self.ca_file)

    @property
    def authority(self) -> Authority:
        return self.place.authority

    @property
    def ca_file(self) -> Path:
        return self.authority.ca_file

    def url(self, user: str, password: str | None = None, database: str = DATABASE) -> str:
        return f"postgresql://{user}:{password or self.password.get_secret_value()}@{self.address}:{PORT}/{database}"

    def places(self) -> set[str]:
        """Return the names of all databases, and of the schemas in the database of `url`."""
        databases = self.ask("SELECT datname FROM pg_database")
        return {name for (name,) in [*databases, *self.ask("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'")]}

    def settings(self) -> set[tuple[str, str]]:
        """Return all settings of the server, its databases and its roles, except settings of this session alone."""
        own = self.ask("SELECT name, setting FROM pg_settings WHERE source NOT IN ('client', 'session')")
        return {*own, *self.ask("SELECT 'of a role or database', setconfig::text FROM pg_db_role_setting")}

    @contextlib.contextmanager
    def changed(self, change: Callable[[], object], back: Callable[[], object]) -> Iterator[None]:
        change()
        self._reload()
        try:
            yield
        finally:
            back()
            self._reload()

    def admitting(self, access: str) -> contextlib.AbstractContextManager[None]:
        return self.changed(lambda: self.write_access_rules(access), lambda: self.write_access_rules(ACCESS))

    def without_tls(self) -> contextlib.AbstractContextManager[None]:
        return self.changed(lambda: self.ask("ALTER SYSTEM SET ssl = off"), lambda: self.ask("ALTER SYSTEM RESET ssl"))

    def of_connections(self, most: int) -> contextlib.AbstractContextManager[None]:
        role = f"ALTER ROLE {USER} CONNECTION LIMIT"
        return self.changed(lambda: self.ask(f"{role} {most}"), lambda: self.ask(f"{role} -1"))

    @contextlib.contextmanager
    def showing(self, certificate: datetime.timedelta) -> Iterator[None]:
        usual = self._certificates["ecdsa-p256"]
        names = [self.address]
        self._certificates["ecdsa-p256"] = self.place.authority.issue("other", "ecdsa-p256", names, certificate)
        self.show_key("ecdsa-p256")
        try:
            yield
        finally:
            self._certificates["ecdsa-p256"] = usual
            self.show_key("rsa-2048")

    def backends(self) -> list[int]:
        return [pid for pid, user in self.ask("SELECT pid, usename FROM pg_stat_activity") if user == USER]

    def _reload(self) -> None:
        """Reload the configuration and wait for the log's line about it. The next connection then uses it."""
        earlier = self._reloads()
        self.ask("SELECT pg_reload_conf()")
        eventually("a reload", lambda: self._reloads() > earlier)

    def _reloads(self) -> int:
        return self.log.file.path.read_text().count("received SIGHUP, reloading")


@contextlib.contextmanager
def a_server(lab: Lab, **configuration: str) -> Iterator[RunningServer]:
    host = Host("server", None, loopback=lab.address(1))
    authority = Authority(lab.folder / "certificates")
    chosen = RunningServer.configuration_type.model_validate(configuration)
    server = RunningServer(Place(lab, host, authority, ["rsa-2048", "ecdsa-p256"], lambda: lab.address(1), chosen))
    server.start()
    server.make_tables()
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def users_postgres(lab: Lab, **configuration: str) -> Iterator[RunningServer]:
    """Start a server as a costof user has it: with other data and three accounts, which share the server's password.

    'maker' may create databases, 'guest' may create schemas in the database, and 'reader' may do neither.
    `configuration` has fields of a lab's server, such as a standby.
    """
    with a_server(lab, **configuration) as server:
        password = server.password.get_secret_value()
        for name, may in (("maker", "CREATEDB"), ("guest", ""), ("reader", "")):
            server.ask(f"CREATE ROLE {name} LOGIN {may} PASSWORD '{password}'")
        server.ask(f"GRANT CREATE ON DATABASE {DATABASE} TO guest")
        server.ask("CREATE SCHEMA theirs CREATE TABLE data (id int)")
        yield server
