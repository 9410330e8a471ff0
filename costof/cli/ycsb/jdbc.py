"""YCSB's JDBC binding for MySQL and MariaDB: `db.url`, `db.user`, `db.passwd`, and a table that its user has made."""

from __future__ import annotations

import re
import ssl
from typing import Any
from urllib.parse import parse_qsl, unquote

import pymysql
from pydantic import SecretStr
from pymysql.constants import CR, ER
from pymysql.err import MySQLError

from costof.cli.ycsb.binding import REACH_SECONDS, Database
from costof.cli.ycsb.properties import Properties
from costof.errors import CostofError, Problem
from costof.ipc.plan import PLAIN, Endpoint, Transport, Verify
from costof.programs.mariadb.settings import MysqlSettings
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

SCHEMES = ("mysql", "mariadb")
PORT = 3306
EXAMPLE = "jdbc:mysql://host:3306/database"
NAME = re.compile(r"[A-Za-z0-9_$]{1,64}")
#: Connector/J's `sslMode`; what it leaves to chance ('PREFERRED') is plain, since a run must know what it measures.
VERIFY: dict[str, Verify] = {"required": "none", "trust": "none", "verify_ca": "ca-only", "verify-ca": "ca-only"}
VERIFY |= {"verify_identity": "full", "verify-full": "full"}
USED_OPTIONS = frozenset({"user", "password", "usessl", "requiressl", "verifyservercertificate", "sslmode"})


class MysqlDatabase(Database):
    PROPERTIES = frozenset({"db.url", "db.user", "db.passwd"})

    def __init__(self, properties: Properties, table: str) -> None:
        if "db.url" not in properties:
            raise CostofError(
                Problem.YCSB_NEEDS, what="the server's address", option="db.url=jdbc:mysql://host:3306/database"
            )
        parts = _split(properties["db.url"].strip().removeprefix("jdbc:"))
        self._host, self._port = _place(parts)
        self._database, self._table = unquote(parts.path.strip("/")), table
        for name, text in (("the database of db.url", self._database), ("table", table)):
            if not NAME.fullmatch(text):
                raise CostofError(Problem.YCSB_BAD_PROPERTY, name=name, allowed="a name of letters, digits, _ and $")
        self._options = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
        self._user = properties.get("db.user") or self._options.get("user") or parts.username or ""
        password = properties.get("db.passwd") or self._options.get("password")
        self._password = (SecretStr(password) if password else parts.password) or SecretStr("")
        told = login_shown(parts.username, parts.password is not None)
        self.shown = f"{parts.scheme}://{told}{host_shown(self._host, self._port)}/{self._database}"

    def endpoint(self) -> Endpoint:
        settings = MysqlSettings(
            addresses=[host_shown(self._host, self._port)],
            username=self._user or None,
            password=self._password or None,
            database=self._database,
            table=self._table,
        )
        return Endpoint(
            service=settings, transport=Transport(kind="tls", verify=self._verify) if self._verify else PLAIN
        )

    def holds_records(self, fields: int) -> bool:
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT 1 FROM `{self._table}` LIMIT 1")  # noqa: S608  # letters and digits, see NAME
                return cursor.fetchone() is not None
        except MySQLError as error:
            code = error.args[0] if error.args else None
            if code == ER.NO_SUCH_TABLE:
                columns = ", ".join(f"FIELD{number} TEXT" for number in range(fields))
                statement = f"CREATE TABLE {self._table} (YCSB_KEY VARCHAR(255) PRIMARY KEY, {columns})"
                raise CostofError(
                    Problem.YCSB_TABLE_MISSING, table=self._table, target=self.shown, statement=statement
                ) from None
            refused = code == ER.ACCESS_DENIED_ERROR
            problem = Problem.TARGET_REFUSES_LOGIN if refused else Problem.TARGET_FAILED
            if code == CR.CR_CONN_HOST_ERROR:
                problem = Problem.TARGET_UNREACHABLE
            raise CostofError(problem, target=self.shown, detail=str(error.args[-1])) from None

    def unused_options(self) -> list[str]:
        return [name for name in self._options if name not in USED_OPTIONS]

    @property
    def _verify(self) -> Verify | None:
        """What of the server's certificate is verified; None without TLS."""
        mode = self._options.get("sslmode", "").lower()
        asked = "true" in (self._options.get("usessl", "").lower(), self._options.get("requiressl", "").lower())
        chain = self._options.get("verifyservercertificate", "").lower() == "true"
        return VERIFY.get(mode) or (("ca-only" if chain else "none") if asked and not mode else None)

    def _connect(self) -> pymysql.Connection[Any]:
        secure: dict[str, Any] = {"ssl_disabled": True}
        if self._verify:
            # As the engine will: this log-in comes first.
            context = ssl.create_default_context()
            context.check_hostname = self._verify == "full"
            context.verify_mode = ssl.CERT_NONE if self._verify == "none" else ssl.CERT_REQUIRED
            secure = {"ssl": context}
        return pymysql.connect(
            host=self._host,
            port=self._port,
            user=self._user,
            password=self._password.get_secret_value().encode(),
            database=self._database,
            connect_timeout=REACH_SECONDS,
            **secure,
        )


def _split(url: str) -> UrlParts:
    try:
        return split_url(url, EXAMPLE)
    except UrlError as error:
        raise _bad(str(error)) from None


def _place(parts: UrlParts) -> tuple[str, int]:
    if parts.scheme not in SCHEMES:
        raise _bad(f"write it as {EXAMPLE}")
    try:
        return split_host(parts.hosts, PORT)
    except UrlError as error:
        raise _bad(str(error)) from None


def _bad(detail: str) -> CostofError:
    return CostofError(Problem.BAD_TARGET, study="ycsb", detail=detail)
