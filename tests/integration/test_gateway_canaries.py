"""TPC-C's statements through the gateway, with a canary (a recognisable value) in every protected column.

No canary reaches the client in plaintext. Three further tests show that the search finds canaries where plaintext is
expected: without a gateway, in a column without a rule, and in a computed output that is approved as plaintext.
"""

from __future__ import annotations

import random
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from costof.datasets import tpcc
from costof.datasets.tpcc_database import TpccDatabase
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.messages.plan import TlsFiles, Transport
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, MariadbServer
from costof.services.encryption.rules import (
    Account,
    CatalogueAccount,
    approved_statements,
    rules_text,
    sample_statement,
)
from tests.gateway.canaries import Canaries
from tests.support.mysql_packets import Row
from tests.support.programs import running_mariadb
from tests.support.raw_mysql import Answer, Client

pytestmark = pytest.mark.servers

OPAQUE, CATALOGUE = "opaque", "catalogue"
EVERYTHING = "mysql-column-encryption/100.toml"
ROWS = 3
LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
# Columns of warehouse and district numbers. They have small values, so that statements find rows with these keys. All
# other columns, even of keys, have canaries.
SMALL = re.compile("_w_id$|_d_id$|^d_id$|^w_id$|_d_w_id$|_supply_w_id$")


@dataclass
class Site:
    server: MariadbServer
    process: GatewayProcess
    canaries: Canaries
    values: list[str]
    tls: ssl.SSLContext
    # The key is True for the gateway's address with TLS.
    addresses: dict[bool, str]
    rules: dict[bool, GatewayListener]

    def client(self, *, secured: bool) -> Client:
        return Client(
            self.addresses[secured],
            OPAQUE.encode(),
            self.server.password.get_secret_value(),
            DATABASE.encode(),
            tls=self.tls if secured else None,
        )

    def reload(self, text: str) -> None:
        for listener in self.rules.values():
            write_private(listener.rules_file, text.encode())
        assert set(self.process.reload().values()) == {None}


def rules(password: SecretStr) -> str:
    text = rules_text(
        EVERYTHING,
        DATABASE,
        None,
        [Account(OPAQUE, "opaque")],
        {},
        CatalogueAccount(CATALOGUE, password),
    )
    return 'unknown_clients = "ciphertext"\n' + text


def made_value(kind: str, name: str, row: int, rng: random.Random) -> str:
    """Return a canary as an SQL literal of this type, or a small value if the type is too short for a canary."""
    if SMALL.search(name):
        return "1"
    if match := re.match(r"(?:VAR)?CHAR\((\d+)\)", kind):
        return "'" + "".join(rng.choices(LETTERS, k=min(int(match[1]), 24))) + "'"
    if kind.startswith("DATETIME"):
        return f"'2{rng.randrange(100, 900)}-0{1 + row}-11 12:13:14'"
    if kind.startswith("DECIMAL(12"):
        return f"{rng.randrange(10**9, 9 * 10**9)}.{rng.randrange(10, 99)}"
    if kind.startswith("DECIMAL"):
        return f"0.{rng.randrange(10, 99)}"
    return str(rng.randrange(10**9, 2 * 10**9)) if kind.startswith("INT") else str(10 + row)


def fill(server: MariadbServer) -> list[str]:
    rng, made = random.Random(7), []
    server.ask(f"USE {DATABASE}")
    for table, definitions in tpcc.COLUMNS.items():
        columns = [
            tuple(each.split()[:2])
            for each in re.split(r",(?![^(]*\))", definitions)
            if not re.match(r"\s*(PRIMARY )?KEY", each)
        ]
        for row in range(ROWS):
            if table in ("warehouse", "district") and row:
                continue
            values = [made_value(kind, name, row, rng) for name, kind in columns]
            made += values
            names = ", ".join(name for name, _ in columns)
            server.ask(f"INSERT INTO {table} ({names}) VALUES ({', '.join(values)})")  # noqa: S608  # our own
    return made


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with running_mariadb(lab) as server, GatewayProcess() as process:
        for user in (OPAQUE, CATALOGUE):
            server.add_user(user)
        TpccDatabase(server.ask, DATABASE, "mariadb").make()
        values = fill(server)
        texts = [
            value[1:-1].encode() for value in values if value.startswith("'") and len(value) >= 10 and " " not in value
        ]
        numbers = [int(value.partition(".")[0]) for value in values if value[0] != "'" and len(value) >= 9]
        certificate = server._authority.issue("gateway", "ecdsa-p256", ["127.0.0.1"])
        listeners = {}
        for secured in (False, True):
            rules_file = lab.folder / f"canaries-{secured}.toml"
            write_private(rules_file, rules(server.password).encode())
            tls = {"tls": TlsFiles.of(certificate), "server_transport": Transport(kind="tls", ca_file=server.ca_file)}
            listeners[secured] = GatewayListener(
                address="127.0.0.1:0",
                rules_file=rules_file,
                server=f"{server.address}:{server.port}",
                **(tls if secured else {}),
            )
        addresses = dict(zip(listeners, process.begin(list(listeners.values())).listeners, strict=True))
        context = ssl.create_default_context(cafile=str(server.ca_file))
        yield Site(server, process, Canaries(texts, numbers), values, context, addresses, listeners)


