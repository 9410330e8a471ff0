"""Connections to MongoDB: URL, session, privileges, the record (marker) of a run, and leftovers of killed runs.

An account needs only the role `readWrite` on the run's database. The clean-up drops the run's collections one by one;
MongoDB removes a database when its last collection is dropped. `dropDatabase` would also need the role `dbAdmin`, and
would remove other users' collections.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
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
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.model import Secret
from costof.programs import reach
from costof.programs.access import Access
from costof.programs.leftovers import Leftover, Leftovers, in_use_by_heartbeat
from costof.programs.mongod.durability import writes_mismatch
from costof.programs.target_database import (
    MARKER,
    MARKER_NAME,
    Marker,
    grant_with_hint,
    is_allowed_name,
    is_generated_name,
    read_marker,
)
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

SCHEMES = ("mongodb", "mongodb+srv")
EXAMPLE = "mongodb://user:password@host:27017/"
#: The URL options that plans and reports may show. Others, such as authMechanismProperties, may hold secrets.
SHOWN = ("replicaSet", "authSource", "readPreference", "tls", "tlsCAFile", "w")
#: Options that disable the verification of certificates. They are refused in a URL: the administrative log-in to a
#: user's server always verifies the certificate. To measure without verification, users give --set verify=none instead.
UNVERIFIED = ("tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames", "tlsInsecure")
UNACKNOWLEDGED = "with w=0 the server does not answer writes, so they have no latency to measure"


@dataclass(frozen=True)
class MongodbUrl:
    """A parsed URL. `shown` is the URL without secrets.

    If `tls` is True, all connections use TLS, except those of arms (measured variants) without TLS, which need
    --allow-plain.
    """

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
        parsed = parse_with_pymongo(parts)
        options = parsed["options"]
        if options.get("w") == 0:
            raise UrlError(f"{UNACKNOWLEDGED}; remove w")
        tls = _requires_tls(options, access.ca_file)
    except UrlError as error:
        raise CostofError(ErrorText.BAD_TARGET, study=study, detail=str(error)) from None
    # MongoDB treats an empty password as no password.
    password = access.choose_password(parts.password or None)
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


def parse_with_pymongo(parts: UrlParts) -> dict[str, Any]:
    """Return the hosts, the database and the options as pymongo parses them. Raises `UrlError`.

    pymongo does not get user and password, because its errors quote parts of the URL.
    """
    if parts.scheme not in SCHEMES:
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it has no host")
    if parts.username == "":
        raise UrlError("it has no user")
    try:
        # Encode the @: pymongo would otherwise take the text before it for user and password.
        query = f"?{parts.query.replace('@', '%40')}" if parts.query else ""
        bare = f"{parts.scheme}://{parts.hosts}{parts.path or '/'}{query}"
        parsed = dict(uri_parser.parse_uri(bare, warn=False, normalize=True))
    except OSError as error:
        raise UrlError(f"a file in its options cannot be read: {error.strerror}") from None
    except (PyMongoError, ValueError):
        raise UrlError(_parse_error(parts)) from None
    if any(port is None for _, port in parsed["nodelist"]):
        raise UrlError("it has a Unix socket; write host:port instead")
    return parsed


def shown(parts: UrlParts, parsed: dict[str, Any]) -> str:
    """Return the URL without its password and with only the options in `SHOWN`."""
    hosts = parsed["fqdn"] or ",".join(host_shown(host, port) for host, port in parsed["nodelist"])
    values = {name: parsed["options"][name] for name in SHOWN if name in parsed["options"]}
    options = {
        name: str(value).lower() if isinstance(value, bool) else quote(str(value), safe="/")
        for name, value in values.items()
    }
    query = "?" + "&".join(f"{name}={text}" for name, text in options.items()) if options else ""
    database = quote(parsed["database"] or "", safe="")
    return f"{parts.scheme}://{login_shown(parts.username, bool(parts.password))}{hosts}/{database}{query}"


def _parse_error(parts: UrlParts) -> str:
    """Return text that says which part of the URL is wrong. pymongo's own error text might quote a secret."""
    try:
        uri_parser.split_hosts(parts.hosts)
    except (PyMongoError, ValueError):
        return "after the user there must be host:port, or several separated by commas; this is not host:port"
    if parts.scheme.endswith("+srv"):
        return "its name has no SRV records in the DNS, or an option after '?' is unknown"
    for number, (name, value) in enumerate(parse_qsl(parts.query, keep_blank_values=True), start=1):
        try:
            uri_parser.split_options(f"{quote(name)}={quote(value)}", warn=False)
        except (PyMongoError, ValueError):
            return f"option {number} after '?' is unknown or has an invalid value"
    return "its database or its options are invalid"


