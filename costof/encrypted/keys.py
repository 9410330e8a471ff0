"""Master keys, and the data keys of a session, which arrive encrypted with a master key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from costof.encrypted.envelope import Algorithm, Envelope, RefusedError
from costof.encrypted.schemes import KEY, Opener, erase, make_opener
from costof.errors import Undecipherable

SCRAMBLE = 20


def session_salt(scramble: bytes, nonce: bytes) -> bytes:
    """Return the salt that binds keys to a session.

    It is a hash of two random values: `scramble`, the server's challenge, and `nonce`, from the client.
    """
    return hashlib.sha256(scramble[:SCRAMBLE] + nonce).digest()


def master_key(key: str | bytes) -> bytearray:
    """Return the 16 bytes of a key. A string must be hexadecimal. Raises `RefusedError` for an invalid key."""
    try:
        secret = bytearray.fromhex(key) if isinstance(key, str) else key
    except ValueError:
        secret = b""
    # Check the type too: if `key` were the number 16, bytearray(16) would make a key of 16 zeros.
    if not isinstance(secret, bytes | bytearray) or len(secret) != KEY:
        raise RefusedError(Undecipherable.MASTER_KEY)
    return bytearray(secret)


class KeyRing:
    """Master keys by their names in a gateway's rules.

    `erase` overwrites them as far as Python allows: the cryptography libraries keep copies of unwrapped and derived
    keys that cannot be reached.
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
    """The current data key of one session, and a decryptor ("opener") with this key for each algorithm."""

    def __init__(self, key_ring: KeyRing, salt: bytes) -> None:
        self._key_ring = key_ring
        self._salt = salt
        self._current: tuple[int, str, bytes] | None = None
        self._data_key = bytearray()
        self._openers: dict[Algorithm, Opener] = {}

    def begin(self) -> None:
        """Begin a new result set in all openers. Values of the previous one may have been left unread."""
        for each in self._openers.values():
            each.begin()

    def opener(self, envelope: Envelope) -> Opener:
        """Return the opener for a column that is not opaque, and switch to the data key of its envelope.

        Raises `RefusedError` if the master key is missing or wrong, or if the session has already replaced the
        envelope's data key by a newer one.
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
