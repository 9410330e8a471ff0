"""Certificates of the lab, as the strictest of its clients reads them."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from costof.lab.certificates import Authority


def test_a_certificate_satisfies_rfc_5280(tmp_path: Path) -> None:
    """As Python's `ssl.create_default_context` asks from 3.13 on."""
    authority = Authority(tmp_path)
    issued = x509.load_pem_x509_certificate(authority.issue("server", "ecdsa-p256", ["db.lab"]).read_bytes())
    verifier = PolicyBuilder().store(Store([authority.certificate])).build_server_verifier(x509.DNSName("db.lab"))
    assert verifier.verify(issued, [])[-1] == authority.certificate
