"""Packets of TCP connections as a network device saw them (AF_PACKET), for tests: what went which way, and when."""

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
# asm-generic/socket.h: beyond net.core.rmem_max.
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
#: Tens of thousands of packets: who captures reads them once a slice is over, and takes none of its CPU time meanwhile.
BUFFER_BYTES = 1 << 26
TIMESPEC = struct.Struct("@qq")
FIN, SYN, ACK = 0x01, 0x02, 0x10


@dataclass(frozen=True)
class Segment:
    """A TCP segment. `ours` is the client's port; `payload` its bytes of data; `at_ns` the kernel's time of day."""

    outgoing: bool
    ours: int
    flags: int
    payload: int
    at_ns: int


class Capture:
    """All that a host sends to and receives from one port, from entering on. A context manager."""

    def __init__(self, host: Host, port: int) -> None:
        self._port = port
        # Cooked: without a link layer's header, so that a TUN device looks like an Ethernet one. Not bound to IP: what
        # is sent is shown to those alone who ask for everything.
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
        """What has passed since the last call. Bytes that a client has read are among them."""
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
    """Round trips of one connection until `received` bytes have come: something that arrives after something was sent.

    A SYN and its answer are one; the ACK that ends that handshake counts as sent, other bare ACKs do not.
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
    """Nanoseconds from each request's first packet to its answer's last, of clients that wait for answers."""
    asked: dict[int, int] = {}
    answered: dict[int, int] = {}
    found = []
    for segment in segments:
        if not segment.payload:
            continue
        if not segment.outgoing:
            answered[segment.ours] = segment.at_ns
        elif segment.ours not in asked or segment.ours in answered:
            if segment.ours in answered:
                found.append(answered.pop(segment.ours) - asked[segment.ours])
            asked[segment.ours] = segment.at_ns
    return found + [answered[ours] - asked[ours] for ours in answered]