def _requires_tls(options: dict[str, Any], ca_file: Path | None) -> bool:
    for name in UNVERIFIED:
        if options.get(name):
            raise UrlError(
                f"remove {name}: log-ins to a target always verify the certificate; --set verify=none measures without"
            )
    tls = options.get("tls")
    if tls is False and (ca_file is not None or "tlsCAFile" in options):
        raise UrlError("it requires both plain and TLS; remove one of the two")

    return bool(tls) or ca_file is not None or "tlsCAFile" in options


COLLECTION = "usertable"
MAJORITY = "majority"


def _number(concern: object) -> object:
    return int(concern) if isinstance(concern, str) and concern.isdigit() else concern


#: MongoDB's `w`: the number of members that must acknowledge a write, or a name such as 'majority'.
WriteConcern = Annotated[int | str, BeforeValidator(_number)]


class MongodbSettings(ServiceSettings):
    """The settings of a MongoDB client: log-in, members to read from, write concern, and where the records are."""

    protocol: Literal["mongodb"] = "mongodb"
    replica_set: str | None = Field(default=None, description="Name of the replica set; absent for a single server.")
    read_preference: str = Field(default="primary", description="MongoDB's name, such as 'secondaryPreferred'.")
    write_concern: WriteConcern | None = Field(
        default=None, description="MongoDB's `w`; if absent, the server's default applies."
    )
    journal: bool | None = Field(
        default=None,
        description="MongoDB's `j`: whether a write waits for a flush of the journal; if absent, the "
        "server's default applies.",
    )
    username: str | None = None
    password: Secret | None = None
    auth_source: str = "admin"
    database: str
    collection: str

    @property
    def flushes_writes(self) -> bool | None:
        """Return whether a write makes the primary flush its journal; None if this depends on the server's defaults.

        `j` decides if it is set. Otherwise a write with `w: majority` does, unless a replica set's
        `writeConcernMajorityJournalDefault` is false. With `w: majority` and `j: false`, a write waits for the flushes
        of a majority of the members, but does not make the primary flush, so the result is False.
        """
        if self.journal is not None or self.write_concern is None:
            return self.journal
        return self.write_concern == MAJORITY

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer, shared: bool) -> str | None:
        return writes_mismatch(self.write_concern, self.flushes_writes, increases, answer, shared)


#: A log-in has two steps with a time limit each: the answer to `hello`, and the authentication.
LOG_IN_STEPS = 2
PORT = 27017
HELLO = "its answer to hello"
AUTHENTICATION_FAILED = 18
#: Parts of pymongo's error texts about failed connections. An error with one of these texts has another cause than TLS
#: on only one side, client or server.
NOT_FROM_TLS = ("Connection refused", "Name or service not known", "No route to host", "certificate", "CERTIFICATE")
MAY_WANT_TLS = "the server may accept only TLS: add tls=true to the URL, or use --tls-ca"
MAY_BE_PLAIN = "the URL or --tls-ca requires TLS, but the server may accept only plain connections"

#: A command that a server quotes in an error, such as 'execute command { serverStatus: 1, lsid: …, $clusterTime: … }'.
_COMMAND = re.compile(r"execute command \{ (\w+): .*\}", re.DOTALL)

Client = pymongo.MongoClient[dict[str, Any]]


