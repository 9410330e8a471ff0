"""Benchmark of column encryption: the CPU time of encrypting a value, and of a driver's reads of plaintext.

The first table shows the CPU time for a value by algorithm and length, for the engine (`costof-engine calibrate`) and
for the Python package `costof.encrypted`. The second shows what it costs a driver to be able to decrypt: the engine's
driver reads the same plaintext rows from a server, alternately with and without master keys. All figures are medians.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from benches.mysql import TrustingClientCertificates
from costof.encrypted.envelope import Envelope, RowFormat
from costof.encrypted.keys import KeyRing, session_salt
from costof.messages.plan import Data, Plan, Workload
from costof.messages.process import Instrument, engine, engine_path
from costof.programs.mariadb.connection import Decryption
from costof.run.instruments import LOAD, load_workload
from costof.services.server.lab import ServerLab
from costof.statistics.intervals import ratio
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, resolve

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "column-encryption.json"
RECORDS = 1000
TURNS = 60
NAMES = ("without", "with")
SECONDS = 0.25
PYTHON_VALUES = 5000


def main() -> None:
    print_values()
    if os.geteuid() == 0:
        print_driver()
    else:
        sys.stdout.write("The driver on a direct connection: skipped (the lab needs root)\n")


def print_values() -> None:
    output = subprocess.run([engine_path(), "calibrate"], check=True, capture_output=True, text=True).stdout
    costs: dict[str, dict[str, dict[str, float]]] = json.loads(output)["encryption"]
    table = Table(title="A value encrypted and decrypted, us", title_justify="left", box=None)
    lengths = list(next(iter(costs.values())))
    for heading in ("algorithm", *(f"{length} bytes" for length in lengths), "Python decrypts 5 bytes"):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for algorithm, by_length in costs.items():
        cells = [f"{cost['seal'] / 1e3:.2f} / {cost['open'] / 1e3:.2f}" for cost in by_length.values()]
        table.add_row(algorithm, *cells, f"{python_us(algorithm):.1f}")
    Console(highlight=False, width=110).print(table)


def python_us(algorithm: str) -> float:
    """Return the CPU time in us that `costof.encrypted` needs to decrypt a short value of the test vectors."""
    vectors = json.loads(VECTORS.read_text())
    [case] = [case for case in vectors["cases"] if case["name"] == f"{algorithm}, lengths"]
    definition = bytes.fromhex(case["definitions"][1])
    envelope = Envelope.parse(definition[definition.index(b"costofE2") :])
    assert envelope is not None
    salt = session_salt(vectors["scramble"].encode(), bytes.fromhex(vectors["nonce"]))
    opener = KeyRing(vectors["master_keys"]).session(salt).opener(envelope)
    associated = envelope.associated_data(RowFormat.TEXT, (b"tpcc", b"customer", b"text"))
    # Skip three bytes: the row's first column (its length, then its single digit), and the length of the sealed value.
    sealed = bytes.fromhex(case["rows"][1])[3:]
    began = time.process_time()
    for _ in range(PYTHON_VALUES):
        # Reset the opener's count, because it would reject the same value a second time.
        opener._last = -1
        opener.begin()
        opener.open(associated, sealed)
    return (time.process_time() - began) * 1e6 / PYTHON_VALUES


def print_driver() -> None:
    """Measure and print the client's CPU time for a point select of one column, with and without master keys."""
    settings = ["distance=lan", "transport=plain", f"records={RECORDS}"]
    plan = resolve(load_study("mysql-transport"), Options(profile="quick", settings=settings))
    arm = next(arm for arm in plan.arms if not arm.replicate)
    with ServerLab(plan, TrustingClientCertificates) as lab, engine(lab.prefix(arm)) as wire:
        wire.plan(_plan(lab, arm))
        lab.prepare([arm], lambda _: _load(wire))
        turns = [_turn(wire, turn) for turn in range(TURNS)]
    without, with_keys = ([turn[name] for turn in turns] for name in NAMES)
    added = ratio(without, with_keys)
    assert added is not None, "a client used no CPU"
    sys.stdout.write(
        f"A point select on a direct connection: {median(without):.2f} us of client CPU without master keys, "
        f"{median(with_keys):.2f} us with them ({added.value - 1:+.1%} [{added.low - 1:+.1%}, {added.high - 1:+.1%}])\n"
    )


def _plan(lab: ServerLab, arm: PlannedArm) -> Plan:
    end = lab.endpoint(arm)
    keys = Decryption(master_keys={"app": SecretStr("00112233445566778899aabbccddeeff")})
    keyed = end.model_copy(update={"service": end.service.model_copy(update={"decryption": keys})})
    return Plan(
        data=Data(records=RECORDS),
        arms=[end.named("without"), keyed.named("with")],
        workloads=[Workload(name="query", kind="query", workers=8), load_workload()],
    )


def _load(wire: Instrument) -> None:
    wire.slice(0, "without", LOAD, RECORDS, 60)


def _turn(wire: Instrument, turn: int) -> dict[str, float]:
    """Return the client's CPU times with and without master keys, in us. Every second turn reverses the order."""
    return {name: _cpu_us(wire, name) for name in NAMES[:: -1 if turn % 2 else 1]}


def _cpu_us(wire: Instrument, arm: str) -> float:
    answer = wire.slice(1, arm, "query", 10_000_000, SECONDS)
    assert not answer.errors, answer.errors
    return answer.cpu_ns["client"] / 1e3 / answer.operations
