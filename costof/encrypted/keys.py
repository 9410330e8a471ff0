"""Keys of a decrypting client: master keys, and the data keys that the gateway sends encrypted with a master key.

The gateway is an encrypting proxy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from costof.encrypted.envelope import Algorithm, Envelope, RefusedError
from costof.encrypted.schemes import KEY, Opener, erase, make_opener
from costof.errors import Undecipherable

SCRAMBLE = 20


def session_salt(scramble: bytes, nonce: bytes) -> bytes:
    """Return the salt for key derivation, which differs in each session.

    The salt is the SHA-256 hash of two random values: the server's challenge (`scramble`) and the client's `nonce`.
    """
    return hashlib.sha256(scramble[:SCRAMBLE] + nonce).digest()


def master_key(key: str | bytes) -> bytearray:
    """Return the 16 bytes of a key. A string must be hexadecimal. Raises `RefusedError` for an invalid key."""
    try:
        secret = bytearray.fromhex(key) if isinstance(key, str) else key
    except ValueError:
        secret = b""
    # Check the type too: for the number 16, bytearray(16) would make a key of 16 zeros.
    if not isinstance(secret, bytes | bytearray) or len(secret) != KEY:
        raise RefusedError(Undecipherable.MASTER_KEY)
    return bytearray(secret)


class KeyRing:
    """A client's master keys, by their names in the rules of the gateway (the encrypting proxy).

    `erase` overwrites the keys in memory. Copies inside the cryptography libraries remain, since Python cannot reach
    them.
    """

    def __init__(self, master_keys: Mapping[str, str | bytes]) -> None:
        """Raise `RefusedError` for an invalid key."""
        self._master_keys = {name: master_key(key) for name, key in master_keys.items()}
        self._erased = False

    def session(self, salt: bytes) -> SessionKeys:
        """Return the keys of a new session. Raises `RefusedError` after `erase`."""
        if self._erased:
            raise RefusedError(Undecipherable.KEYS_GONE)
        return SessionKeys(self, salt)

    def unwrap(self, envelope: Envelope) -> bytes:
        """Return the envelope's data key, decrypted. Raises `RefusedError` if the master key is missing or wrong."""
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
    """The current data key of one session, and an `Opener` (decryptor) with this key for each algorithm."""

    def __init__(self, key_ring: KeyRing, salt: bytes) -> None:
        self._key_ring = key_ring
        self._salt = salt
        self._current: tuple[int, str, bytes] | None = None
        self._data_key = bytearray()
        self._openers: dict[Algorithm, Opener] = {}

    def begin(self) -> None:
        """Tell all decryptors that a new result set begins, so that they accept missing values before its first one.

        Values may be missing there because the client has not read all values of the previous result set.
        """
        for each in self._openers.values():
            each.begin()

    def opener(self, envelope: Envelope) -> Opener:
        """Return the decryptor for a column with this envelope.

        If the envelope's data key is newer than the session's current one, it becomes the current one. The envelope
        must contain a data key (`is_opaque` is false). Raises `RefusedError` if the master key is missing or wrong, or
        if the session already uses a newer data key.
        """
        key = envelope.number, envelope.master_key, envelope.wrapped
        if key != self._current:
            if self._current is not None and envelope.number <= self._current[0]:
                raise RefusedError(Undecipherable.KEY_PAST)
            data_key = self._key_ring.unwrap(envelope)
            self.erase()
            self._current, self._data_key = key, bytearray(data_key)
        opener = self._openers.get(envelope.algorithm)
        if opener is None:
            opener = make_opener(envelope.algorithm, self._data_key, self._salt, envelope.number)
            self._openers[envelope.algorithm] = opener
        return opener

    def erase(self) -> None:
        erase(self._data_key)
        for each in self._openers.values():
            each.erase()
        self._openers = {}
