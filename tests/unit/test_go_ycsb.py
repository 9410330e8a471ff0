"""go-ycsb's names of a database, given to `costof ycsb`."""

from __future__ import annotations

import pytest

from costof.cli.ycsb.job import check_names
from costof.errors import CostofError, Problem


@pytest.mark.parametrize(
    ("binding", "properties", "told"),
    [
        (
            "mysql",
            {"mysql.host": "h", "mysql.port": "3307", "mysql.user": "s3cret"},
            "instead of mysql.host, mysql.port and mysql.user write -p db.url=jdbc:mysql://HOST:3306/DATABASE and "
            "-p db.user=USER",
        ),
        ("jdbc", {"mysql.password": "s3cret"}, "instead of mysql.password write -p db.passwd=PASSWORD"),
        (
            "postgresql",
            {"pg.host": "h", "pg.sslmode": "require"},
            "instead of pg.host and pg.sslmode write -p db.url=jdbc:postgresql://HOST:5432/DATABASE?sslmode=MODE",
        ),
        ("redis", {"redis.addr": "h:6379"}, "instead of redis.addr write -p redis.host=HOST and -p redis.port=PORT"),
        ("redis", {"redis.tls_ca": "ca.pem"}, "speaks no TLS"),
        ("mongodb", {"mongodb.password": "s3cret"}, "write -p mongodb.url=mongodb://USER:PASSWORD@HOST:27017/DATABASE"),
    ],
)
def test_go_ycsbs_names_are_told_in_ours(binding: str, properties: dict[str, str], told: str) -> None:
    with pytest.raises(CostofError) as caught:
        check_names(binding, properties)
    assert caught.value.problem is Problem.YCSB_NAMES_OF_GO
    assert told in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_names_that_are_ours_too_or_another_databases_are_let_pass() -> None:
    for binding in ("mysql", "postgresql", "redis", "mongodb", "jdbc"):
        check_names(binding, {"redis.password": "p", "redis.db": "0", "mongodb.url": "x", "db.url": "y"})
    check_names("mysql", {"pg.host": "h", "redis.addr": "h"})