class MongodbSession:
    """Connections to a user's server or replica set: `client` is for the whole set, `member(server)` for one server."""

    def __init__(self, url: MongodbUrl) -> None:
        self._url = url
        self._client: Client | None = None
        self._members: dict[str, Client] = {}

    def open(self) -> None:
        """Log in. Raises `PASSWORD_MISSING`, `TARGET_REFUSES_LOGIN`, `TARGET_FAILED`, `TARGET_UNREACHABLE`."""
        if self._url.username is not None and not self._url.password:
            raise CostofError(ErrorText.PASSWORD_MISSING, target=self._url.shown)
        listener = FirstHeartbeatListener(addresses=len(set(self._url.addresses)))
        client = self._connect(self._url.addresses, replica_set=self._url.replica_set, event_listeners=[listener])
        try:
            listener.wait()
            with pymongo.timeout(LOG_IN_STEPS * reach.REACH_SECONDS):
                client.admin.command("ping")
        except OperationFailure as error:
            client.close()
            kind = ErrorText.TARGET_REFUSES_LOGIN if error.code == AUTHENTICATION_FAILED else ErrorText.TARGET_FAILED
            raise CostofError(kind, target=self._url.shown, detail=short_error(error)) from None
        except PyMongoError as error:
            client.close()
            detail = self._error_text(error)
            if not any(words in detail for words in NOT_FROM_TLS):
                detail += f"; {MAY_BE_PLAIN if self._url.tls else MAY_WANT_TLS}"
            raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self._url.shown, detail=detail) from None
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

    def run(self, operation: Callable[[], Any]) -> Any:
        """Call `operation` and return its result. Raises `TARGET_FAILED` if it raises `PyMongoError`."""
        try:
            return operation()
        except PyMongoError as error:
            raise CostofError(ErrorText.TARGET_FAILED, target=self._url.shown, detail=short_error(error)) from None

    def _error_text(self, error: PyMongoError) -> str:
        text = short_error(error)
        if "timed out" not in text or len(self._url.addresses) > 1:
            return text
        host, port = split_host(self._url.addresses[0], PORT)
        if "handshake" in text:
            return reach.timeout_text(host, port, reach.TLS_HANDSHAKE)
        step = HELLO if isinstance(error, ServerSelectionTimeoutError) else reach.LOG_IN
        return reach.timeout_text(host, port, step)

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


class FirstHeartbeatListener(monitoring.ServerHeartbeatListener):
    """A listener for pymongo's heartbeats that notices when one address has answered or all addresses have failed.

    Without it, pymongo tries for all of `REACH_SECONDS` even if every address has refused the connection. pymongo's
    topology events would not be fast enough, since they wait in a queue and arrive up to 1.5 s late.
    """

    def __init__(self, addresses: int) -> None:
        self._addresses = addresses
        self._failed: dict[tuple[str, int | None], Exception] = {}
        self._is_over = threading.Event()

    def wait(self) -> None:
        """Wait until one address answers, or until a time limit has passed.

        Raises `ServerSelectionTimeoutError` as soon as all addresses have failed, with the first error of each.
        """
        # This time limit is longer than one connection attempt may take, so every address has then answered or failed.
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


def short_error(error: PyMongoError) -> str:
    """Return an error in a few words: a server's error as its code's name and message, without the quoted command.

    Other errors of pymongo are returned without the topology description and other details that it appends.
    """
    details = error.details if isinstance(error, OperationFailure) else None
    if details and {"codeName", "errmsg"} <= details.keys():
        message = _COMMAND.sub(r"execute command \1", details["errmsg"])
        return f"{details['codeName']}: {message}"
    text = str(error)
    for noise in (", Timeout:", ", full error:", " (configured timeouts"):
        text = text.split(noise)[0]
    return text


ROLE, ROLE_EVERYWHERE = "readWrite", "readWriteAnyDatabase"
#: The actions of the run, of its clients and of the clean-up, for which the account needs rights.
ACTIONS = ("find", "insert", "update", "remove", "createCollection", "listCollections", "dropCollection")
UNAUTHORIZED = 13


def check_privileges(
    session: MongodbSession, url: MongodbUrl, database: str, collections: Iterable[str], chosen: str | None
) -> None:
    """Raise `PRIVILEGES_MISSING` if the account may not do all `ACTIONS` on these collections of the database.

    The error quotes the command to run (`grant_line`). If the URL has no user, nothing is checked: a server without
    authentication allows everything, and one with authentication refuses the next command.
    """
    if url.username is None:
        return
    privileges = _listed_privileges(session)
    if privileges:
        missing = [
            action for action in ACTIONS if not all(_allows(privileges, action, database, name) for name in collections)
        ]
    else:
        # If the server lists no privileges, the account has none or the server does not check privileges. Try commands
        # to find out which.
        missing = [] if _allows_everything(session, database) else list(ACTIONS)
    if missing:
        raise CostofError(
            ErrorText.PRIVILEGES_MISSING,
            account=url.username,
            actions=", ".join(missing),
            database=database,
            target=url.shown,
            grant=grant_with_hint(chosen, grant_line(url, chosen)),
        )


def grant_line(url: MongodbUrl, chosen: str | None) -> str:
    """Return the mongosh command that grants the account the role that it needs.

    The role is for the database `chosen` by the user or, if that is None, for all databases. A role for costof's
    databases only is not possible: their names are generated, and MongoDB has no roles for a pattern of names.
    """
    role = {"role": ROLE, "db": chosen} if chosen else {"role": ROLE_EVERYWHERE, "db": "admin"}
    values = ", ".join([json.dumps(url.username or "", ensure_ascii=False), f"[{json.dumps(role)}]"])
    return f"db.getSiblingDB({json.dumps(url.auth_source)}).grantRolesToUser({values})"


