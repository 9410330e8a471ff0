"""The file of authorities that a user names: is it one, before anything is asked?"""

from __future__ import annotations

from pathlib import Path

from costof.errors import CostofError, Problem


def check_ca_file(path: Path | None) -> None:
    """Raises `TLS_CA_INVALID` unless the file holds certificates in PEM."""
    if path is None:
        return
    # Imported here: most name none.
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise CostofError(Problem.TLS_CA_INVALID, path=path, detail=error.strerror) from None
    except ValueError:
        raise CostofError(Problem.TLS_CA_INVALID, path=path, detail="it holds no certificate") from None
