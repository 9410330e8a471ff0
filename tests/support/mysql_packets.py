"""Parses MySQL packets as the protocol describes them (MySQL Internals, "Client/Server Protocol"), without a driver."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

OK, END, ERROR = 0x00, 0xFE, 0xFF
BLOB, BINARY_CHARSET = 0xFC, 63
# The minimum length of an AES-128-GCM ciphertext: one byte for the algorithm, a nonce and a tag.
LEAST_CIPHERTEXT = 29
# Sizes of types whose values have no length prefix in binary rows: tiny, short, long, float, double, longlong, int24,
# year.
FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 4, 13: 2}
NULL_TYPE = 6

Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Column:
    """The definition of a column in a result set.

    `names` are the names of database, table and column on the server. `tail` has the bytes after the definition. A
    gateway adds an envelope to the tail, which says how the column is encrypted.
    """

    name: bytes
    names: tuple[bytes, bytes, bytes]
    type: int
    charset: int
    tail: bytes


def length(data: bytes, at: int) -> tuple[int, int]:
    more = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(data[at], 0)
    return (int.from_bytes(data[at + 1 : at + 1 + more], "little"), at + 1 + more) if more else (data[at], at + 1)


def text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = length(data, at)
    return data[at : at + size], at + size


def as_text(word: bytes) -> bytes:
    assert len(word) < 251
    return bytes([len(word)]) + word


def definition(packet: bytes) -> Column:
    words, at = [], 0
    for _ in range(6):
        word, at = text(packet, at)
        words.append(word)
    charset, _, kind = struct.unpack_from("<xHIB", packet, at)
    return Column(words[4], (words[1], words[3], words[5]), kind, charset, packet[at + 13 :])


def text_row(packet: bytes) -> Row:
    values: list[bytes | None] = []
    at = 0
    while at < len(packet):
        value, at = (None, at + 1) if packet[at] == 0xFB else text(packet, at)
        values.append(value)
    return tuple(values)


def binary_row(packet: bytes, columns: list[Column]) -> Row:
    """Return the values of a binary row without length prefixes. Two unused bits precede the bitmap of NULL columns."""
    values: list[bytes | None] = []
    at = 1 + (len(columns) + 9) // 8
    for place, column in enumerate(columns, 2):
        value: bytes | None = None
        if not packet[1 + place // 8] >> place % 8 & 1 and column.type != NULL_TYPE:
            size = FIXED.get(column.type)
            value, at = text(packet, at) if size is None else (packet[at : at + size], at + size)
        values.append(value)
    assert at == len(packet)
    return tuple(values)


def error(packet: bytes) -> tuple[int, str]:
    words = packet[3:]
    return int.from_bytes(packet[1:3], "little"), (words[6:] if words[:1] == b"#" else words).decode(errors="replace")


def proof(password: str, scramble: bytes) -> bytes:
    """Return the answer for mysql_native_password: SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password)))."""
    if not password:
        return b""
    once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    twice = hashlib.sha1(once, usedforsecurity=False).digest()
    mask = hashlib.sha1(scramble[:20] + twice, usedforsecurity=False).digest()
    return bytes(left ^ right for left, right in zip(once, mask, strict=True))
