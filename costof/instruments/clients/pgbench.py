"""PostgreSQL's pgbench: its select-only transactions on 8 connections.

Connection settings are passed as environment variables (https://www.postgresql.org/docs/current/libpq-envars.html).
"""

from __future__ import annotations

from pathlib import Path

from costof.errors import CostofError
from costof.instruments.clients import Client, Invocation, UnsupportedArmError, check_tls, host_and_port
from costof.messages.plan import Endpoint
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.postgres.versions import find_postgres

SSL_MODES = {"full": "verify-full", "ca-only": "verify-ca", "none": "require"}


def _invocation(endpoint: Endpoint) -> Invocation:
    settings, transport = endpoint.service, endpoint.transport
    assert isinstance(settings, PostgresSettings)
    check_tls(endpoint, (None, "1.2", "1.3"))
    host, port = host_and_port(settings.addresses)
    environment = {
        "PGHOST": host,
        "PGPORT": port,
        "PGUSER": settings.username,
        "PGDATABASE": settings.database,
        "PGGSSENCMODE": "disable",
        "PGCONNECT_TIMEOUT": "10",
        "PGSSLMODE": "disable",
    }
    if settings.table_schema is not None:
        if settings.pooled:
            raise UnsupportedArmError("cannot name the schema of its tables, and a pooler rejects search_path")
        # pgbench's statements do not name a schema, so set the search path.
        environment["PGOPTIONS"] = f'-c search_path="{settings.table_schema}"'
    if transport.is_tls:
        if settings.negotiation == "direct":
            raise UnsupportedArmError("cannot begin TLS with the first byte of a connection")
        if transport.ca_file is None and transport.verify != "none":
            raise UnsupportedArmError("cannot verify certificates by the system's CAs; name a CA file with --tls-ca")
        environment |= {
            "PGSSLMODE": SSL_MODES[transport.verify],
            "PGCHANNELBINDING": "require" if settings.channel_binding else "disable",
        }
        if transport.ca_file is not None:
            environment["PGSSLROOTCERT"] = str(transport.ca_file)
        if transport.certificate_file is not None:
            environment |= {"PGSSLCERT": str(transport.certificate_file), "PGSSLKEY": str(transport.certificate_file)}
        if transport.version is not None:
            version = f"TLSv{transport.version}"
            environment |= {"PGSSLMINPROTOCOLVERSION": version, "PGSSLMAXPROTOCOLVERSION": version}
    secrets = {"PGPASSWORD": settings.password} if settings.password is not None else {}
    return Invocation(["--protocol", settings.statements or "simple"], environment, secrets)


def _server_folders() -> list[Path]:
    """Return the folder of PostgreSQL's server programs as a list, or [] if it is unknown.

    Debian installs pgbench in this folder, which is not on PATH.
    """
    try:
        return [find_postgres().parent]
    except CostofError:
        return []


CLIENT = Client(
    program="pgbench",
    package="postgresql-contrib",
    service="postgres",
    run="{program} --no-vacuum --select-only {options} --client 8 --jobs 2 --time {seconds}",
    headline=("tps",),
    invocation=_invocation,
    folders=_server_folders,
)
