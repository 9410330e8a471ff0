"""The ciphertext of a gateway's columns, as a driver reads it (docs/architecture.md, "What is sent").

The engine's `encryption` module is the other implementation; both are checked against
`tests/vectors/column-encryption.json`. No error here holds a byte of a key or of a value.
"""

from __future__ import annotations

import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap
from cryptography.hazmat.primitives.padding import PKCS7

from costof.errors import Undecipherable

MAGIC = b"costofE1"
INFO = b"costof column encryption 1 "
KEY = 16
BLOCK = 16
NONCE = 12
TAG = 16


class RefusedError(Exception):
    """It cannot be decrypted; the one error of this module."""

    def __init__(self, problem: Undecipherable, **fields: object) -> None:
        super().__init__(problem.text(**fields))


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
        """In the derivation of its keys."""
        return self.name.lower().replace("_", "-")


class RowFormat(Enum):
    """How a row is laid out in which a value stands: of a query, or of a prepared statement."""

    TEXT = 0
    BINARY = 1


class OriginalType(NamedTuple):
    """What the server's definition says of a column (MySQL Internals, "Protocol::ColumnDefinition41")."""

    charset: int
    length: int
    kind: int
    flags: int
    decimals: int


_ORIGINAL = struct.Struct("<HIBHB")


@dataclass(frozen=True)
class Envelope:
    """What travels behind an encrypted column's definition. Without a key nobody there can decrypt the column."""

    algorithm: Algorithm
    original: OriginalType
    master_key: str
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
        wrapped, rest = _short_text(rest)
        if rest or len(wrapped) != (KEY + 8 if name else 0):
            raise ValueError
        return cls(algorithm, original, name.decode(), wrapped)

    def associated_data(self, row_format: RowFormat, names: tuple[bytes, bytes, bytes]) -> bytes:
        """What a value is bound to. `names` are the original ones of database, table and column."""
        data = bytes([self.algorithm.value]) + _ORIGINAL.pack(*self.original) + bytes([row_format.value])
        return data + b"".join(name + b"\0" for name in names)


def _short_text(text: bytes) -> tuple[bytes, bytes]:
    """What a length of one byte announces, and the rest."""
    end = 1 + text[0]
    if len(text) < end:
        raise ValueError
    return text[1:end], text[end:]


def master_key(key: str | bytes) -> bytes:
    """16 bytes, or the same in hexadecimal. Raises `RefusedError`."""
    try:
        found = bytes.fromhex(key) if isinstance(key, str) else key
    except ValueError:
        found = b""
    # A number would make so many zeros.
    if not isinstance(found, bytes) or len(found) != KEY:
        raise RefusedError(Undecipherable.MASTER_KEY)
    return found


class KeyRing:
    """Master keys by their names in a gateway's rules, and what decrypts with them in one session."""

    def __init__(self, master_keys: Mapping[str, str | bytes]) -> None:
        """Raises `RefusedError` where one of them is no key."""
        self._master_keys = {name: master_key(key) for name, key in master_keys.items()}
        self._openers: dict[tuple[str, bytes, Algorithm], Opener] = {}

    def opener(self, envelope: Envelope) -> Opener:
        """For a column that is not opaque. Raises `RefusedError` where its master key is missing or another."""
        place = envelope.master_key, envelope.wrapped, envelope.algorithm
        found = self._openers.get(place)
        if found is None:
            # A session has few data keys; whoever sends new ones without end must not fill the memory.
            if len(self._openers) >= 100:
                self._openers.clear()
            found = self._openers[place] = opener(envelope.algorithm, self._unwrap(envelope))
        return found

    def _unwrap(self, envelope: Envelope) -> bytes:
        key = self._master_keys.get(envelope.master_key)
        if key is None:
            raise RefusedError(Undecipherable.KEY_MISSING, name=repr(envelope.master_key))
        try:
            return aes_key_unwrap(key, envelope.wrapped)
        except InvalidUnwrap:
            raise RefusedError(Undecipherable.KEY_WRONG, name=repr(envelope.master_key)) from None


