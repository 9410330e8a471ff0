"""The servers behind the relay. They and the relay have loopback addresses, so that no network adds time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pymongo

from costof.lab.program import Counters, Description
from costof.programs.mariadb.lab import SysbenchServer
from costof.programs.mongod.connection import COLLECTION, MongodbSettings
from costof.programs.mongod.lab import answers, find_mongod, mongod_version, read_counters
from costof.programs.server import LabServer, Place

MONGOD_PORT = 27017


class Mariadb(SysbenchServer):
    separate_clients = False


class Mongod(LabServer):
    """A standalone mongod without authentication. A replica set would send clients addresses that bypass the relay."""

    separate_clients = False
    writes = []

    def __init__(self, place: Place) -> None:
        self._lab = place.lab
        self._address = place.new_address()

    def start(self) -> None:
        binary = find_mongod()
        self._version = mongod_version(binary)
        data = self._lab.folder / "mongod"
        data.mkdir()
        options = ["--dbpath", str(data), "--bind_ip", self._address, "--nounixsocket"]
        quiet = ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        self._lab.spawn("mongod", "server", [str(binary), *options, *quiet])
        self._admin: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(self._address, directConnection=True)
        self._lab.wait_until("starting mongod", partial(answers, self._admin))

    def close(self) -> None:
        self._admin.close()

    def client_settings(self) -> MongodbSettings:
        return MongodbSettings(addresses=[f"{self._address}:{MONGOD_PORT}"], database="ycsb", collection=COLLECTION)

    def counters(self, server: str) -> Counters:
        return read_counters(self._admin)

    def describe(self) -> Description:
        return Description(versions={"mongod": self._version}, topology="one server")
