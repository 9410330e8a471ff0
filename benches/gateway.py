"""Cost of a query through costof's gateway (a proxy that encrypts columns), compared with HAProxy as a TCP proxy.

The server is a MariaDB on loopback. The query is sysbench's point select. It is either prepared, or sent as text, which
the gateway parses each time. Four gateways are compared. They differ in their rules, which say which columns are
encrypted:
- `no rules` and `plaintext` forward bytes unchanged;
- `other column` encrypts a column that the query does not select;
- `encrypted` encrypts the selected column.

All are measured alternately; the table shows medians. Everything runs on one core, because waking a second core may
take longer than the measured time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from costof.datasets.sysbench import TABLE
from costof.errors import CostofError
from costof.lab.certificates import DEFAULT_KEY, Authority, write_private
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.messages.plan import Arm, Data, Plan, Workload
from costof.messages.process import Instrument, engine, process_cpu_seconds
from costof.programs.gateway import NO_LIMITS, GatewayListener, GatewayProcess
from costof.programs.haproxy import find_haproxy
from costof.programs.mariadb.connection import Decryption
from costof.programs.mariadb.lab import DATABASE, USER, SysbenchServer, greets
from costof.programs.server import Place

RECORDS = 10_000
TURNS = 5
SECONDS = 2
WORKERS = (1, 8)
KEY = "00112233445566778899aabbccddeeff"
DIRECT, FORWARDED = "direct", "haproxy, as TCP"
TEXT = ", as text"
FORWARDER = """\
global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen forward
  bind {address}
  server mariadb {server}
"""


def rules(role: str, column: str, password: str) -> str:
    key = 'master_key = "app"\n' if role == "ciphertext" else ""
    statement = f"SELECT c FROM `{TABLE}` WHERE id=?"  # noqa: S608  # a constant name
    return (
        f'[master_keys]\napp = "{KEY}"\n[[accounts]]\nname = "{USER}"\nrole = "{role}"\n{key}'
        f'[[columns]]\ndatabase = "{DATABASE}"\ntable = "{TABLE}"\ncolumn = "{column}"\n'
        f'[check]\nusername = "{USER}"\npassword = "{password}"\n'
        f'[[statements]]\ntext = "{statement}"\n'
    )


def all_rules(password: str) -> dict[str, str]:
    return {
        "gateway, no rules": "",
        "gateway, plaintext": rules("plaintext", "c", password),
        "gateway, other column": rules("ciphertext", "pad", password),
        "gateway, encrypted": rules("ciphertext", "c", password),
    }


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        lab = stack.enter_context(Lab())
        host = Host("server", None, loopback=lab.address(1))
        authority = Authority(lab.folder / "certificates")
        server = SysbenchServer(Place(lab, host, authority, [DEFAULT_KEY], lambda: lab.address(1)))
        server.start()
        stack.callback(server.close)
        server.make_tables()
        process = stack.enter_context(GatewayProcess())
        addresses, cpu = _addresses(lab, server, process)
        addresses |= _forwarder(lab, server, cpu)
        wire = stack.enter_context(engine())
        _load(wire, server, addresses)
        _print(_measure(wire, addresses, cpu))


def _addresses(
    lab: Lab, server: SysbenchServer, process: GatewayProcess
) -> tuple[dict[str, str], dict[str, Callable[[], float]]]:
    listeners, texts = [], all_rules(server.password.get_secret_value())
    for number, text in enumerate(texts.values()):
        file = lab.folder / f"rules-{number}.toml"
        write_private(file, text.encode())
        listeners.append(
            GatewayListener(
                address="127.0.0.1:0", rules_file=file, server=f"{server.address}:{server.port}", limits=NO_LIMITS
            )
        )
    listening = process.begin(listeners).listeners
    addresses = {DIRECT: f"{server.address}:{server.port}", **dict(zip(texts, listening, strict=True))}
    return addresses, dict.fromkeys(texts, process.cpu_seconds)


def _forwarder(lab: Lab, server: SysbenchServer, cpu: dict[str, Callable[[], float]]) -> dict[str, str]:
    """Start HAProxy, and add to `cpu` a function that returns its CPU seconds.

    Return HAProxy's address as `{FORWARDED: "host:port"}`, or {} if HAProxy is not installed.
    """
    try:
        binary = find_haproxy()
    except CostofError:
        return {}
    host, port = lab.address(2), server.port
    configuration = lab.folder / "forwarder.cfg"
    configuration.write_text(FORWARDER.format(address=f"{host}:{port}", server=f"{server.address}:{port}"))
    program = lab.spawn("haproxy", "forwarder", [str(binary), "-db", "-f", str(configuration)])
    lab.wait_until("starting haproxy", lambda: greets(host, port))
    cpu[FORWARDED] = lambda: process_cpu_seconds(program.pid)
    return {FORWARDED: f"{host}:{port}"}


def _load(wire: Instrument, server: SysbenchServer, addresses: dict[str, str]) -> None:
    def arm(name: str, address: str, statements: str) -> Arm:
        keys = Decryption(master_keys={"app": SecretStr(KEY)})
        through = {"addresses": [address], "statements": statements, "decryption": keys}
        return Arm(name=name, service=server.client_settings().model_copy(update=through))

    arms = [arm(name, address, "prepared") for name, address in addresses.items()]
    arms += [arm(name + TEXT, address, "text") for name, address in addresses.items()]
    queries = [Workload(name=f"query-{workers}", kind="query", workers=workers) for workers in WORKERS]
    load = Workload(name="load", kind="load", workers=2)
    ready = wire.plan(Plan(data=Data(records=RECORDS), arms=arms, workloads=[*queries, load]))
    assert not any(arm.error for arm in ready.arms), ready.arms
    wire.slice(0, DIRECT, "load", RECORDS, 60)
    server.settle()


Figures = dict[tuple[int, str], tuple[float, float]]


def _measure(wire: Instrument, addresses: dict[str, str], cpu: dict[str, Callable[[], float]]) -> Figures:
    """Measure queries to each server, gateway and proxy (`addresses`), with each number of workers.

    Returns the queries a second, and the CPU time in us that the gateway or HAProxy uses for a query.
    """
    samples: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for _ in range(TURNS):
        for workers in WORKERS:
            for name in [name + form for form in ("", TEXT) for name in addresses]:
                used = cpu.get(name.removesuffix(TEXT), float)
                before = used()
                answer = wire.slice(1, name, f"query-{workers}", 1_000_000, SECONDS)
                assert not answer.errors, answer.errors
                rate = answer.operations / (answer.elapsed_ns / 1e9)
                samples.setdefault((workers, name), []).append((rate, (used() - before) * 1e6 / answer.operations))
    return {
        key: (median(rate for rate, _ in values), median(cpu_us for _, cpu_us in values))
        for key, values in samples.items()
    }


def _print(figures: Figures) -> None:
    table = Table(title="A command through the gateway", title_justify="left", box=None)
    for heading in ("connections", "path", "commands/s", "gateway or HAProxy CPU, us"):
        table.add_column(heading, justify="right" if "/" in heading or "," in heading else "left")
    for (workers, name), (rate, cpu_us) in figures.items():
        table.add_row(str(workers), name, f"{rate:,.0f}", f"{cpu_us:.1f}" if name.removesuffix(TEXT) != DIRECT else "")
    Console(highlight=False, width=110).print(table)


if __name__ == "__main__":
    main()