class Opener(ABC):
    """Decrypts a session's values by one algorithm."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._number = algorithm.value

    def open(self, associated: bytes, sealed: bytes) -> bytes:
        """Raises `RefusedError` where the value was changed, or sealed under another key or for another column."""
        try:
            if sealed[0] != self._number:
                raise ValueError
            return self._open(associated, sealed)
        except (ValueError, IndexError, InvalidTag):
            raise RefusedError(Undecipherable.VALUE) from None

    @abstractmethod
    def _open(self, associated: bytes, sealed: bytes) -> bytes: ...


def opener(algorithm: Algorithm, data_key: bytes) -> Opener:
    """With keys that follow from this data key."""
    keys = HKDF(SHA256(), length=KEY + 32, salt=None, info=INFO + algorithm.label.encode()).derive(data_key)
    key, mac_key = keys[:KEY], keys[KEY:]
    match algorithm:
        case Algorithm.AES_128_GCM:
            return _AesGcm(algorithm, key)
        case Algorithm.SM4_GCM:
            return _Sm4Gcm(algorithm, key)
        case Algorithm.AES_128_CTR:
            return _Ctr(algorithm, key, mac_key)
        case Algorithm.AES_128_CBC | Algorithm.SM4_CBC:
            return _Cbc(algorithm, key, mac_key)
        case Algorithm.AES_128_ECB:
            return _Ecb(algorithm, key, mac_key)


class _AesGcm(Opener):
    def __init__(self, algorithm: Algorithm, key: bytes) -> None:
        super().__init__(algorithm)
        self._decrypt = AESGCM(key).decrypt

    def _open(self, associated: bytes, sealed: bytes) -> bytes:
        return self._decrypt(sealed[1 : 1 + NONCE], sealed[1 + NONCE :], associated)


class _Sm4Gcm(Opener):
    def __init__(self, algorithm: Algorithm, key: bytes) -> None:
        super().__init__(algorithm)
        self._key = algorithms.SM4(key)

    def _open(self, associated: bytes, sealed: bytes) -> bytes:
        if len(sealed) < 1 + NONCE + TAG:
            raise ValueError
        mode = modes.GCM(sealed[1 : 1 + NONCE], sealed[-TAG:])
        decryptor = Cipher(self._key, mode).decryptor()
        decryptor.authenticate_additional_data(associated)
        return decryptor.update(sealed[1 + NONCE : -TAG]) + decryptor.finalize()


class _WithMac(Opener):
    """A mode that does not authenticate, and a MAC. Nothing is decrypted that does not prove itself."""

    def __init__(self, algorithm: Algorithm, key: bytes, mac_key: bytes) -> None:
        super().__init__(algorithm)
        self._key = algorithms.SM4(key) if algorithm is Algorithm.SM4_CBC else algorithms.AES(key)
        self._mac_key = mac_key

    def _open(self, associated: bytes, sealed: bytes) -> bytes:
        value, tag = sealed[:-TAG], sealed[-TAG:]
        mac = hmac.digest(self._mac_key, associated + value + struct.pack(">Q", len(associated)), "sha256")
        if not hmac.compare_digest(mac[:TAG], tag):
            raise ValueError
        return self._decrypt(value[1:])

    @abstractmethod
    def _decrypt(self, body: bytes) -> bytes: ...

    def _run(self, mode: modes.CTR | modes.CBC | modes.ECB, ciphertext: bytes) -> bytes:
        decryptor = Cipher(self._key, mode).decryptor()
        return decryptor.update(ciphertext) + decryptor.finalize()


class _Ctr(_WithMac):
    def _decrypt(self, body: bytes) -> bytes:
        return self._run(modes.CTR(body[:BLOCK]), body[BLOCK:])


class _Cbc(_WithMac):
    def _decrypt(self, body: bytes) -> bytes:
        return _without_padding(self._run(modes.CBC(body[:BLOCK]), body[BLOCK:]))


class _Ecb(_WithMac):
    def _decrypt(self, body: bytes) -> bytes:
        return _without_padding(self._run(modes.ECB(), body))  # noqa: S305 - the rules ask for it


def _without_padding(text: bytes) -> bytes:
    unpadder = PKCS7(8 * BLOCK).unpadder()
    return unpadder.update(text) + unpadder.finalize()
