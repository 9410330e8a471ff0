"""pgbench, the load generator of PostgreSQL: its tests, and the options and environment variables for an arm (variant).

Connection settings are passed as environment variables (https://www.postgresql.org/docs/current/libpq-envars.html).
"""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from costof.datasets.pgbench import TELLERS_OF_A_BRANCH
from costof.errors import CostofError
from costof.instruments.clients import (
    Client,
    ClientLoad,
    ClientTest,
    Invocation,
    UnsupportedArmError,
    check_tls,
    host_and_port,
)
from costof.messages.plan import Endpoint
from costof.programs.postgres.connection import PostgresSettings
from costof.programs.postgres.versions import find_postgres

#: pgbench's standard transaction (like TPC-B), with the number of accounts as a variable: pgbench's own script assumes
#: 100,000 accounts for each bank branch, more than the lab's tables have.
TPCB_LIKE = """\
\\set aid random(1, :accounts)
\\set bid random(1, :branches)
\\set tid random(1, :tellers)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
INSERT = """\
\\set delta random(-5000, 5000)
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, :delta, CURRENT_TIMESTAMP);
"""
SCRIPT = "transaction.sql"
SCRIPTS = {"tpcb-like": TPCB_LIKE, "insert": INSERT}
#: The number of accounts for each bank branch that the script of pgbench's select-only test assumes.
ACCOUNTS_OF_A_BRANCH = 100_000
SSL_MODES = {"full": "verify-full", "ca-only": "verify-ca", "none": "require"}


def _invocation(endpoint: Endpoint, load: ClientLoad) -> Invocation:
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
        # pgbench's statements name tables without a schema, so the server finds the tables only by the search path.
        path = {"search_path": f'"{settings.table_schema}"'}
        settings = settings.model_copy(update={"session": path | (settings.session or {})})
    if settings.session:
        environment["PGOPTIONS"] = settings.session_options
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
    options = ["--protocol", settings.statements or "simple", *_size(load, settings.scale)]
    files = {SCRIPT: SecretStr(SCRIPTS[load.test])} if load.test in SCRIPTS else {}
    return Invocation(options, environment, secrets, files)


def _size(load: ClientLoad, branches: int | None) -> list[str]:
    """Return the options that set the numbers of rows in pgbench's scripts, such as '--define=accounts=1000'."""
    if load.test in SCRIPTS:
        count = branches or 1
        rows = {"accounts": max(1, load.records), "branches": count, "tellers": count * TELLERS_OF_A_BRANCH}
        return [f"--define={name}={number}" for name, number in rows.items()]
    return [f"--define=scale={load.records / ACCOUNTS_OF_A_BRANCH}"] if load.records else []


def _server_folders() -> list[Path]:
    """Return the folder, not on PATH, of PostgreSQL's programs, in which Debian installs pgbench; [] if unknown."""
    try:
        return [find_postgres().parent]
    except CostofError:
        return []


CLIENT = Client(
    program="pgbench",
    package="postgresql-contrib",
    services=("postgres",),
    run="{program} --no-vacuum {test} {options} --client {connections} --jobs {threads} --time {seconds}",
    tests={
        "select-only": ClientTest("--select-only", ("tps",), statements={"read": 1}),
        "tpcb-like": ClientTest(f"--file={SCRIPT}", ("tps",), statements={"read": 1, "write": 4, "misc": 2}),
        "insert": ClientTest(f"--file={SCRIPT}", ("tps",), statements={"write": 1}),
    },
    connections=8,
    invocation=_invocation,
    folders=_server_folders,
)
