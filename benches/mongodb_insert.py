"""The engine against pymongo: inserts of YCSB's records, one at a time, by one worker and by eight, with w:1.

Both write to the primary of the same replica set, into a collection each; their turns alternate, and the medians are
told. pymongo runs a thread for each worker on one client. Both make a record as they send it, as YCSB's loader does:
its key by the same hash, and ten fields of random printable bytes (in Python a thousand bytes at once).
"""

from __future__ import annotations

import itertools
import json
import random
import secrets
import subprocess
import sys
import threading
import time
from statistics import median
from typing import Any

import pymongo
from bson.binary import Binary

from benches.table import Measured, print_table
from costof.instrument import Instrument, border_plan, engine
from costof.lab.mongodb import service
from costof.plan import Options, resolve
from costof.service import Service
from costof.study import load_study
from costof.ycsb import key_name

TURNS = 5
SECONDS = 2.0
WORKERS = (1, 8)
FIELDS = 10
FIELD_LENGTH = 100
FIELD_NAMES = [f"field{field}" for field in range(FIELDS)]
PRINTABLE = bytes(32 + byte % 95 for byte in range(256))


def main() -> None:
    """Measure and print."""
    plan = resolve(load_study("mongodb-tls"), Options(profile="quick", settings=["transport=plain"]))
    with service(plan) as lab, engine() as wire:
        endpoint = lab.endpoint(plan.arms[0])
        endpoint["service"] |= {"read_preference": "primary", "write_concern": 1}
        wire.plan(_border_plan(endpoint))
        measured = []
        for workers in WORKERS:
            turns = [(_engine(lab, wire, workers), _pymongo(lab, endpoint, workers)) for _ in range(TURNS)]
            setting = f"{workers} worker{'s' if workers > 1 else ''}"
            measured += [
                _middle(setting, "costof-engine", [turn[0] for turn in turns]),
                _middle(setting, "pymongo", [turn[1] for turn in turns]),
            ]
    print_table("insert_one of 1 KB, MongoDB replica set, w:1", measured, "costof-engine")


def _border_plan(endpoint: dict[str, Any]) -> dict[str, Any]:
    settings = {"phase": "load", "field_count": FIELDS, "field_length": FIELD_LENGTH}
    workloads = [{"name": f"insert{n}", "kind": "ycsb", "workers": n, "ycsb": settings} for n in WORKERS]
    return border_plan([{"name": "plain", **endpoint}], workloads)


def _engine(lab: Service, wire: Instrument, workers: int) -> tuple[float, float, float]:
    before = lab.cpu_seconds()
    answer = wire.slice(1, "plain", f"insert{workers}", 10_000_000, SECONDS)
    seconds = answer.elapsed_ns / 1e9
    used = lab.cpu_seconds()["primary"] - before["primary"]
    assert not answer.errors, answer.errors
    return answer.operations / seconds, answer.cpu_ns["client"] / 1e3 / answer.operations, used / seconds


def _pymongo(lab: Service, endpoint: dict[str, Any], workers: int) -> tuple[float, float, float]:
    """A process of its own, so that its CPU is its own; it prints operations, seconds and CPU seconds."""
    before = lab.cpu_seconds()
    argv = [sys.executable, "-m", "benches.mongodb_insert", str(workers)]
    done = subprocess.run(argv, input=json.dumps(endpoint["service"]), capture_output=True, text=True, check=True)
    operations, seconds, cpu = (float(word) for word in done.stdout.split())
    used = lab.cpu_seconds()["primary"] - before["primary"]
    return operations / seconds, cpu * 1e6 / operations, used / seconds


def _middle(setting: str, client: str, turns: list[tuple[float, float, float]]) -> Measured:
    rate, cpu, server = (median(column) for column in zip(*turns, strict=True))
    return Measured(setting, client, rate, cpu, server)


def new_record(key: str) -> dict[str, Any]:
    """One of YCSB's: printable bytes, drawn at once for all fields."""
    values = random.randbytes(FIELDS * FIELD_LENGTH).translate(PRINTABLE)
    fields = (Binary(values[at : at + FIELD_LENGTH]) for at in range(0, len(values), FIELD_LENGTH))
    return {"_id": key, **dict(zip(FIELD_NAMES, fields, strict=True))}


def pymongo_client(settings: dict[str, Any], workers: int) -> None:
    """`workers` threads calling `insert_one` for `SECONDS`; connecting is outside the measured time."""
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
        "mongodb://" + ",".join(settings["addresses"]),
        replicaSet=settings["replica_set"],
        username=settings["username"],
        password=settings["password"],
        maxPoolSize=workers,
        w=settings["write_concern"],
        # As YCSB's binding and the engine: an insert is sent once.
        retryWrites=False,
    )
    collection = client[settings["database"]][f"pymongo_{secrets.token_hex(8)}"]
    counts = [0] * workers
    start = threading.Barrier(workers + 1)
    deadline = [0.0]

    def work(index: int) -> None:
        records = itertools.count(index, workers)
        collection.insert_one(new_record(f"warm{index}"))
        start.wait()
        while time.monotonic() < deadline[0]:
            collection.insert_one(new_record(key_name(next(records))))
            counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(workers)]
    for thread in threads:
        thread.start()
    deadline[0] = float("inf")
    start.wait()
    began, cpu = time.monotonic(), time.process_time()
    deadline[0] = began + SECONDS
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{sum(counts)} {time.monotonic() - began} {time.process_time() - cpu}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    pymongo_client(json.load(sys.stdin), int(sys.argv[1]))
