"""What the process list shows: the command, and nothing that may hold a secret."""

from __future__ import annotations

import pytest

from costof.cli.process_title import title_of


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("run mongodb-tls --target mongodb://u:p@h/", "costof run mongodb-tls"),
        ("run --target=mysql://u:p@h/ mysql-transport", "costof run"),
        ("ab -H Authorization:x http://h/", "costof ab"),
        ("ab http://h/?token=x", "costof ab"),
        ("ycsb load mysql -p db.passwd=x", "costof ycsb load mysql"),
        ("clean --target mysql://u:p@h/", "costof clean"),
        ("run mongodb-tls", None),
        ("gateway --rules rules.toml --server h:1", None),
        ("--target mysql://u:p@h/ run mongodb-tls", "costof"),
        ("", None),
    ],
)
def test_title(arguments: str, shown: str | None) -> None:
    assert title_of(arguments.split()) == shown
