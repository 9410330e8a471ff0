"""A certificate authority for one run, which signs the certificates of the run's servers."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


DEFAULT_KEY = "rsa-2048"
#: The separator in names of chains: 'rsa-2048-chain-3' is a chain of three certificates with RSA keys.
CHAIN = "-chain-"


def certificate_kind(settings: Mapping[str, Any], default: str | None = None) -> str | None:
    """Return the kind of certificate that `settings` describe, such as 'rsa-2048' or 'rsa-2048-chain-3'.

    `settings` are lab settings of an arm (measured variant), such as {"key": "rsa-2048", "certificates": 3}.
    "certificates" is the number of certificates that the server sends: the server's own and the intermediate ones,
    without the root. If `settings` have no "key", `default` takes its place. Return None if `default` is None too.
    """
    key, length = settings.get("key", default), int(settings.get("certificates", 1))
    return key if key is None or length == 1 else f"{key}{CHAIN}{length}"


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


@dataclass(frozen=True)
class _Issuer:
    certificate: x509.Certificate
    key: PrivateKey


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
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        self.certificate = builder.sign(self._key, hashes.SHA256())
        #: For each kind of key, the chain of intermediate authorities. The root signs the first one.
        self._intermediates: dict[str, list[_Issuer]] = {}
        self.ca_file = self.folder / "ca.pem"
        self.ca_file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue_all(self, label: str, kinds: Iterable[str], names: list[str]) -> dict[str, Path]:
        """Call `issue` for each kind of key, such as 'rsa-2048'. Return the path of the PEM file for each kind."""
        return {kind: self.issue(label, kind, names) for kind in kinds}

    def issue(self, label: str, kind: str, names: list[str], valid_for: datetime.timedelta = VALID_FOR) -> Path:
        """Write a server's key, certificate and chain into one PEM file with mode 0600. Return its path.

        `label` becomes the certificate's common name and the beginning of the file's name. `names` are DNS names and IP
        addresses. The certificate is valid for servers and clients, since members of a cluster connect to each other. A
        negative `valid_for` makes an expired certificate (for tests).
        """
        key_kind, _, length = kind.partition(CHAIN)
        issuers = self._issuers(key_kind, int(length or 1) - 1)
        issuer = issuers[-1] if issuers else _Issuer(self.certificate, self._key)
        key = new_key(key_kind)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, label)])
        certificate = (
            _builder(subject, issuer.certificate.subject, key, valid_for)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            # RFC 5280, 4.2.1.1 requires this extension. Python 3.13 and later reject a certificate without it.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(issuer.key, hashes.SHA256())
        )
        path = self.folder / f"{label}-{kind}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = [certificate, *(each.certificate for each in reversed(issuers))]
        write_private(path, private + b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain))
        return path

    def _issuers(self, key_kind: str, count: int) -> list[_Issuer]:
        """Return this many intermediate authorities, each signed by the one before. The root signs the first one."""
        issuers = self._intermediates.setdefault(key_kind, [])
        while len(issuers) < count:
            above = issuers[-1] if issuers else _Issuer(self.certificate, self._key)
            key = new_key(key_kind)
            text = f"costof lab intermediate CA {len(issuers) + 1} ({key_kind})"
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
            certificate = (
                _builder(name, above.certificate.subject, key, VALID_FOR)
                .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
                .add_extension(_key_usage(signs_certificates=True), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(above.key.public_key()), critical=False
                )
                .sign(above.key, hashes.SHA256())
            )
            issuers.append(_Issuer(certificate, key))
        return issuers[:count]


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
