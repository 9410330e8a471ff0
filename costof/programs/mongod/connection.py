"""Reaching a MongoDB: its URL, its session, rights, the marker of a run, and what runs leave behind.

`readWrite` on that database is enough: what a run makes it drops collection by collection, and a database without any
is gone. `dropDatabase` would need `dbAdmin` besides, and take with it whatever another has put there.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote

import pymongo
from pydantic import BeforeValidator, Field, SecretStr
from pymongo import monitoring, uri_parser
from pymongo.errors import OperationFailure, PyMongoError, ServerSelectionTimeoutError

from costof.errors import CostofError, ErrorText
from costof.messages.plan import ServiceSettings
from costof.model import Secret
from costof.programs import reach
from costof.programs.access import Access
from costof.programs.leftovers import Leftover, Leftovers, in_use_by_signs
from costof.programs.target_database import (
    MARKER,
    MARKER_NAME,
    Marker,
    could_be_own,
    granted_on,
    is_new_name,
    read_marker,
)
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

SCHEMES = ("mongodb", "mongodb+srv")
EXAMPLE = "mongodb://user:password@host:27017/"
#: Options that are shown; others may hold secrets, as authMechanismProperties does.
SHOWN = ("replicaSet", "authSource", "readPreference", "tls", "tlsCAFile", "w")
#: They turn verification off. What that costs is a level of a study; log-ins are verified.
UNVERIFIED = ("tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames", "tlsInsecure")
#: Why a write concern of 0 is refused.
UNACKNOWLEDGED = "w=0 asks for writes that no server answers, and a write without an answer has no latency to measure"


@dataclass(frozen=True)
class MongodbUrl:
    """`tls`: asked for, so that nothing is said in plain but where an arm is plain and that was allowed."""

    addresses: list[str]
    username: str | None
    password: SecretStr | None
    auth_source: str
    replica_set: str | None
    read_preference: str
    tls: bool
    ca_file: Path | None
    shown: str


def parse_mongodb_url(access: Access, study: str) -> MongodbUrl:
    try:
        parts = split_url(access.url, EXAMPLE)
        parsed = parsed_by_pymongo(parts)
        options = parsed["options"]
        if options.get("w") == 0:
            raise UrlError(f"{UNACKNOWLEDGED}; leave w out")
        tls = _tls(options, access.ca_file)
    except UrlError as error:
        raise CostofError(ErrorText.BAD_TARGET, study=study, detail=str(error)) from None
    # An empty password is none to MongoDB.
    password = access.password_beside(parts.password or None)
    ca_file = options.get("tlsCAFile")
    return MongodbUrl(
        addresses=[host_shown(host, port) for host, port in parsed["nodelist"]],
        username=parts.username,
        password=password if parts.username is not None else None,
        auth_source=str(options.get("authSource") or parsed["database"] or "admin"),
        replica_set=options.get("replicaSet"),
        read_preference=str(options.get("readPreference", "secondaryPreferred")),
        tls=tls,
        ca_file=access.ca_file or (Path(ca_file) if ca_file else None),
        shown=shown(parts, parsed),
    )


def parsed_by_pymongo(parts: UrlParts) -> dict[str, Any]:
    """What pymongo reads in the hosts, the database and the options. Raises `UrlError`.

    It is not given the user, since its errors quote what they are about.
    """
    if parts.scheme not in SCHEMES:
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it names no host")
    if parts.username == "":
        raise UrlError("it names no user")
    try:
        # An @ would be taken for the one that ends a log-in.
        query = f"?{parts.query.replace('@', '%40')}" if parts.query else ""
        bare = f"{parts.scheme}://{parts.hosts}{parts.path or '/'}{query}"
        parsed = dict(uri_parser.parse_uri(bare, warn=False, normalize=True))
    except OSError as error:
        raise UrlError(f"a file that it names cannot be read: {error.strerror}") from None
    except (PyMongoError, ValueError):
        raise UrlError(_what_is_wrong(parts)) from None
    if any(port is None for _, port in parsed["nodelist"]):
        raise UrlError("it names a Unix socket, and clients come by host and port")
    return parsed


def shown(parts: UrlParts, parsed: dict[str, Any]) -> str:
    """Return the URL without its secrets: of its options those that hold none."""
    hosts = parsed["fqdn"] or ",".join(host_shown(host, port) for host, port in parsed["nodelist"])
    told = {name: parsed["options"][name] for name in SHOWN if name in parsed["options"]}
    options = {
        name: str(value).lower() if isinstance(value, bool) else quote(str(value), safe="/")
        for name, value in told.items()
    }
    query = "?" + "&".join(f"{name}={text}" for name, text in options.items()) if options else ""
    database = quote(parsed["database"] or "", safe="")
    return f"{parts.scheme}://{login_shown(parts.username, bool(parts.password))}{hosts}/{database}{query}"


def _what_is_wrong(parts: UrlParts) -> str:
    """Return which part pymongo does not take; its own words might hold what must not be shown."""
    try:
        uri_parser.split_hosts(parts.hosts)
    except (PyMongoError, ValueError):
        return "what follows the user is not host:port, or several with commas between them"
    if parts.scheme.endswith("+srv"):
        return "its name has no servers in the DNS (SRV), or an option after '?' is none of MongoDB's"
    for number, (name, value) in enumerate(parse_qsl(parts.query, keep_blank_values=True), start=1):
        try:
            uri_parser.split_options(f"{quote(name)}={quote(value)}", warn=False)
        except (PyMongoError, ValueError):
            return f"option {number} after '?' is none of MongoDB's, or has a value that it does not take"
    return "its database or its options are not MongoDB's"


def _tls(options: dict[str, Any], ca_file: Path | None) -> bool:
    for name in UNVERIFIED:
        if options.get(name):
            raise UrlError(f"leave {name} out: log-ins to a target are verified; arms without are --set verify=…")
    asked = options.get("tls")
    if asked is False and (ca_file is not None or "tlsCAFile" in options):
        raise UrlError("it asks for plain and for TLS at once; leave one of the two out")
    return bool(asked) or ca_file is not None or "tlsCAFile" in options


#: Of YCSB's records.
COLLECTION = "usertable"
#: The write concern that is MongoDB's own word for most of the members.
MAJORITY = "majority"


def _number(concern: object) -> object:
    return int(concern) if isinstance(concern, str) and concern.isdigit() else concern


#: MongoDB's `w`: a number of members, or a word.
WriteConcern = Annotated[int | str, BeforeValidator(_number)]


class MongodbSettings(ServiceSettings):
    """Who logs in, which members are read, and where the records are."""

    protocol: Literal["mongodb"] = "mongodb"
    replica_set: str | None = Field(default=None, description="A single server without.")
    read_preference: str = Field(default="primary", description="As MongoDB names it, such as 'secondaryPreferred'.")
    write_concern: WriteConcern | None = Field(default=None, description="The server's default without.")
    username: str | None = None
    password: Secret | None = None
    auth_source: str = "admin"
    database: str
    collection: str


#: That a server answers, and that it takes the user.
STEPS_OF_LOG_IN = 2
PORT = 27017
HELLO = "its answer to hello"
AUTHENTICATION_FAILED = 18
#: Words of pymongo's errors for which another way of talking to the address would meet the same.
NOBODY_THERE = ("Connection refused", "Name or service not known", "No route to host", "certificate", "CERTIFICATE")
MAY_WANT_TLS = "the server may take TLS only: say tls=true in the URL, or --tls-ca"
MAY_BE_PLAIN = "TLS is asked for, and the server may take plain connections only"

Client = pymongo.MongoClient[dict[str, Any]]


class MongodbSession:
    """`client` is of the whole set, `member` of one server."""

    def __init__(self, url: MongodbUrl) -> None:
        self._url = url
        self._client: Client | None = None
        self._members: dict[str, Client] = {}

    def open(self) -> None:
        """Raises `PASSWORD_MISSING`, `TARGET_REFUSES_LOGIN`, `TARGET_FAILED`, `TARGET_UNREACHABLE`."""
        if self._url.username is not None and not self._url.password:
            raise CostofError(ErrorText.PASSWORD_MISSING, target=self._url.shown)
        look = FirstLook(addresses=len(set(self._url.addresses)))
        client = self._connect(self._url.addresses, replica_set=self._url.replica_set, event_listeners=[look])
        try:
            look.found()
            with pymongo.timeout(STEPS_OF_LOG_IN * reach.REACH_SECONDS):
                client.admin.command("ping")
        except OperationFailure as error:
            client.close()
            problem = ErrorText.TARGET_REFUSES_LOGIN if error.code == AUTHENTICATION_FAILED else ErrorText.TARGET_FAILED
            raise CostofError(problem, target=self._url.shown, detail=first_words(error)) from None
        except PyMongoError as error:
            client.close()
            told = self._error_text(error)
            if not any(words in told for words in NOBODY_THERE):
                told += f"; {MAY_BE_PLAIN if self._url.tls else MAY_WANT_TLS}"
            raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self._url.shown, detail=told) from None
        self._client = client

    def close(self) -> None:
        for client in [*self._members.values(), *([self._client] if self._client else [])]:
            client.close()

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    def member(self, server: str) -> Client:
        if server not in self._members:
            self._members[server] = self._connect([server], replica_set=None, directConnection=True)
        return self._members[server]

    def run(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except PyMongoError as error:
            raise CostofError(ErrorText.TARGET_FAILED, target=self._url.shown, detail=first_words(error)) from None

    def _error_text(self, error: PyMongoError) -> str:
        told = first_words(error)
        if "timed out" not in told or len(self._url.addresses) > 1:
            return told
        host, port = split_host(self._url.addresses[0], PORT)
        if "handshake" in told:
            return reach.silent(host, port, reach.TLS_HANDSHAKE)
        return reach.silent(host, port, HELLO if isinstance(error, ServerSelectionTimeoutError) else reach.LOG_IN)

    def _connect(self, addresses: list[str], replica_set: str | None, **more: Any) -> Client:
        milliseconds = 1000 * reach.REACH_SECONDS
        options: dict[str, Any] = {"serverSelectionTimeoutMS": milliseconds, "connectTimeoutMS": milliseconds, **more}
        options["socketTimeoutMS"] = 1000 * reach.ANSWER_SECONDS
        if replica_set:
            options["replicaSet"] = replica_set
        if self._url.username is not None and self._url.password is not None:
            options |= {"username": self._url.username, "password": self._url.password.get_secret_value()}
            options["authSource"] = self._url.auth_source
        if self._url.tls:
            options["tls"] = True
            if self._url.ca_file is not None:
                options["tlsCAFile"] = str(self._url.ca_file)
        return pymongo.MongoClient(addresses, **options)


class FirstLook(monitoring.ServerHeartbeatListener):
    """Whether anybody answers at the addresses. pymongo alone asks for all of `REACH_SECONDS` where each has refused.

    What it tells of a topology instead would come up to a second and a half late: those events stand in a queue first.
    """

    def __init__(self, addresses: int) -> None:
        self._addresses = addresses
        self._failed: dict[tuple[str, int | None], Exception] = {}
        self._is_over = threading.Event()

    def found(self) -> None:
        """Return when one address answers, or none has told in time. Raises `ServerSelectionTimeoutError` once every
        address has failed, with the first failure of each.
        """
        # Longer than each of them has.
        self._is_over.wait(1.5 * reach.REACH_SECONDS)
        if len(self._failed) == self._addresses:
            raise ServerSelectionTimeoutError(",".join(dict.fromkeys(map(str, self._failed.values()))))

    def started(self, event: monitoring.ServerHeartbeatStartedEvent) -> None: ...

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        self._is_over.set()

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        if self._is_over.is_set():
            return
        self._failed.setdefault(event.connection_id, event.reply)
        if len(self._failed) == self._addresses:
            self._is_over.set()


def first_words(error: PyMongoError) -> str:
    """Return the first part of an error: pymongo appends its whole view of the topology."""
    text = str(error)
    for noise in (", Timeout:", ", full error:", " (configured timeouts"):
        text = text.split(noise)[0]
    return text


ROLE, ROLE_EVERYWHERE = "readWrite", "readWriteAnyDatabase"
#: Of a run, its driver and its end.
ACTIONS = ("find", "insert", "update", "remove", "createCollection", "listCollections", "dropCollection")
UNAUTHORIZED = 13


def check_privileges(
    session: MongodbSession, url: MongodbUrl, database: str, collections: Iterable[str], chosen: str | None
) -> None:
    """Raises `PRIVILEGES_MISSING` with what is to be granted: on `chosen`, or on every database.

    A server that asks nobody who he is lets everybody; one that does refuses a stranger at the next question.
    """
    if url.username is None:
        return
    granted = _granted(session)
    if granted:
        missing = [
            action for action in ACTIONS if not all(_allows(granted, action, database, name) for name in collections)
        ]
    else:
        # A user without roles, or a server that has none and lets everybody do everything.
        missing = [] if _lets_do_all(session, database) else list(ACTIONS)
    if missing:
        raise CostofError(
            ErrorText.PRIVILEGES_MISSING,
            account=url.username,
            actions=", ".join(missing),
            database=database,
            target=url.shown,
            grant=granted_on(chosen, grant_line(url, chosen)),
        )


def grant_line(url: MongodbUrl, chosen: str | None) -> str:
    """The mongosh line for somebody who may grant. A role is for one database or for all, so names of each run's own
    need the latter."""
    role = {"role": ROLE, "db": chosen} if chosen else {"role": ROLE_EVERYWHERE, "db": "admin"}
    values = ", ".join([json.dumps(url.username or "", ensure_ascii=False), f"[{json.dumps(role)}]"])
    return f"db.getSiblingDB({json.dumps(url.auth_source)}).grantRolesToUser({values})"


def _granted(session: MongodbSession) -> list[dict[str, Any]]:
    """Return the privileges that the server lists; [] of one that does not list them."""
    try:
        status = session.client.admin.command("connectionStatus", showPrivileges=True)
    except OperationFailure:
        return []
    return list(status["authInfo"].get("authenticatedUserPrivileges", []))


def _lets_do_all(session: MongodbSession, database: str) -> bool:
    """Return whether the server lets the account read, delete and drop in a collection that is not there."""
    name = f"costof_{secrets.token_hex(8)}"
    there = session.client[database]

    def ask() -> bool:
        try:
            there[name].find_one()
            there[name].delete_many({})
            there[name].drop()
        except OperationFailure as error:
            if error.code == UNAUTHORIZED:
                return False
            raise
        return True

    return bool(session.run(ask))


def _allows(granted: list[dict[str, Any]], action: str, database: str, collection: str) -> bool:
    """Apply the server's rules for resources: an empty name stands for all of them, system collections aside."""
    covering = (
        privilege
        for privilege in granted
        if (resource := privilege["resource"]).get("anyResource")
        or (resource.get("db") in ("", database) and resource.get("collection") in ("", collection))
    )
    return any(action in privilege["actions"] for privilege in covering)


