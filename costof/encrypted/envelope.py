"""What travels behind an encrypted column's definition (docs/column-encryption-protocol.md, "What is sent").

The ciphertext that a driver reads is described by three files: `envelope.py`, `keys.py` and `schemes.py`. The engine's
crate `encryption` is the other implementation; both are checked against `tests/vectors/column-encryption.json`. No
error in them holds a byte of a key or of a value.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from costof.errors import Fields, Message, Undecipherable

MAGIC = b"costofE2"
OLDER = b"costofE1"
_ORIGINAL = struct.Struct("<HIBHB")
_NUMBER_BYTES = 4
#: A data key of 16 bytes, wrapped (RFC 3394).
_WRAPPED_BYTES = 24


class RefusedError(Exception):
    """A ciphertext, a key or the name of a column is refused. Nothing else is raised by the files beside this one."""

    def __init__(self, problem: Message[Fields], *args: Fields.args, **fields: Fields.kwargs) -> None:
        super().__init__(problem.text(*args, **fields))


class Algorithm(Enum):
    """By their numbers in an envelope."""

    AES_128_GCM = 1
    AES_128_CTR = 2
    AES_128_CBC = 3
    AES_128_ECB = 4
    SM4_GCM = 5
    SM4_CBC = 6

    @property
    def label(self) -> str:
        """Its name in the derivation of its keys."""
        return self.name.lower().replace("_", "-")


class RowFormat(Enum):
    """How the row of a value is laid out: of a query, or of a prepared statement."""

    TEXT = 0
    BINARY = 1


class OriginalType(NamedTuple):
    """What the server's definition says of a column (MySQL Internals, "Protocol::ColumnDefinition41")."""

    charset: int
    length: int
    kind: int
    flags: int
    decimals: int


@dataclass(frozen=True)
class Envelope:
    """What travels behind an encrypted column's definition. Without a key nobody there can decrypt the column.

    `number`: that of the wrapped data key among its session's; a later one has a higher.
    """

    algorithm: Algorithm
    original: OriginalType
    master_key: str
    number: int
    wrapped: bytes

    @property
    def is_opaque(self) -> bool:
        return not self.wrapped

    @classmethod
    def parse(cls, tail: bytes) -> Envelope | None:
        """From all that follows a definition's last field; None, where nothing does.

        Raises `RefusedError` where it is cut, longer, or not of this form: no server sends anything there.
        """
        if not tail:
            return None
        if tail.startswith(OLDER):
            raise RefusedError(Undecipherable.ENVELOPE_OLDER)
        try:
            return cls._read(tail)
        except (ValueError, IndexError, struct.error):
            raise RefusedError(Undecipherable.ENVELOPE) from None

    @classmethod
    def _read(cls, tail: bytes) -> Envelope:
        if not tail.startswith(MAGIC):
            raise ValueError
        start = len(MAGIC) + 1
        algorithm = Algorithm(tail[start - 1])
        original = OriginalType(*_ORIGINAL.unpack_from(tail, start))
        name, rest = _short_text(tail[start + _ORIGINAL.size :])
        key, rest = _short_text(rest)
        if rest or len(key) != (_NUMBER_BYTES + _WRAPPED_BYTES if name else 0):
            raise ValueError
        number = int.from_bytes(key[:_NUMBER_BYTES], "big")
        return cls(algorithm, original, name.decode(), number, key[_NUMBER_BYTES:])

    def associated_data(self, row_format: RowFormat, names: tuple[bytes, bytes, bytes]) -> bytes:
        """Return what a value is bound to. `names`: the original ones of database, table and column."""
        data = bytes([self.algorithm.value]) + _ORIGINAL.pack(*self.original) + bytes([row_format.value])
        return data + b"".join(name + b"\0" for name in names)


def _short_text(text: bytes) -> tuple[bytes, bytes]:
    """Return what a length of one byte announces, and the rest."""
    end = 1 + text[0]
    if len(text) < end:
        raise ValueError
    return text[1:end], text[end:]
