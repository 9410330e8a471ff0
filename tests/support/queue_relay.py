"""A relay in front of a database that lets it serve one query at a time, each for a fixed time.

Queries in plain text and under TLS have queues and service times of their own. The capacity within a latency limit is
therefore known by construction (`queue_server.capacity`), although a real server answers each query. The relay does not
read what it forwards: it recognizes queries by their length, and forwards anything else, such as log-ins, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from functools import partial

from tests.support.queue_server import Queue, run

#: The length of costof's prepared SELECT for MySQL, in plain text and in a record of TLS 1.3.
PLAIN_BYTES, TLS_BYTES = 26, 48


class Turns:
    """A queue of queries, each of which has a turn of fixed length.

    `late` counts answers of the server that came after the end of their turn. `late_seconds` is the sum of the delays.
    """

    def __init__(self, service: float) -> None:
        self.service, self.queue = service, Queue(service, 1)
        self.queries = self.late = 0
        self.late_seconds = 0.0


class Server(asyncio.Protocol):
    """The relay's connection to the server. Each client of the relay has one."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client
        #: While the server answers a query: the queue of the query, and the time before which the answer is held back.
        self.turn: tuple[Turns, float] | None = None

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if self.turn is None:
            self._client.write(data)
            return
        turns, end = self.turn
        if (beyond := loop.time() - end) > 0:
            turns.late += 1
            turns.late_seconds += beyond
        loop.call_at(end, self._client.write, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class Client(asyncio.Protocol):
    def __init__(self, turns: dict[int, Turns], server: tuple[str, int]) -> None:
        self._turns, self._address = turns, server
        self._server: asyncio.Transport | None = None
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # The server speaks first, so a client sends nothing before the relay is connected to the server.
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._server, self._answers = await loop.create_connection(partial(Server, self._transport), *self._address)
        if self._closed:
            self._server.close()

    def data_received(self, data: bytes) -> None:
        assert self._server is not None
        loop, turns = asyncio.get_running_loop(), self._turns.get(len(data))
        if turns is None:
            self._answers.turn = None
            self._server.write(data)
            return
        turns.queries += 1
        end = turns.queue.departure(loop.time())
        self._answers.turn = turns, end
        loop.call_at(end - turns.service, self._server.write, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()


def hurry() -> None:
    """Give the relay real-time priority, if permitted. Without priority it may wait for a core, and turns end late."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


async def relay(entrance: tuple[str, int], server: tuple[str, int], plain: float, tls: float) -> None:
    """Relay connections to the server, and print once a second how many answers there were, and how many came late."""
    turns = {PLAIN_BYTES: Turns(plain), TLS_BYTES: Turns(tls)}
    await asyncio.get_running_loop().create_server(partial(Client, turns, server), *entrance, backlog=1000)
    while True:
        await asyncio.sleep(1)
        print(*((each.queries, each.late, round(each.late_seconds, 3)) for each in turns.values()), flush=True)


if __name__ == "__main__":
    address, entrance, server, plain, tls = sys.argv[1:]
    hurry()
    run(relay((address, int(entrance)), (address, int(server)), float(plain), float(tls)))