LIFE = "alive"


class MarkedDatabase:
    def __init__(self, session: MongodbSession, name: str) -> None:
        self.name = name
        self._session = session

    def collections(self) -> list[str]:
        found: list[str] = self._session.run(lambda: self._database.list_collection_names())
        return found

    def mark(self, marker: Marker) -> None:
        kept = self._database.get_collection(MARKER_NAME, write_concern=pymongo.WriteConcern("majority"))
        self._session.run(lambda: kept.insert_one({"_id": MARKER, **marker.model_dump()}))

    def marker(self) -> Marker | None:
        """Return the marker, or None where it is missing or not as it was written."""
        found = self._session.run(lambda: self._marker_collection.find_one({"_id": MARKER}))
        return read_marker({name: value for name, value in found.items() if name != "_id"}) if found else None

    def beat(self) -> None:
        """Leave a sign of life, by the server's clock. Raises `PyMongoError`."""
        self._marker_collection.update_one({"_id": LIFE}, {"$currentDate": {"at": True}}, upsert=True)

    def seconds_silent(self) -> float | None:
        """Return the seconds since the last sign of life, by the server's clock, or None without one."""
        found = self._session.run(lambda: self._marker_collection.find_one({"_id": LIFE}))
        if not found or not isinstance(found.get("at"), datetime):
            return None
        now = self._session.run(lambda: self._session.client.admin.command("hello"))["localTime"]
        return float((now - found["at"]).total_seconds())

    def remove(self, marker: Marker) -> bool:
        """Drop what `marker` says was made, if the database still carries it. Return whether that was so."""
        if self.marker() != marker:
            return False
        for name in [*marker.tables, MARKER_NAME]:
            self._session.run(partial(self._database.drop_collection, name))
        if marker.made_database:
            # Without the right to drop it, it stays, and is empty.
            with suppress(CostofError):
                self.remove_empty()
        return True

    def is_listed(self) -> bool:
        return self.name in self._session.run(self._session.client.list_database_names)

    def remove_empty(self) -> bool:
        """Drop the database if it is there without a collection. Whether that was so.

        On a MongoDB it is gone with its last collection, and an account needs no right to drop it; servers like it keep
        it.
        """
        if not self.is_listed() or self.collections():
            return False
        self._session.run(lambda: self._session.client.drop_database(self.name))
        return True

    @property
    def _database(self) -> Any:
        return self._session.client[self.name]

    @property
    def _marker_collection(self) -> Any:
        return self._database[MARKER_NAME]


class MongodbLeftovers(Leftovers):
    schemes = SCHEMES
    url: MongodbUrl
    session: MongodbSession

    def __init__(self, access: Access) -> None:
        self.url = parse_mongodb_url(access, "clean")
        self.session = MongodbSession(self.url)

    def find(self) -> list[Leftover]:
        names = self.session.run(self.session.client.list_database_names)
        found = []
        for name in sorted(name for name in names if could_be_own(name)):
            database = MarkedDatabase(self.session, name)
            marker = database.marker() if MARKER_NAME in database.collections() else None
            if marker is not None:
                found.append(Leftover(name, marker, in_use_by_signs(marker, database.seconds_silent())))
            elif is_new_name(name) and not database.collections():
                # A MongoDB has no such databases; a server like it keeps one that a run has emptied.
                found.append(Leftover(name, None, None))
        return found

    def remove(self, leftover: Leftover) -> bool:
        database = MarkedDatabase(self.session, leftover.database)
        return database.remove(leftover.marker) if leftover.marker else database.remove_empty()
