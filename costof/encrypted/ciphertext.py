"""The ciphertext of a gateway's columns, as a driver reads it (docs/column-encryption.md, "What is sent").

The engine's `encryption` module is the other implementation; both are checked against
`tests/vectors/column-encryption.json`. No error here holds a byte of a key or of a value.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap
from cryptography.hazmat.primitives.padding import PKCS7

from costof.errors import Undecipherable

MAGIC = b"costofE2"
OLDER = b"costofE1"
INFO = b"costof column encryption 2 "
KEY = 16
BLOCK = 16
NONCE = 12
TAG = 16
SCRAMBLE = 20


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
_NUMBER = struct.Struct(">I")


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
        if rest or len(key) != (_NUMBER.size + KEY + 8 if name else 0):
            raise ValueError
        number = int.from_bytes(key[: _NUMBER.size], "big")
        return cls(algorithm, original, name.decode(), number, key[_NUMBER.size :])

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


def session_salt(scramble: bytes, nonce: bytes) -> bytes:
    """What binds keys to a session: both ends' part, the scramble of the server's greeting and the client's nonce."""
    return hashlib.sha256(scramble[:SCRAMBLE] + nonce).digest()


class Demands:
    """Columns that come encrypted or are an error, by 'database.table.column'; case does not matter."""

    def __init__(self, columns: Iterable[str]) -> None:
        """Raises `RefusedError` for what is no such name."""
        # A text is a sequence of texts.
        self._columns = frozenset(map(_column, [] if isinstance(columns, str) else columns))
        if isinstance(columns, str):
            raise RefusedError(Undecipherable.DEMAND, name=repr(columns))

    def __bool__(self) -> bool:
        return bool(self._columns)

    def mean(self, names: Iterable[str]) -> bool:
        """Whether a column of these names, of database, table and column, is one of them."""
        return tuple(name.lower() for name in names) in self._columns


def _column(written: str) -> tuple[str, ...]:
    names = tuple(str(written).lower().split("."))
    if len(names) != 3 or not all(names) or set("*`") & set(written):
        raise RefusedError(Undecipherable.DEMAND, name=repr(written))
    return names


def master_key(key: str | bytes) -> bytearray:
    """16 bytes, or the same in hexadecimal. Raises `RefusedError`."""
    try:
        found = bytearray.fromhex(key) if isinstance(key, str) else key
    except ValueError:
        found = b""
    # A number would make so many zeros.
    if not isinstance(found, bytes | bytearray) or len(found) != KEY:
        raise RefusedError(Undecipherable.MASTER_KEY)
    return bytearray(found)


def erase(secret: bytearray) -> None:
    secret[:] = bytes(len(secret))


class KeyRing:
    """Master keys by their names in a gateway's rules.

    What it holds is erased by `erase`, as far as Python lets: of a key that is unwrapped or derived, the libraries
    leave copies that cannot be reached.
    """

    def __init__(self, master_keys: Mapping[str, str | bytes]) -> None:
        """Raises `RefusedError` where one of them is no key."""
        self._master_keys = {name: master_key(key) for name, key in master_keys.items()}
        self._erased = False

    def session(self, salt: bytes) -> SessionKeys:
        """Raises `RefusedError` where it was erased."""
        if self._erased:
            raise RefusedError(Undecipherable.KEYS_GONE)
        return SessionKeys(self, salt)

    def unwrap(self, envelope: Envelope) -> bytes:
        """A data key. Raises `RefusedError` where its master key is missing or another."""
        key = self._master_keys.get(envelope.master_key)
        if key is None:
            raise RefusedError(Undecipherable.KEY_MISSING, name=repr(envelope.master_key))
        try:
            return aes_key_unwrap(key, envelope.wrapped)
        except InvalidUnwrap:
            raise RefusedError(Undecipherable.KEY_WRONG, name=repr(envelope.master_key)) from None

    def erase(self) -> None:
        for key in self._master_keys.values():
            erase(key)
        self._erased = True


class SessionKeys:
    """The present data key of one session, and what decrypts with it."""

    def __init__(self, key_ring: KeyRing, salt: bytes) -> None:
        """`salt` is `session_salt`'s."""
        self._key_ring = key_ring
        self._salt = salt
        self._present: tuple[int, str, bytes] | None = None
        self._data_key = bytearray()
        self._openers: dict[Algorithm, Opener] = {}

    def begin(self) -> None:
        """A result set begins: what was left of the one before may have gone unread."""
        for each in self._openers.values():
            each.begin()

    def opener(self, envelope: Envelope) -> Opener:
        """For a column that is not opaque.

        Raises `RefusedError` where its master key is missing or another, or where its data key is one that the session
        has left behind.
        """
        key = envelope.number, envelope.master_key, envelope.wrapped
        if key != self._present:
            if self._present is not None and envelope.number <= self._present[0]:
                raise RefusedError(Undecipherable.KEY_PAST)
            data_key = self._key_ring.unwrap(envelope)
            self.erase()
            self._present, self._data_key = key, bytearray(data_key)
        found = self._openers.get(envelope.algorithm)
        if found is None:
            found = opener(envelope.algorithm, self._data_key, self._salt, envelope.number)
            self._openers[envelope.algorithm] = found
        return found

    def erase(self) -> None:
        erase(self._data_key)
        for each in self._openers.values():
            each.erase()
        self._openers = {}


