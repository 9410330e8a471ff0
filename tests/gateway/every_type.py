"""A MariaDB with a column of each type, behind several gateways, which encrypt all columns by different algorithms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof import encrypted
from costof.datasets.sysbench import TABLE, create_table
from costof.encrypted.envelope import Algorithm
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, USER, MariadbServer
from tests.gateway.shop import approval
from tests.support.programs import HANGS_SECONDS, check_of, log_in, running_mariadb
from tests.support.raw_mysql import Client

KEY = "00112233445566778899aabbccddeeff"
PORT = 3310
OPAQUE_PORT = PORT + len(Algorithm)
ROWS = 40

# For each type that MariaDB 10.11 sends: a column and its value in the first row. A second row has only NULLs.
TYPES = {
    "tiny TINYINT": "-128",
    "tiny_unsigned TINYINT UNSIGNED": "255",
    "yes BOOLEAN": "TRUE",
    "small SMALLINT": "-32768",
    "medium MEDIUMINT": "8388607",
    "whole INT": "-2147483648",
    "padded INT(8) UNSIGNED ZEROFILL": "42",
    "big BIGINT": "-9223372036854775808",
    "big_unsigned BIGINT UNSIGNED": "18446744073709551615",
    "price DECIMAL(12,2)": "-1234567890.12",
    "single FLOAT": "1.5",
    "twice DOUBLE": "-2.225e-308",
    "bits BIT(12)": "b'101010101010'",
    "day DATE": "'2026-11-22'",
    "no_day DATE": "'0000-00-00'",
    "moment DATETIME": "'2026-11-22 02:36:45'",
    "moment_micro DATETIME(6)": "'2026-11-22 02:36:45.123456'",
    "stamp TIMESTAMP NULL": "'2026-11-22 02:36:45'",
    "duration TIME": "'-838:59:59'",
    "duration_micro TIME(6)": "'12:00:00.000001'",
    "year YEAR": "2026",
    "letters CHAR(10)": "'Ångström'",
    "latin CHAR(10) CHARACTER SET latin1": "'Ångström'",
    "name VARCHAR(40)": "'Łódź 🏙'",
    "nothing VARCHAR(40)": "''",
    "length_250 VARCHAR(500)": "REPEAT('x', 250)",
    "length_251 VARCHAR(500)": "REPEAT('x', 251)",
    "bytes BINARY(4)": "x'00ff0a27'",
    "more_bytes VARBINARY(40)": "x'00ff0a27'",
    "tiny_blob TINYBLOB": "x'fb'",
    "blob_ BLOB": "REPEAT(x'00ff', 200)",
    "long_blob LONGBLOB": "REPEAT(x'fe', 70000)",
    "tiny_text TINYTEXT": "'ä'",
    "text_ TEXT": "REPEAT('ä', 40000)",
    "one_of ENUM('a','b')": "'b'",
    "some_of SET('a','b','c')": "'a,c'",
    "document JSON": """'{"a": [1, "ä"]}'""",
    "point POINT": "POINT(1, 2)",
    "address INET6": "'2001:db8::1'",
    "id_ UUID": "'123e4567-e89b-12d3-a456-426655440000'",
}


@dataclass
class Site:
    server: MariadbServer
    gateway: GatewayProcess

    def settings(self, port: int) -> dict[str, Any]:
        return {
            "host": self.server.address,
            "port": port,
            "user": USER,
            "password": self.server.password.get_secret_value(),
            "database": DATABASE,
            "ssl_disabled": True,
            "read_timeout": HANGS_SECONDS,
        }

    def reader(self, port: int, key: str = KEY) -> encrypted.Connection:
        return encrypted.connect(master_keys={"app": key}, **self.settings(port))

    def raw(self, port: int, **more: Any) -> Client:
        address, user = f"{self.server.address}:{port}", USER.encode()
        return Client(address, user, self.server.password.get_secret_value(), DATABASE.encode(), **more)


#: The statements that the gateway accepts from accounts that may only send approved statements.
APPROVED = [
    "SELECT * FROM every_type ORDER BY whole",
    "SELECT name AS n, t.price, whole + 1, COUNT(*), NOW() > moment FROM every_type t GROUP BY 1, 2, 3, 5 ORDER BY 3",
    "SELECT one.name, other.day FROM every_type AS one JOIN every_type AS other ON one.name = other.name",
    "SELECT name FROM every_type WHERE name = ?",
    "SHOW TABLES",
    "SELECT latin, whole, blob_ FROM every_type WHERE whole IS NOT NULL",
    "SELECT latin, price FROM every_type WHERE whole IS NOT NULL",
    "SELECT name FROM every_type",
    "SELECT name AS n FROM every_type AS t",
    "SELECT name FROM every_type WHERE whole IS NOT NULL",
    "SELECT name FROM every_type ORDER BY whole IS NULL",
    "SELECT * FROM every_type ORDER BY whole IS NULL",
    f"SELECT c FROM `{TABLE}` WHERE id=?",  # the query that the engine sends
]


def rules(folder: Path, name: str, algorithm: str, account: str, check: str) -> Path:
    path = folder / f"{name}.toml"
    text = f'algorithm = "{algorithm}"\n'
    text += f'[master_keys]\napp = "{KEY}"\n{account}\n[[columns]]\ndatabase = "*"\ntable = "*"\ncolumn = "*"\n'
    write_private(path, (text + check + "".join(map(approval, APPROVED))).encode())
    return path


@contextlib.contextmanager
def every_type(folder: Path) -> Iterator[Site]:
    account = f'[[accounts]]\nname = "{USER}"\nrole = "ciphertext"\nmaster_key = "app"'
    with Lab() as lab, running_mariadb(lab) as server, GatewayProcess() as gateway:
        with log_in(server) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"CREATE TABLE every_type ({', '.join(TYPES)})")
            cursor.execute(f"INSERT INTO every_type VALUES ({', '.join(TYPES.values())})")
            cursor.execute("INSERT INTO every_type () VALUES ()")
            cursor.execute(create_table(DATABASE))
            connection.commit()
        check = check_of(USER, server.password.get_secret_value())
        files = {
            PORT + number: rules(folder, kind.label, kind.label, account, check)
            for number, kind in enumerate(Algorithm)
        }
        files[OPAQUE_PORT] = rules(folder, "opaque", "aes-128-gcm", "", check)
        back = f"{server.address}:{server.port}"
        gateway.begin(
            [
                GatewayListener(address=f"{server.address}:{port}", rules_file=file, server=back)
                for port, file in files.items()
            ]
        )
        yield Site(server, gateway)
