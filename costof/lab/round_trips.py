"""Measurement of a link's actual round-trip time, by ICMP and by TCP, with the kernel's time stamps."""

from __future__ import annotations

import math
import selectors
import socket
import statistics
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from pydantic import Field

from costof.lab.host import Link
from costof.model import Finite, Model

# From asm-generic/socket.h: Python's socket module lacks this constant.
SO_TIMESTAMPNS = 35
ICMP_ECHO_REQUEST = 8
ICMP_ECHO_REPLY = 0
IDENTIFIER = 0xC057
IP_HEADER_BYTES = 20
# The offset of tcpi_rtt, in microseconds, in struct tcp_info of linux/tcp.h.
TCPI_RTT_OFFSET = 68
# A probe is lost if its answer takes longer than the sum of the link's nominal round-trip time and this time.
PATIENCE_SECONDS = 1.0
# Number of ICMP probes and of TCP probes on a link, enough for a median. Together they take 0.2 s and two round trips.
PROBES = 20
BY_ICMP, BY_TCP = "ICMP", "TCP_INFO"


@dataclass(frozen=True)
class RoundTrips:
    """A summary of the round trips of probes. `count` probes were answered, `lost` were not.

    The times are NaN if there was no answer. `error_ms` is the standard error of the mean. It is NaN if there were
    fewer than two answers.
    """

    median_ms: float
    p99_ms: float
    count: int
    lost: int
    quickest_ms: float
    mean_ms: float
    error_ms: float


@dataclass(frozen=True)
class LinkRoundTrips:
    """The measured round trips of a link. `icmp` is None without namespaces, since raw sockets then need root."""

    link: str
    nominal_ms: float
    icmp: RoundTrips | None
    tcp: RoundTrips


def measure_link(link: Link, count: int = 50, interval_ms: float = 5.0) -> LinkRoundTrips:
    """Measure round trips from `link.a` to `link.b`, by ICMP echoes and by TCP_INFO after TCP handshakes.

    Each of the two measurements sends `count` probes, one every `interval_ms`, without waiting for their answers. A
    measurement therefore takes count x interval + one round trip.
    """
    patience = link.round_trip_ms / 1000 + PATIENCE_SECONDS
    icmp = _echoes(link, count, interval_ms / 1000, patience) if link.a.namespace else None
    return LinkRoundTrips(link.name, link.round_trip_ms, icmp, _handshakes(link, count, interval_ms / 1000, patience))


def summary(samples_ms: list[float], probes: int) -> RoundTrips:
    """Summarize the round trips of the answered probes. `probes` is the number of all probes.

    p99 is the smallest sample that 99 % of the samples do not exceed.
    """
    if not samples_ms:
        return RoundTrips(math.nan, math.nan, 0, probes, math.nan, math.nan, math.nan)
    ordered, count = sorted(samples_ms), len(samples_ms)
    return RoundTrips(
        median_ms=statistics.median(ordered),
        p99_ms=ordered[math.ceil(0.99 * count) - 1],
        count=count,
        lost=probes - count,
        quickest_ms=ordered[0],
        mean_ms=statistics.fmean(ordered),
        error_ms=statistics.stdev(ordered) / math.sqrt(count) if count > 1 else math.nan,
    )


def _echoes(link: Link, count: int, interval: float, patience: float) -> RoundTrips:
    sent: dict[int, int] = {}
    samples: dict[int, float] = {}
    with link.a.socket(socket.SOCK_RAW, socket.IPPROTO_ICMP) as echo, selectors.DefaultSelector() as selector:
        # The kernel records when an answer arrives, so that the wake-up of this process is not measured.
        echo.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        echo.connect((link.b_address, 0))
        echo.setblocking(False)
        selector.register(echo, selectors.EVENT_READ)
        start = time.monotonic()
        while len(samples) < count and time.monotonic() < start + count * interval + patience:
            number = len(sent)
            if number < count and time.monotonic() >= start + number * interval:
                sent[number] = time.time_ns()
                echo.send(echo_request(number))
            next_send = start + len(sent) * interval if len(sent) < count else math.inf
            selector.select(max(0.0, min(next_send - time.monotonic(), 0.1)))
            # Read all answers before checking the time, so that none gets lost if this machine was paused.
            samples |= dict(_received_echoes(echo, sent))
    return summary(list(samples.values()), count)


