"""Sealing a plan to the engine of another host, so that nothing between the two reads its passwords (docs/ipc.md)."""

from __future__ import annotations

from base64 import b64decode, b64encode

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from costof.ipc.answers import PublicKey
from costof.ipc.plan import Plan, line

#: HPKE's single-shot encryption, base mode (RFC 9180, 6.1): `engine/src/ipc/sealed.rs` opens it.
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
INFO = b"costof plan"


def sealed(plan: Plan, key: PublicKey) -> bytes:
    """The line that hands this plan to the engine that has said this key, and to no other.

    Raises ValueError where the key is none.
    """
    public_key = X25519PublicKey.from_public_bytes(b64decode(key.public_key, validate=True))
    message = SUITE.encrypt(line({"plan": plan}), public_key, info=INFO)
    return line({"sealed": {"message": b64encode(message).decode()}})
