"""The envelope: encryption parameters of a column in a MySQL result set.

The gateway (an encrypting proxy) appends the envelope to the column's definition in the result set.

docs/column-encryption-protocol.md describes the format. In Python it is implemented by `envelope.py`, `keys.py` and
`schemes.py`, in Rust by the crate `encryption`. Both are tested with `tests/vectors/column-encryption.json`. No error
message contains a byte of a key or of a value.
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
#: The length of a data key (16 bytes) after its encryption with AES key wrap (RFC 3394).
_WRAPPED_BYTES = 24


class RefusedError(Exception):
    """Raised for an invalid ciphertext, key or column name."""

    def __init__(self, message: Message[Fields], *args: Fields.args, **fields: Fields.kwargs) -> None:
        super().__init__(message.text(*args, **fields))


class Algorithm(Enum):
    """The encryption algorithms, and their numbers in an envelope."""

    AES_128_GCM = 1
    AES_128_CTR = 2
    AES_128_CBC = 3
    AES_128_ECB = 4
    SM4_GCM = 5
    SM4_CBC = 6

    @property
    def label(self) -> str:
        """Return the algorithm's name, such as 'aes-128-gcm'. Key derivation uses the name in this form."""
        return self.name.lower().replace("_", "-")


class RowFormat(Enum):
    """MySQL's formats of result rows: TEXT for queries, BINARY for prepared statements."""

    TEXT = 0
    BINARY = 1


class OriginalType(NamedTuple):
    """A column's type before encryption, as the server defines it (MySQL Internals, "Protocol::ColumnDefinition41")."""

    charset: int
    length: int
    kind: int
    flags: int
    decimals: int


@dataclass(frozen=True)
class Envelope:
    """The encryption parameters of a column.

    `wrapped` is the data key, encrypted with the master key whose name is `master_key`. It is empty if this client may
    not decrypt the column. `number` is the data key's number: a session uses several data keys, one after another.
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
        """Parse the bytes that follow the last field of a column definition; return None if there are none.

        Without a gateway (an encrypting proxy), no bytes follow. Raises `RefusedError` if the bytes are not exactly one
        envelope.
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
        """Return the associated data (as in AEAD, RFC 5116) with which the values of this column are authenticated.

        `row_format` is the format of the rows in which the values arrive. `names` are the original names of database,
        table and column, without aliases.
        """
        data = bytes([self.algorithm.value]) + _ORIGINAL.pack(*self.original) + bytes([row_format.value])
        return data + b"".join(name + b"\0" for name in names)


def _short_text(text: bytes) -> tuple[bytes, bytes]:
    end = 1 + text[0]
    if len(text) < end:
        raise ValueError
    return text[1:end], text[end:]
