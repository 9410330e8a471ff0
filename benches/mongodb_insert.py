"""Comparison of the engine with pymongo and go-ycsb: inserts of YCSB's records with w:1 by one and eight workers.

The engine's loader, which inserts in batches, is compared with pymongo's `insert_many` in batches of the same size. All
write alternately to the primary of the same replica set, each into its own collection. The table shows medians.

Each record is generated when it is sent, as in YCSB's loader. Its key is made with YCSB's hash, and its ten fields have
random bytes (Python generates all 1,000 bytes at once). pymongo runs a thread for each worker on one client. go-ycsb
has no option for a duration: it loads a fixed number of records, and its CPU time is that of the whole process.
"""

from __future__ import annotations

import itertools
import random
import re
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pymongo
from bson.binary import Binary

from benches.go_program import GO_YCSB
from benches.table import OURS, Usage, alternate, print_table
from costof.datasets.ycsb import key_name
from costof.messages.plan import Arm, Data, Options, Plan, Workload, line
from costof.messages.process import Instrument, engine
from costof.programs.mongod.connection import MongodbSettings
from costof.run.instruments import LOAD, LOAD_WORKERS, load_workload
from costof.services import Service
from costof.services.server.lab import ServerLab
from costof.study.library import load_study
from costof.study.plan import Options as RunOptions
from costof.study.plan import resolve

TURNS = 9
SECONDS = 1.0
WORKERS = (1, 8)
# The engine's batch size (`workload/load.rs`), and the number of records that it loads in about half a second.
BATCH = 100
LOAD_RECORDS = 30_000
FIELDS = 10
FIELD_LENGTH = 100
FIELD_NAMES = [f"field{field}" for field in range(FIELDS)]
PRINTABLE = bytes(32 + byte % 95 for byte in range(256))
GO_YCSB_RECORDS = 10_000


def main() -> None:
    go_ycsb = GO_YCSB.path()
    plan = resolve(load_study("mongodb-tls"), RunOptions(profile="quick", settings=["transport=plain"]))
    with ServerLab(plan) as lab, engine() as wire, engine() as loader:
        client_options = {"read_preference": "primary", "write_concern": 1}
        settings = lab.endpoint(plan.arms[0]).service.with_settings(client_options)
        assert isinstance(settings, MongodbSettings)
        wire.plan(_plan(settings))
        measured = []
        for workers in WORKERS:
            clients = {OURS: partial(_engine, lab, wire, workers), "pymongo": partial(_pymongo, lab, settings, workers)}
            if go_ycsb:
                clients["go-ycsb"] = partial(_go_ycsb, lab, settings, go_ycsb, workers)
            measured.append(alternate(f"{workers} worker{'s' if workers > 1 else ''}", clients, TURNS))
        arm = Arm(name="plain", service=settings)
        loader.plan(Plan(data=Data(records=LOAD_RECORDS), arms=[arm], workloads=[load_workload()]))
        clients = {
            OURS: partial(_loader, lab, settings, loader),
            "pymongo": partial(_pymongo, lab, settings, LOAD_WORKERS, BATCH),
        }
        measured.append(alternate(f"batches of {BATCH}, {LOAD_WORKERS} workers", clients, TURNS))
    print_table("inserts of 1 KB, MongoDB replica set, w:1", measured)


def _plan(settings: MongodbSettings) -> Plan:
    ycsb: Options = {"phase": "load", "field_count": FIELDS, "field_length": FIELD_LENGTH}
    workloads = [Workload(name=f"insert{n}", kind="ycsb", workers=n, ycsb=ycsb) for n in WORKERS]
    return Plan(arms=[Arm(name="plain", service=settings)], workloads=workloads)


def _engine(lab: Service, wire: Instrument, workers: int) -> Usage:
    before = lab.cpu_seconds()
    answer = wire.slice(1, "plain", f"insert{workers}", 10_000_000, SECONDS)
    used = lab.cpu_seconds()["primary"] - before["primary"]
    return Usage.from_slice(answer, used)


def _loader(lab: Service, settings: MongodbSettings, loader: Instrument) -> Usage:
    """Measure how fast the engine loads records, as it does before a run, into an empty collection."""
    with _client(settings, 1) as client:
        client[settings.database].drop_collection(settings.collection)
    before = lab.cpu_seconds()
    answer = loader.slice(1, "plain", LOAD, LOAD_RECORDS, 60)
    return Usage.from_slice(answer, lab.cpu_seconds()["primary"] - before["primary"])