def text_of(statement: str, values: list[str]) -> bytes:
    parts = statement.split("?")
    return "".join(part + value for part, value in zip(parts, [*values, ""], strict=True)).encode()


def parameters(values: list[str]) -> bytes:
    raw = [value.strip("'").encode() for value in values]
    return (
        bytes((len(raw) + 7) // 8)
        + b"\x01"
        + b"\xfd\0" * len(raw)
        + b"".join(bytes([len(each)]) + each for each in raw)
    )


def play(site: Site, *, prepared: bool, secured: bool, rounds: int = 1) -> tuple[Client, list[Row], list[Answer]]:
    """Send all approved statements, mostly with values that are in the tables. Return the client, rows and answers."""
    rng = random.Random(3)
    texts = [each.text for each in approved_statements(EVERYTHING)]
    texts += [sample_statement(DATABASE, table, "?") for table in tpcc.TABLES]
    pool = [value for value in site.values if len(value) < 30] + ["1"] * len(site.values)
    answers = []
    with site.client(secured=secured) as client:
        assert client.refusal is None
        for _ in range(rounds):
            client.query(b"BEGIN")
            for text in texts:
                count = text.count("?")
                values = ["5"] if text.startswith("SELECT *") else [rng.choice(pool) for _ in range(count)]
                if prepared:
                    number = client.prepare(text.encode()).statement
                    assert number is not None
                    answers.append(client.execute(number, parameters(values)))
                    client.send(0x19, number.to_bytes(4, "little"))
                else:
                    answers.append(client.query(text_of(text, values)))
                assert not answers[-1].over, text
            client.query(b"ROLLBACK")
    return client, [row for answer in answers for row in answer.rows], answers


@pytest.mark.parametrize(
    ("prepared", "secured", "rounds"),
    [
        pytest.param(False, False, 1, id="quick"),
        *(
            pytest.param(prepared, secured, 6, marks=pytest.mark.slow)
            for prepared in (False, True)
            for secured in (False, True)
        ),
    ],
)
def test_no_protected_value_reaches_the_client_in_plaintext(
    site: Site, prepared: bool, secured: bool, rounds: int
) -> None:
    client, rows, answers = play(site, prepared=prepared, secured=secured, rounds=rounds)
    assert not site.canaries.found(bytes(client.received))
    assert len(rows) > 10 * rounds, "there was something to hide"
    refused = [answer.error for answer in answers if answer.error and answer.error[0] == 1227]
    assert not refused


def test_search_for_protected_values_detects_plaintext_of_a_column_without_a_rule(site: Site) -> None:
    usual = rules(site.server.password)
    try:
        whole, part = (f'table = "customer"\ncolumn = "{name}"' for name in ("*", "c_id"))
        assert whole in usual
        site.reload(usual.replace(whole, part))
        client, _, _ = play(site, prepared=False, secured=False)
        assert site.canaries.found(bytes(client.received))
    finally:
        site.reload(usual)


def test_search_for_protected_values_detects_a_computed_column_sent_in_plaintext(site: Site) -> None:
    usual = rules(site.server.password)
    text = 'text = "SELECT MAX(c_data) FROM customer"'
    try:
        for outputs, finds in (("", False), ('outputs = ["plain"]', True)):
            site.reload(f"{usual}\n[[statements]]\n{text}\n{outputs}\n")
            with site.client(secured=False) as client:
                assert len(client.query(b"SELECT MAX(c_data) FROM customer").rows) == 1
            assert bool(site.canaries.found(bytes(client.received))) == finds
    finally:
        site.reload(usual)


def test_search_for_protected_values_detects_plaintext_sent_without_a_gateway(site: Site) -> None:
    address = f"{site.server.address}:{site.server.port}"
    with Client(address, OPAQUE.encode(), site.server.password.get_secret_value(), DATABASE.encode()) as client:
        for table in tpcc.TABLES:
            client.query(sample_statement(DATABASE, table, 5).encode())
    assert site.canaries.found(bytes(client.received))
