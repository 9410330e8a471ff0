"""YCSB's JDBC binding for PostgreSQL: what its URL asks for."""

from __future__ import annotations

from costof.cli.ycsb.databases import open_database
from costof.cli.ycsb.databases.mysql import MysqlDatabase
from costof.cli.ycsb.databases.postgresql import PostgresqlDatabase
from tests.support.engines import sent


def test_a_jdbc_url_of_postgresql_is_an_endpoint() -> None:
    url = "jdbc:postgresql://h/ycsb?sslmode=verify-ca&sslrootcert=/ca.pem&currentSchema=mine"
    properties = {"db.url": url, "db.user": "u", "db.passwd": "p"}
    assert sent(PostgresqlDatabase(properties, "UserTable").endpoint()) == {
        "service": {
            "protocol": "postgres",
            "addresses": ["h:5432"],
            "username": "u",
            "password": "p",
            "database": "ycsb",
            "search_path": "mine",
            "table": "usertable",
        },
        "transport": {"kind": "tls", "ca_file": "/ca.pem", "verify": "ca-only", "resumption": False},
    }
    for options, verify in (("ssl=true", "full"), ("sslmode=require", "none")):
        endpoint = PostgresqlDatabase({"db.url": f"jdbc:postgresql://h/d?{options}"}, "t").endpoint()
        assert endpoint.transport.verify == verify
    assert not PostgresqlDatabase({"db.url": "jdbc:postgresql://h/d?sslmode=prefer"}, "t").endpoint().transport.is_tls


def test_jdbc_is_the_database_that_its_url_names() -> None:
    assert isinstance(open_database("jdbc", {"db.url": "jdbc:postgresql://h/d"}, "t"), PostgresqlDatabase)
    assert isinstance(open_database("jdbc", {"db.url": "jdbc:mysql://h/d"}, "t"), MysqlDatabase)
