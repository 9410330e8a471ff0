"""Captures TCP packets of a host with AF_PACKET: their direction, size and time."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from costof.lab.host import Host, socket_in

ETH_P_IP = 0x0800
ETH_P_ALL = 0x0003
# From asm-generic/socket.h. SO_RCVBUFFORCE may exceed net.core.rmem_max.
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
#: Room for tens of thousands of packets, which are read only after a slice, so that reading takes no CPU time in it.
BUFFER_BYTES = 1 << 26
TIMESPEC = struct.Struct("@qq")
FIN, SYN, ACK = 0x01, 0x02, 0x10


@dataclass(frozen=True)
class Segment:
    """A TCP segment: the client's port (`ours`), number of data bytes (`payload`), kernel's time of day (`at_ns`)."""

    outgoing: bool
    ours: int
    flags: int
    payload: int
    at_ns: int


class Capture:
    """A context manager that captures a host's packets to and from one port from its creation on."""

    def __init__(self, host: Host, port: int) -> None:
        self._port = port
        # SOCK_DGRAM omits the header of the link layer, so TUN and Ethernet devices look alike. ETH_P_ALL is used
        # instead of ETH_P_IP, because only sockets for all protocols see outgoing packets.
        self._socket = socket_in(host.namespace, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def segments(self) -> list[Segment]:
        """Return the segments captured since the last call. All data that a client has read by now is included."""
        return list(self._received())

    def _received(self) -> Iterator[Segment]:
        while True:
            try:
                room = socket.CMSG_SPACE(TIMESPEC.size)
                packet, ((_, _, stamp),), _, (_, protocol, kind, *_) = self._socket.recvmsg(1 << 16, room)
            except BlockingIOError:
                return
            if protocol != ETH_P_IP or packet[9] != socket.IPPROTO_TCP:
                continue
            (total,) = struct.unpack_from("!H", packet, 2)
            ip = (packet[0] & 0x0F) * 4
            source, target, _, _, offset, flags = struct.unpack_from("!HHIIBB", packet, ip)
            outgoing = kind == socket.PACKET_OUTGOING
            theirs, ours = (target, source) if outgoing else (source, target)
            if theirs == self._port:
                seconds, nanoseconds = TIMESPEC.unpack(stamp)
                payload = total - ip - (offset >> 4) * 4
                yield Segment(outgoing, ours, flags, payload, seconds * 10**9 + nanoseconds)


def round_trips(segments: list[Segment], received: int) -> int:
    """Return the number of round trips of one connection until `received` bytes have arrived.

    A round trip ends when something arrives after something was sent. A SYN and its answer are one round trip. The ACK
    that ends this handshake counts as sent; other ACKs without data do not.
    """
    trips, sent, opening, came = 0, False, False, 0
    for segment in segments:
        if segment.outgoing:
            sent = sent or segment.payload > 0 or bool(segment.flags & SYN) or opening
            opening = False
        elif segment.payload or segment.flags & SYN:
            trips += sent
            sent = False
            opening = bool(segment.flags & SYN)
            came += segment.payload
            if came >= received:
                break
    return trips


def response_times(segments: list[Segment]) -> list[int]:
    """Return the ns from each request's first packet to its answer's last packet.

    A client must wait for an answer before its next request.
    """
    requested: dict[int, int] = {}
    answered: dict[int, int] = {}
    delays = []
    for segment in segments:
        if not segment.payload:
            continue
        if not segment.outgoing:
            answered[segment.ours] = segment.at_ns
        elif segment.ours not in requested or segment.ours in answered:
            if segment.ours in answered:
                delays.append(answered.pop(segment.ours) - requested[segment.ours])
            requested[segment.ours] = segment.at_ns
    return delays + [answered[ours] - requested[ours] for ours in answered]
