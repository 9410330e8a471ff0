"""YCSB's JDBC binding for MySQL and MariaDB, with Connector/J's options."""

from __future__ import annotations

import ssl
from typing import Any

import pymysql
from pymysql.constants import CR, ER
from pymysql.err import MySQLError

from costof.cli.ycsb.databases import JdbcDatabase, columns
from costof.errors import CostofError, ErrorText
from costof.messages.plan import PLAIN, Endpoint, Transport, Verify
from costof.programs.mariadb.connection import MysqlSettings, connect

#: Maps Connector/J's `sslMode` to how the server's certificate is verified. 'PREFERRED' is missing, so it means
#: plaintext here. With Connector/J, the server would decide whether 'PREFERRED' uses TLS.
VERIFY: dict[str, Verify] = {"required": "none", "trust": "none", "verify_ca": "ca-only", "verify-ca": "ca-only"}
VERIFY |= {"verify_identity": "full", "verify-full": "full"}


class MysqlDatabase(JdbcDatabase):
    SCHEMES = ("mysql", "mariadb")
    PORT = 3306
    EXAMPLE = "jdbc:mysql://host:3306/database"
    USED_OPTIONS = frozenset({"user", "password", "usessl", "requiressl", "verifyservercertificate", "sslmode"})

    def endpoint(self) -> Endpoint:
        settings = MysqlSettings(
            addresses=[self.address],
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
                raise self.missing_table(f"CREATE TABLE {self._table} ({columns(fields)})") from None
            refused = code == ER.ACCESS_DENIED_ERROR
            message = ErrorText.TARGET_REFUSES_LOGIN if refused else ErrorText.TARGET_FAILED
            if code == CR.CR_CONN_HOST_ERROR:
                message = ErrorText.TARGET_UNREACHABLE
            raise CostofError(message, target=self.shown, detail=str(error.args[-1])) from None

    @property
    def _verify(self) -> Verify | None:
        mode = self._options.get("sslmode", "").lower()
        uses_tls = "true" in (self._options.get("usessl", "").lower(), self._options.get("requiressl", "").lower())
        chain = self._options.get("verifyservercertificate", "").lower() == "true"
        return VERIFY.get(mode) or (("ca-only" if chain else "none") if uses_tls and not mode else None)

    def _connect(self) -> pymysql.Connection[Any]:
        secure: dict[str, Any] = {"ssl_disabled": True}
        if self._verify:
            # Verify the server's certificate as strictly as the load generator does, because this connection is
            # opened before the load generator's and sends the password.
            context = ssl.create_default_context()
            context.check_hostname = self._verify == "full"
            context.verify_mode = ssl.CERT_NONE if self._verify == "none" else ssl.CERT_REQUIRED
            secure = {"ssl": context}
        return connect(
            host=self._host,
            port=self._port,
            user=self._user,
            password=self._password.get_secret_value().encode(),
            database=self._database,
            **secure,
        )


DATABASE = MysqlDatabase
