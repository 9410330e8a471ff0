"""YCSB's MongoDB binding: the property `mongodb.url`, and older properties for parts of the URL.

The older properties are those of YCSB's class OptionsSupport.
"""

from __future__ import annotations

from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from costof.cli.ycsb.databases import Database
from costof.cli.ycsb.job import Properties
from costof.errors import CostofError, ErrorText
from costof.messages.plan import PLAIN, Endpoint, Transport, Verify
from costof.programs.mongod.connection import (
    EXAMPLE,
    UNACKNOWLEDGED,
    MongodbSettings,
    parse_with_pymongo,
    short_error,
    shown,
)
from costof.programs.reach import ANSWER_SECONDS, REACH_SECONDS
from costof.urls import UrlError, UrlParts, host_shown, split_url

DEFAULT_URL = "mongodb://localhost:27017/ycsb?w=1"
DEFAULT_DATABASE = "ycsb"
WRITE_CONCERNS = {"acknowledged": "1", "replica_acknowledged": "2", "majority": "majority"}
#: Values of `mongodb.writeConcern` that mean w=0.
UNACKNOWLEDGED_CONCERNS = ("unacknowledged", "errors_ignored")
READ_PREFERENCES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
AUTHENTICATION_FAILED = 18
USED_OPTIONS = frozenset(
    {
        "replicaset",
        "readpreference",
        "authsource",
        "w",
        "journal",
        "j",
        "tls",
        "ssl",
        "tlscafile",
        "tlsallowinvalidcertificates",
        "tlsallowinvalidhostnames",
        "tlsinsecure",
    }
)


class MongodbDatabase(Database):
    PROPERTIES = frozenset({"mongodb.url", "mongodb.database", "mongodb.writeConcern", "mongodb.readPreference"})

    def __init__(self, properties: Properties, table: str) -> None:
        self._collection = table
        self._parts, self._parsed = _parse(properties.get("mongodb.url", DEFAULT_URL))
        self.shown = shown(self._parts, self._parsed).partition("?")[0]
        self._options: dict[str, Any] = {name.lower(): value for name, value in self._parsed["options"].items()}
        named = self._parsed["database"]
        # The database `admin` holds the user accounts. Like YCSB, never write records into it.
        fallback = properties.get("mongodb.database", DEFAULT_DATABASE)
        self._database = named if named and named != "admin" else fallback
        self._write_concern = self._concern(properties)
        self._read_preference = self._preference(properties)
        self._replica_set: str | None = None

    def endpoint(self) -> Endpoint:
        settings = MongodbSettings(
            addresses=[host_shown(host, port) for host, port in self._seeds],
            replica_set=self._options.get("replicaset") or self._replica_set,
            read_preference=self._read_preference,
            write_concern=self._write_concern,
            username=self._parts.username,
            password=self._parts.password or None,
            auth_source=self._auth_source,
            database=self._database,
            collection=self._collection,
        )
        return Endpoint(service=settings, transport=self._transport())

    def holds_records(self, fields: int) -> bool:
        with self._client() as client:
            try:
                if len(self._seeds) > 1:
                    self._replica_set = client.admin.command("hello").get("setName")
                return client[self._database][self._collection].find_one({}, {"_id": 1}) is not None
            except OperationFailure as error:
                refused = error.code == AUTHENTICATION_FAILED
                message = ErrorText.TARGET_REFUSES_LOGIN if refused else ErrorText.TARGET_FAILED
                raise CostofError(message, target=self.shown, detail=short_error(error)) from None
            except PyMongoError as error:
                raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self.shown, detail=short_error(error)) from None

    def unused_options(self) -> list[str]:
        return [name for name in self._options if name not in USED_OPTIONS]

    @property
    def _seeds(self) -> list[tuple[str, int]]:
        return [(host, port or 27017) for host, port in self._parsed["nodelist"]]

    @property
    def _auth_source(self) -> str:
        return str(self._options.get("authsource") or self._parsed["database"] or "admin")

    def _concern(self, properties: Properties) -> int | str | None:
        """Return the write concern of the URL or the property; None for the server's default.

        Raises `BAD_TARGET` and `YCSB_BAD_PROPERTY`.
        """
        legacy = properties.get("mongodb.writeConcern", "").lower()
        concern = self._options.get("w", WRITE_CONCERNS.get(legacy, legacy or None))
        text = str(concern) if concern is not None else None
        journaled = self._options.get("journal") or self._options.get("j")
        if text == "0" or ("w" not in self._options and legacy in UNACKNOWLEDGED_CONCERNS):
            raise CostofError(ErrorText.BAD_TARGET, study="ycsb", detail=f"{UNACKNOWLEDGED}; write w=1 or w=majority")
        if journaled or not (text is None or text == "majority" or text.isdigit()):
            # Raise an error instead of using another write concern, whose durability has another cost.
            raise CostofError(
                ErrorText.YCSB_BAD_PROPERTY, name="the write concern", allowed="a number of members from 1, or majority"
            )
        return int(text) if text is not None and text.isdigit() else text

    def _preference(self, properties: Properties) -> str:
        legacy = properties.get("mongodb.readPreference", "primary").lower().replace("_", "")
        name = str(self._options.get("readpreference", legacy)).lower()
        preference = next((known for known in READ_PREFERENCES if known.lower() == name), None)
        if preference is None:
            raise CostofError(
                ErrorText.YCSB_BAD_PROPERTY, name="the read preference", allowed=" or ".join(READ_PREFERENCES)
            )
        return preference

    def _transport(self) -> Transport:
        if not (self._options.get("tls") or self._options.get("ssl")):
            return PLAIN
        unverified = self._options.get("tlsallowinvalidcertificates") or self._options.get("tlsinsecure")
        any_name = self._options.get("tlsallowinvalidhostnames")
        verify: Verify = "none" if unverified else "ca-only" if any_name else "full"
        return Transport(kind="tls", ca_file=self._options.get("tlscafile"), verify=verify)

    def _client(self) -> pymongo.MongoClient[dict[str, Any]]:
        options: dict[str, Any] = {
            "serverSelectionTimeoutMS": REACH_SECONDS * 1000,
            "connectTimeoutMS": REACH_SECONDS * 1000,
            "socketTimeoutMS": ANSWER_SECONDS * 1000,
            "readPreference": "primaryPreferred",
        }
        names = {"tlscafile": "tlsCAFile", "replicaset": "replicaSet"}
        for name in ("tls", "ssl", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames", "tlsinsecure", *names):
            if name in self._options:
                options[names.get(name, name)] = self._options[name]
        if self._parts.username is not None:
            password = self._parts.password.get_secret_value() if self._parts.password else None
            options |= {"username": self._parts.username, "password": password, "authSource": self._auth_source}
        if len(self._seeds) == 1 and "replicaset" not in self._options:
            options["directConnection"] = True
        return pymongo.MongoClient([f"{host}:{port}" for host, port in self._seeds], **options)


def _parse(url: str) -> tuple[UrlParts, dict[str, Any]]:
    try:
        parts = split_url(url, EXAMPLE)
        return parts, parse_with_pymongo(parts)
    except UrlError as error:
        raise CostofError(ErrorText.BAD_TARGET, study="ycsb", detail=str(error)) from None


DATABASE = MongodbDatabase