def _listed_privileges(session: MongodbSession) -> list[dict[str, Any]]:
    """Return the account's privileges as the server lists them; [] if the server refuses to list them."""
    try:
        status = session.client.admin.command("connectionStatus", showPrivileges=True)
    except OperationFailure:
        return []
    return list(status["authInfo"].get("authenticatedUserPrivileges", []))


def _allows_everything(session: MongodbSession, database: str) -> bool:
    """Return whether the account may read, delete and drop, tested on a collection that does not exist."""
    collection = session.client[database][f"costof_{secrets.token_hex(8)}"]

    def test() -> bool:
        try:
            collection.find_one()
            collection.delete_many({})
            collection.drop()
        except OperationFailure as error:
            if error.code == UNAUTHORIZED:
                return False
            raise
        return True

    return bool(session.run(test))


def _allows(privileges: list[dict[str, Any]], action: str, database: str, collection: str) -> bool:
    """Return whether the privileges allow the action on the collection.

    As on the server, an empty database or collection name in a privilege matches all collections except system
    collections.
    """
    covering = (
        privilege
        for privilege in privileges
        if (resource := privilege["resource"]).get("anyResource")
        or (resource.get("db") in ("", database) and resource.get("collection") in ("", collection))
    )
    return any(action in privilege["actions"] for privilege in covering)


#: The `_id` of the document that holds the time of the last heartbeat.
HEARTBEAT = "alive"


class MarkedDatabase:
    """A run's database on a MongoDB server. The collection `MARKER_NAME` has its record (marker) and heartbeat."""

    def __init__(self, session: MongodbSession, name: str) -> None:
        self.name = name
        self._session = session

    def collections(self) -> list[str]:
        names: list[str] = self._session.run(lambda: self._database.list_collection_names())
        return names

    def mark(self, marker: Marker) -> None:
        collection = self._database.get_collection(MARKER_NAME, write_concern=pymongo.WriteConcern("majority"))
        self._session.run(lambda: collection.insert_one({"_id": MARKER, **marker.model_dump()}))

    def marker(self) -> Marker | None:
        document = self._session.run(lambda: self._marker_collection.find_one({"_id": MARKER}))
        return read_marker({name: value for name, value in document.items() if name != "_id"}) if document else None

    def beat(self) -> None:
        """Store the server's current time as the last heartbeat. Raises `PyMongoError`."""
        self._marker_collection.update_one({"_id": HEARTBEAT}, {"$currentDate": {"at": True}}, upsert=True)

    def seconds_since_heartbeat(self) -> float | None:
        """Return the seconds since the last heartbeat, by the server's clock; None if there was no heartbeat."""
        document = self._session.run(lambda: self._marker_collection.find_one({"_id": HEARTBEAT}))
        if not document or not isinstance(document.get("at"), datetime):
            return None
        now = self._session.run(lambda: self._session.client.admin.command("hello"))["localTime"]
        return float((now - document["at"]).total_seconds())

    def remove(self, marker: Marker) -> bool:
        """If the database still has a run's record (`marker`), drop the collections in this record and return True."""
        if self.marker() != marker:
            return False
        for name in [*marker.tables, MARKER_NAME]:
            self._session.run(partial(self._database.drop_collection, name))
        if marker.made_database:
            # The account may lack the right to drop the database. An empty database then stays.
            with suppress(CostofError):
                self.remove_empty()
        return True

    def is_listed(self) -> bool:
        return self.name in self._session.run(self._session.client.list_database_names)

    def remove_empty(self) -> bool:
        """Drop the database if it exists and has no collections, and return whether it was dropped.

        MongoDB removes a database with its last collection, but compatible servers may keep the empty database.
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
        leftovers = []
        for name in sorted(name for name in names if is_allowed_name(name)):
            database = MarkedDatabase(self.session, name)
            marker = database.marker() if MARKER_NAME in database.collections() else None
            if marker is not None:
                in_use = in_use_by_heartbeat(marker, database.seconds_since_heartbeat())
                leftovers.append(Leftover(name, marker, in_use))
            elif is_generated_name(name) and not database.collections():
                # MongoDB itself does not keep a database that a run has emptied, but compatible servers do.
                leftovers.append(Leftover(name, None, None))
        return leftovers

    def remove(self, leftover: Leftover) -> bool:
        database = MarkedDatabase(self.session, leftover.database)
        return database.remove(leftover.marker) if leftover.marker else database.remove_empty()