class Opener(ABC):
    """Decrypts a session's values by one algorithm, in the order in which they were encrypted.

    None is missing between two of a result set; what was before it may have gone unread.
    """

    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        self._number = algorithm.value
        self._keys = key, mac_key
        self._last = -1
        self._within = False

    def begin(self) -> None:
        """A result set begins."""
        self._within = False

    def open(self, associated: bytes, sealed: bytes) -> bytes:
        """Raises `RefusedError` where the value was changed, sealed under another key or for another column, comes
        twice or before one that was sealed earlier, or is not the next of its result set: ECB alone does not tell."""
        try:
            if sealed[0] != self._number:
                raise ValueError
            text = self._open(associated, sealed)
        except (ValueError, IndexError, InvalidTag):
            raise RefusedError(Undecipherable.VALUE) from None
        count = self._count(sealed)
        if count is not None:
            if count <= self._last or (self._within and count > self._last + 1):
                raise RefusedError(Undecipherable.ORDER)
            self._last, self._within = count, True
        return text

    def erase(self) -> None:
        for key in self._keys:
            erase(key)

    @abstractmethod
    def _open(self, associated: bytes, sealed: bytes) -> bytes: ...

    @abstractmethod
    def _count(self, sealed: bytes) -> int | None:
        """How many were sealed before it; None, where nothing tells."""


def opener(algorithm: Algorithm, data_key: bytes | bytearray, salt: bytes, number: int) -> Opener:
    """With keys that follow from this data key, in the session of this salt."""
    info = INFO + algorithm.label.encode() + _NUMBER.pack(number)
    keys = HKDF(SHA256(), length=KEY + 32, salt=salt, info=info).derive(data_key)
    key, mac_key = bytearray(keys[:KEY]), bytearray(keys[KEY:])
    match algorithm:
        case Algorithm.AES_128_GCM:
            return _AesGcm(algorithm, key, mac_key)
        case Algorithm.SM4_GCM:
            return _Sm4Gcm(algorithm, key, mac_key)
        case Algorithm.AES_128_CTR:
            return _Ctr(algorithm, key, mac_key)
        case Algorithm.AES_128_CBC | Algorithm.SM4_CBC:
            return _Cbc(algorithm, key, mac_key)
        case Algorithm.AES_128_ECB:
            return _Ecb(algorithm, key, mac_key)


class _Gcm(Opener):
    def _count(self, sealed: bytes) -> int | None:
        return int.from_bytes(sealed[1 : 1 + NONCE], "big")


class _AesGcm(_Gcm):
    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        super().__init__(algorithm, key, mac_key)
        self._decrypt = AESGCM(key).decrypt

    def _open(self, associated: bytes, sealed: bytes) -> bytes:
        return self._decrypt(sealed[1 : 1 + NONCE], sealed[1 + NONCE :], associated)


def _sm4(key: bytearray) -> algorithms.SM4:
    return algorithms.SM4(key)  # type: ignore[arg-type]  # it takes whatever AES takes, and is not annotated so


class _Sm4Gcm(_Gcm):
    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        super().__init__(algorithm, key, mac_key)
        self._key = _sm4(key)

    def _open(self, associated: bytes, sealed: bytes) -> bytes:
        if len(sealed) < 1 + NONCE + TAG:
            raise ValueError
        mode = modes.GCM(sealed[1 : 1 + NONCE], sealed[-TAG:])
        decryptor = Cipher(self._key, mode).decryptor()
        decryptor.authenticate_additional_data(associated)
        return decryptor.update(sealed[1 + NONCE : -TAG]) + decryptor.finalize()


class _WithMac(Opener):
    """A mode that does not authenticate, and a MAC. Nothing is decrypted that does not prove itself."""

    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        super().__init__(algorithm, key, mac_key)
        self._key = _sm4(key) if algorithm is Algorithm.SM4_CBC else algorithms.AES(key)
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

    def _count(self, sealed: bytes) -> int | None:
        # Behind the count are the blocks of one value.
        return int.from_bytes(sealed[1 : 1 + BLOCK], "big") >> 64


class _Cbc(_WithMac):
    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        super().__init__(algorithm, key, mac_key)
        # Block by block: an IV is the count, encrypted (SP 800-38A, appendix C).
        self._counts: Any = Cipher(self._key, modes.ECB()).decryptor()  # noqa: S305

    def _decrypt(self, body: bytes) -> bytes:
        return _without_padding(self._run(modes.CBC(body[:BLOCK]), body[BLOCK:]))

    def _count(self, sealed: bytes) -> int | None:
        return int.from_bytes(self._counts.update(sealed[1 : 1 + BLOCK]), "big")


class _Ecb(_WithMac):
    def _decrypt(self, body: bytes) -> bytes:
        return _without_padding(self._run(modes.ECB(), body))  # noqa: S305 - the rules ask for it

    def _count(self, sealed: bytes) -> int | None:
        return None


def _without_padding(text: bytes) -> bytes:
    unpadder = PKCS7(8 * BLOCK).unpadder()
    return unpadder.update(text) + unpadder.finalize()
