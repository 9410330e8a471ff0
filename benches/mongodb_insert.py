"""The engine against pymongo: inserts of YCSB's records, one at a time, by one worker and by eight, with w:1.

Both write to the primary of the same replica set, into a collection each; their turns alternate, and the medians are
told. pymongo runs a thread for each worker on one client; its records are made before its clock starts, the engine's
are made as they are sent.
"""

from __future__ import annotations

import json
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
# More than a thread inserts in a turn.
RECORDS_A_THREAD = 10_000


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
    values = {f"field{field}": Binary(secrets.token_bytes(FIELD_LENGTH)) for field in range(FIELDS)}
    counts = [0] * workers
    start = threading.Barrier(workers + 1)
    deadline = [0.0]

    def work(index: int) -> None:
        first = index * RECORDS_A_THREAD
        documents = [{"_id": key_name(first + number), **values} for number in range(RECORDS_A_THREAD)]
        collection.insert_one({"_id": f"warm{index}", **values})
        start.wait()
        for document in documents:
            if time.monotonic() >= deadline[0]:
                break
            collection.insert_one(document)
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
