"""A log-in to a user's own MongoDB for administration: under TLS or in plain, as its URL asks.

There is no second try by the other way: whoever stands between could make the first one fail, and listen to the second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pymongo
from pymongo import monitoring
from pymongo.errors import OperationFailure, PyMongoError, ServerSelectionTimeoutError

from costof.errors import CostofError, Problem
from costof.programs import reach
from costof.programs.mongod.url import MongodbUrl
from costof.urls import split_host

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
            raise CostofError(Problem.PASSWORD_MISSING, target=self._url.shown)
        look = FirstLook(addresses=len(set(self._url.addresses)))
        client = self._connect(self._url.addresses, replica_set=self._url.replica_set, event_listeners=[look])
        try:
            look.found()
            with pymongo.timeout(STEPS_OF_LOG_IN * reach.REACH_SECONDS):
                client.admin.command("ping")
        except OperationFailure as error:
            client.close()
            problem = Problem.TARGET_REFUSES_LOGIN if error.code == AUTHENTICATION_FAILED else Problem.TARGET_FAILED
            raise CostofError(problem, target=self._url.shown, detail=first_words(error)) from None
        except PyMongoError as error:
            client.close()
            told = self._words_of(error)
            if not any(words in told for words in NOBODY_THERE):
                told += f"; {MAY_BE_PLAIN if self._url.tls else MAY_WANT_TLS}"
            raise CostofError(Problem.TARGET_UNREACHABLE, target=self._url.shown, detail=told) from None
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

    def asked(self, question: Callable[[], Any]) -> Any:
        """Raises `TARGET_FAILED`."""
        try:
            return question()
        except PyMongoError as error:
            raise CostofError(Problem.TARGET_FAILED, target=self._url.shown, detail=first_words(error)) from None

    def _words_of(self, error: PyMongoError) -> str:
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
    """pymongo appends its whole view of the topology to its errors; the first part tells the user."""
    text = str(error)
    for noise in (", Timeout:", ", full error:", " (configured timeouts"):
        text = text.split(noise)[0]
    return text