def _received_echoes(echo: socket.socket, sent: dict[int, int]) -> Iterator[tuple[int, float]]:
    while True:
        try:
            packet, ancillary, _, _ = echo.recvmsg(2048, 256)
        except BlockingIOError:
            return
        kind, _, _, identifier, number = struct.unpack_from("!BBHHH", packet, IP_HEADER_BYTES)
        stamps = [data for level, what, data in ancillary if (level, what) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)]
        if kind == ICMP_ECHO_REPLY and identifier == IDENTIFIER and number in sent and stamps:
            seconds, nanoseconds = struct.unpack("@ll", stamps[0][:16])
            yield number, (seconds * 1_000_000_000 + nanoseconds - sent[number]) / 1e6


def echo_request(number: int) -> bytes:
    body = struct.pack("!HH", IDENTIFIER, number) + bytes(56)
    header = struct.pack("!BBH", ICMP_ECHO_REQUEST, 0, 0)
    return struct.pack("!BBH", ICMP_ECHO_REQUEST, 0, internet_checksum(header + body)) + body


def internet_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071 for an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return total ^ 0xFFFF


def _handshakes(link: Link, count: int, interval: float, patience: float) -> RoundTrips:
    """Measure the round trips of TCP handshakes: TCP_INFO is read before a connection transfers any data."""
    samples: list[float] = []
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        listener = stack.enter_context(link.b.socket())
        listener.bind((link.b_address, 0))
        listener.listen(count)
        start = time.monotonic()
        opened = 0
        while len(samples) < count and time.monotonic() < start + count * interval + patience:
            if opened < count and time.monotonic() >= start + opened * interval:
                opened += 1
                connection = stack.enter_context(link.a.socket())
                connection.setblocking(False)
                connection.connect_ex(listener.getsockname())
                selector.register(connection, selectors.EVENT_WRITE)
            next_open = start + opened * interval if opened < count else math.inf
            for key, _ in selector.select(max(0.0, min(next_open - time.monotonic(), 0.1))):
                assert isinstance(key.fileobj, socket.socket)
                selector.unregister(key.fileobj)
                if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    samples.append(tcp_round_trip_ms(key.fileobj))
    return summary(samples, count)


def tcp_round_trip_ms(connection: socket.socket) -> float:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCPI_RTT_OFFSET + 4)
    return float(struct.unpack_from("@I", info, TCPI_RTT_OFFSET)[0]) / 1000


class LinkEvidence(Model):
    """The round trip of one of the lab's links in milliseconds, as configured and as measured by one method."""

    name: str
    nominal_ms: Finite
    method: str = Field(description="'ICMP' or 'TCP_INFO'.")
    median_ms: Finite
    p99_ms: Finite
    probes: int
    mean_ms: Finite | None = Field(default=None, description="None if there was a single answer.")
    error_ms: Finite | None = Field(
        default=None, description="The mean's standard error; None if there was a single answer."
    )


def measured(link: Link) -> list[LinkEvidence]:
    """Measure a link. Return one result for each method (ICMP, TCP), except a method without any answered probe."""
    round_trips = measure_link(link, count=PROBES)
    methods = {BY_ICMP: round_trips.icmp, BY_TCP: round_trips.tcp}
    return [
        LinkEvidence(
            name=link.name,
            nominal_ms=link.round_trip_ms,
            method=method,
            median_ms=trips.median_ms,
            p99_ms=trips.p99_ms,
            probes=trips.count,
            **({"mean_ms": trips.mean_ms, "error_ms": trips.error_ms} if trips.count > 1 else {}),
        )
        for method, trips in methods.items()
        if trips is not None and not math.isnan(trips.median_ms)
    ]
