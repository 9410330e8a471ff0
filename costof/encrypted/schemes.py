"""Decryption of column values with each supported algorithm. The keys are derived from a session's data key."""

from __future__ import annotations

import hmac
import struct
from abc import ABC, abstractmethod
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.padding import PKCS7

from costof.encrypted.envelope import Algorithm, RefusedError
from costof.errors import Undecipherable

INFO = b"costof column encryption 2 "
KEY = 16
BLOCK = 16
NONCE = 12
TAG = 16


def erase(secret: bytearray) -> None:
    secret[:] = bytes(len(secret))


class Opener(ABC):
    """A decryptor for one algorithm in one session. It checks that values arrive in the order of their encryption.

    A missing value within a result set is an error. Missing values before a result set (`begin`) are accepted, since
    the client may not have read all values of the previous result set.
    """

    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        self._number = algorithm.value
        self._keys = key, mac_key
        self._last = -1
        self._within = False

    def begin(self) -> None:
        self._within = False

    def open(self, associated: bytes, sealed: bytes) -> bytes:
        """Return the decrypted value. `associated` is the column's associated data, `sealed` the encrypted value.

        Raises `RefusedError` if the value was changed or repeated, or encrypted with another key or for another column.
        Raises `RefusedError` also if a value before it is missing. ECB does not number values, so with ECB, repeated
        and missing values are not detected.
        """
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
        """Return a value's sequence number, counted from 0 for each data key; None if the algorithm has no numbers."""


def make_opener(algorithm: Algorithm, data_key: bytes | bytearray, salt: bytes, number: int) -> Opener:
    """Return a decryptor for the algorithm. Its keys are derived from the data key and the session's salt.

    `number` is the data key's number in the session (`Envelope.number`).
    """
    info = INFO + algorithm.label.encode() + number.to_bytes(4, "big")
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
    return algorithms.SM4(key)  # type: ignore[arg-type]  # accepts a bytearray like AES, but is not annotated so


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
    """A cipher mode that does not authenticate values, combined with a MAC that is checked before decryption."""

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
        # The initial counter block has the value's number in its upper 64 bits. The lower 64 bits count the blocks.
        return int.from_bytes(sealed[1 : 1 + BLOCK], "big") >> 64


class _Cbc(_WithMac):
    def __init__(self, algorithm: Algorithm, key: bytearray, mac_key: bytearray) -> None:
        super().__init__(algorithm, key, mac_key)
        # The IV of a value is the value's sequence number, encrypted with ECB as a single block (SP 800-38A,
        # appendix C). This decryptor recovers the number.
        self._counts: Any = Cipher(self._key, modes.ECB()).decryptor()  # noqa: S305

    def _decrypt(self, body: bytes) -> bytes:
        return _without_padding(self._run(modes.CBC(body[:BLOCK]), body[BLOCK:]))

    def _count(self, sealed: bytes) -> int | None:
        return int.from_bytes(self._counts.update(sealed[1 : 1 + BLOCK]), "big")


class _Ecb(_WithMac):
    def _decrypt(self, body: bytes) -> bytes:
        return _without_padding(self._run(modes.ECB(), body))  # noqa: S305 - the gateway's rules chose ECB

    def _count(self, sealed: bytes) -> int | None:
        return None


def _without_padding(text: bytes) -> bytes:
    unpadder = PKCS7(8 * BLOCK).unpadder()
    return unpadder.update(text) + unpadder.finalize()
