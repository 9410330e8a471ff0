"""Encryption of a plan for a process on another host, so that Ray never sees the plan's passwords (docs/ipc.md)."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from costof.messages.answers import PublicKey
from costof.messages.plan import Plan, line

#: HPKE single-shot encryption, base mode (RFC 9180, 6.1). The load generator decrypts it in `engine/src/ipc/sealed.rs`.
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
INFO = b"costof plan"


def sealed(plan: Plan, key: PublicKey) -> bytes:
    """Return a line with the plan, encrypted so that only the process with this public key can decrypt it.

    Raises ValueError if the key is invalid.
    """
    public_key = X25519PublicKey.from_public_bytes(b64decode(key.public_key, validate=True))
    message = SUITE.encrypt(line({"plan": plan}), public_key, info=INFO)
    return line({"sealed": {"message": b64encode(message).decode()}})


class Opener:
    """A key pair for one plan. The sender encrypts the plan with the public key, and `opened` decrypts it."""

    def __init__(self, key: X25519PrivateKey | None = None) -> None:
        self._key = key or X25519PrivateKey.generate()

    @property
    def public_key(self) -> PublicKey:
        return PublicKey(public_key=b64encode(self._key.public_key().public_bytes_raw()).decode())

    def opened(self, written: str | bytes) -> bytes:
        """Return the decrypted line.

        Raises ValueError if the line was not encrypted for this key. The error's text does not contain the line.
        """
        try:
            message = b64decode(json.loads(written)["sealed"]["message"], validate=True)
            return bytes(SUITE.decrypt(message, self._key, info=INFO))
        except (ValueError, TypeError, KeyError, InvalidTag):
            raise ValueError("it is not a plan that was encrypted for this key") from None
