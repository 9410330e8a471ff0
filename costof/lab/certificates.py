"""A certificate authority for one run, which signs the certificates of the run's servers."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

VALID_FOR = datetime.timedelta(days=7)
#: Diffie-Hellman parameters of 2048 bits (RFC 7919, A.1), for programs without built-in parameters.
FFDHE2048 = """\
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""


#: The kind of a server's key if the study does not choose one.
DEFAULT_KEY = "rsa-2048"


def new_key(kind: str) -> PrivateKey:
    """Generate a key of kind 'rsa-<bits>' or 'ecdsa-p256'."""
    family, size = kind.split("-")
    if family == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=int(size))
    if kind == "ecdsa-p256":
        return ec.generate_private_key(ec.SECP256R1())
    raise ValueError(f"unknown kind of key: {kind}")


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read. The file never exists with wider permissions."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass
class Authority:
    """A CA made for one run. Its key is never written to disk."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._key = new_key("ecdsa-p256")
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "costof lab CA")])
        builder = (
            _builder(self._name, self._name, self._key, VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        self.certificate = builder.sign(self._key, hashes.SHA256())
        self.ca_file = self.folder / "ca.pem"
        self.ca_file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue_all(self, label: str, kinds: Iterable[str], names: list[str]) -> dict[str, Path]:
        """Issue a certificate for each kind of key. Return the paths of the PEM files by kind."""
        return {kind: self.issue(label, kind, names) for kind in kinds}

    def issue(self, label: str, kind: str, names: list[str], valid_for: datetime.timedelta = VALID_FOR) -> Path:
        """Write a server's key and certificate into one PEM file with mode 0600. Return its path.

        `names` are DNS names and IP addresses. The certificate is valid for servers and clients, since members of a
        cluster connect to each other. A negative `valid_for` makes an expired certificate (for tests).
        """
        key = new_key(kind)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, label)])
        certificate = (
            _builder(subject, self._name, key, valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            # Required by RFC 5280, 4.2.1.1. Python 3.13 and later reject a certificate without this extension.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        path = self.folder / f"{label}-{kind}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(path, private + certificate.public_bytes(serialization.Encoding.PEM))
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, valid_for: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    # The certificate is valid from an hour ago, so that machines whose clocks are slightly behind accept it.
    start = min(now, now + valid_for) - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(now + valid_for)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_encipherment=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