def _pymongo(lab: Service, settings: MongodbSettings, workers: int, batch: int = 1) -> Usage:
    """Run this module with pymongo in a separate process, so that the CPU time of that process can be measured."""
    before = lab.cpu_seconds()
    argv = [sys.executable, "-m", "benches.mongodb_insert", str(workers), str(batch)]
    done = subprocess.run(argv, input=line(settings).decode(), capture_output=True, text=True, check=True)
    operations, seconds, cpu = done.stdout.split()
    used = lab.cpu_seconds()["primary"] - before["primary"]
    return Usage.from_totals(int(operations), float(seconds), float(cpu), used)


def _go_ycsb(lab: Service, settings: MongodbSettings, program: Path, workers: int) -> Usage:
    """Measure go-ycsb. The password is in a file, since command lines are visible to all users."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as login:
        addresses = ",".join(settings.addresses)
        login.write(f"mongodb.url=mongodb://{addresses}/{settings.database}?w=1&replicaSet={settings.replica_set}\n")
        login.write(f"mongodb.username={settings.username}\nmongodb.password={_password(settings)}\n")
        login.flush()
        properties: dict[str, object] = {"recordcount": GO_YCSB_RECORDS, "threadcount": workers, "fieldcount": FIELDS}
        # Set the table as a property, since go-ycsb ignores its option --table for MongoDB.
        properties["table"] = f"go_{secrets.token_hex(8)}"
        argv = [str(program), "load", "mongodb", "-P", login.name]
        argv += [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
        server, before = lab.cpu_seconds()["primary"], resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    after, used = resource.getrusage(resource.RUSAGE_CHILDREN), lab.cpu_seconds()["primary"] - server
    summaries = re.findall(r"^INSERT +- Takes\(s\): ([\d.]+), Count: (\d+),", done.stdout, re.MULTILINE)
    assert summaries, done.stdout[-1000:]
    seconds, count = float(summaries[-1][0]), int(summaries[-1][1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Usage.from_totals(count, seconds, cpu, used)


def new_record(key: str) -> dict[str, Any]:
    """Return a record like YCSB's, whose fields are random printable bytes."""
    values = random.randbytes(FIELDS * FIELD_LENGTH).translate(PRINTABLE)
    fields = (Binary(values[at : at + FIELD_LENGTH]) for at in range(0, len(values), FIELD_LENGTH))
    return {"_id": key, **dict(zip(FIELD_NAMES, fields, strict=True))}


def _password(settings: MongodbSettings) -> str:
    assert settings.password is not None
    return settings.password.get_secret_value()


def _client(settings: MongodbSettings, workers: int) -> pymongo.MongoClient[dict[str, Any]]:
    return pymongo.MongoClient(
        "mongodb://" + ",".join(settings.addresses),
        replicaSet=settings.replica_set,
        username=settings.username,
        password=_password(settings),
        maxPoolSize=workers,
        w=settings.write_concern,
        # Do not retry inserts, because neither the engine nor YCSB's MongoDB client does.
        retryWrites=False,
    )


def pymongo_client(settings: MongodbSettings, workers: int, batch: int) -> None:
    """Insert for `SECONDS` in as many threads as `workers`. Print the operations, the seconds and the CPU seconds.

    A batch of 1 uses `insert_one`, a larger batch `insert_many`. The time to connect is not measured.
    """
    client = _client(settings, workers)
    collection = client[settings.database][f"pymongo_{secrets.token_hex(8)}"]
    counts = [0] * workers
    start = threading.Barrier(workers + 1)
    deadline = [0.0]

    def work(index: int) -> None:
        records = itertools.count(index, workers)
        collection.insert_one(new_record(f"warm{index}"))
        start.wait()
        while time.monotonic() < deadline[0]:
            if batch == 1:
                collection.insert_one(new_record(key_name(next(records))))
            else:
                collection.insert_many([new_record(key_name(next(records))) for _ in range(batch)])
            counts[index] += batch

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
    pymongo_client(MongodbSettings.model_validate_json(sys.stdin.read()), int(sys.argv[1]), int(sys.argv[2]))
