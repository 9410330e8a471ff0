"""An HTTP server whose capacity is known by construction: each request waits in one queue and takes a fixed time.

To serve a request, the server only waits, which takes hardly any CPU time. A second port, with TLS, has a queue and a
service time of its own. Latencies follow from the arrivals alone, so the capacity within a latency limit can be
computed.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Coroutine
from functools import partial
from heapq import heappush, heapreplace
from selectors import SelectSelector
from typing import Any

import numpy as np

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


class Queue:
    """A queue with `servers` servers, each of which serves one request at a time for `service` seconds."""

    def __init__(self, service: float, servers: int) -> None:
        self._service = service
        self._free: list[float] = []
        for _ in range(servers):
            heappush(self._free, 0.0)

    def departure(self, now: float) -> float:
        end = max(now, self._free[0]) + self._service
        heapreplace(self._free, end)
        return end


class Connection(asyncio.Protocol):
    def __init__(self, queue: Queue) -> None:
        self._queue, self._received = queue, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        loop = asyncio.get_running_loop()
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            self._received = self._received[end + 4 :]
            loop.call_at(self._queue.departure(loop.time()), self._transport.write, RESPONSE)


async def serve(address: str, services: tuple[float, float], servers: int, certificate: str) -> None:
    """Serve plain HTTP on port 8080 and HTTPS on port 8443, and say so on standard output."""
    loop, context = asyncio.get_running_loop(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    for port, service, tls in ((8080, services[0], None), (8443, services[1], context)):
        await loop.create_server(partial(Connection, Queue(service, servers)), address, port, ssl=tls, backlog=1000)
    print("ready", flush=True)
    await asyncio.Event().wait()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` with exact timers. asyncio's usual loop rounds each wait up to a millisecond, because epoll counts so.

    Such a delay of each response would lower the capacity.
    """
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(SelectSelector())) as runner:
        runner.run(main)


def capacity(service: float, servers: int, limit: float, share: float, requests: int = 2_000_000) -> float:
    """Return the rate of random arrivals at which `share` of the requests takes longer than `limit` seconds.

    The queue is simulated with the same random numbers at each rate of a bisection, so the result hardly varies.
    """
    gaps = np.random.default_rng(7).exponential(1.0, requests)
    low, high = 0.1 * servers / service, servers / service
    while high > 1.0005 * low:
        rate = (low * high) ** 0.5
        late = float((_sojourns(np.cumsum(gaps) / rate, service, servers) > limit).mean())
        low, high = (rate, high) if late <= share else (low, rate)
    return (low * high) ** 0.5


def _sojourns(arrivals: np.ndarray, service: float, servers: int) -> np.ndarray:
    """Return the times of requests in the queue and at a server.

    With equal service times, requests leave in the order of their arrival, and each of n servers serves every n-th
    request.
    """
    times = np.empty_like(arrivals)
    for first in range(servers):
        own = arrivals[first::servers]
        numbers = np.arange(len(own))
        times[first::servers] = np.maximum.accumulate(own - numbers * service) + (numbers + 1) * service - own
    return times


if __name__ == "__main__":
    address, plain, tls, servers, certificate = sys.argv[1:]
    run(serve(address, (float(plain), float(tls)), int(servers), certificate))
