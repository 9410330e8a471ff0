"""YCSB's JDBC binding for PostgreSQL, with pgjdbc's options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg.errors import UndefinedTable

from costof.cli.ycsb.databases import JdbcDatabase, columns
from costof.errors import CostofError, ErrorText
from costof.messages.plan import PLAIN, Endpoint, Transport, Verify
from costof.programs import reach
from costof.programs.postgres.connection import WRONG_LOGIN, PostgresSettings, error_text

#: Maps pgjdbc's `sslmode` to how the server's certificate is verified. 'prefer' is missing, so it means
#: plaintext here. With pgjdbc, the server would decide whether 'prefer' uses TLS.
VERIFY: dict[str, Verify] = {"require": "none", "verify-ca": "ca-only", "verify-full": "full"}
SSLMODES = {verify: mode for mode, verify in VERIFY.items()}


class PostgresqlDatabase(JdbcDatabase):
    """A PostgreSQL database. YCSB does not quote the table's name, so the server folds it to lower case."""

    SCHEMES = ("postgresql",)
    PORT = 5432
    EXAMPLE = "jdbc:postgresql://host:5432/database"
    USED_OPTIONS = frozenset({"user", "password", "ssl", "sslmode", "sslrootcert", "currentschema"})

    def endpoint(self) -> Endpoint:
        schema = self._options.get("currentschema")
        settings = PostgresSettings(
            addresses=[self.address],
            username=self._user,
            password=self._password or None,
            database=self._database,
            session={"search_path": schema} if schema else None,
            table=self._table.lower(),
        )
        verify = self._verify
        return Endpoint(
            service=settings,
            transport=Transport(kind="tls", verify=verify).trusting(self._ca_file) if verify else PLAIN,
        )

    def holds_records(self, fields: int) -> bool:
        try:
            with self._connect() as connection:
                statement = f'SELECT 1 FROM "{self._table.lower()}" LIMIT 1'  # noqa: S608  # letters and digits, see NAME
                return connection.execute(statement.encode()).fetchone() is not None
        except UndefinedTable:
            raise self.missing_table(f"CREATE TABLE {self._table} ({columns(fields)})") from None
        except psycopg.errors.ConnectionTimeout:
            detail = reach.timeout_text(self._host, self._port, reach.LOG_IN)
            raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self.shown, detail=detail) from None
        except psycopg.Error as error:
            text = error_text(error)
            message = ErrorText.TARGET_FAILED if error.sqlstate else ErrorText.TARGET_UNREACHABLE
            if any(words in text for words in WRONG_LOGIN):
                message = ErrorText.TARGET_REFUSES_LOGIN
            raise CostofError(message, target=self.shown, detail=text) from None

    @property
    def _verify(self) -> Verify | None:
        mode, ssl = self._options.get("sslmode", ""), self._options.get("ssl", "false")
        return VERIFY.get(mode.lower()) or ("full" if ssl.lower() in ("", "true") and not mode else None)

    @property
    def _ca_file(self) -> Path | None:
        return Path(self._options["sslrootcert"]) if "sslrootcert" in self._options else None

    def _connect(self) -> psycopg.Connection[Any]:
        # Verify the server's certificate as strictly as the load generator does, because this connection is opened
        # before the load generator's and sends the password.
        verify = self._verify
        schema = self._options.get("currentschema")
        return psycopg.connect(
            host=self._host,
            port=self._port,
            user=self._user,
            password=self._password.get_secret_value(),
            dbname=self._database,
            connect_timeout=reach.REACH_SECONDS,
            gssencmode="disable",
            sslmode=SSLMODES[verify] if verify else "disable",
            sslrootcert=str(self._ca_file or "system") if verify and verify != "none" else None,
            options=f"-c search_path={schema}" if schema else "",
        )


DATABASE = PostgresqlDatabase
