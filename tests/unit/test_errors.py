"""Messages to users: what they add to a detail that comes from elsewhere."""

from __future__ import annotations

import pytest

from costof.errors import UNTRUSTED_HINT, CostofError, Problem


@pytest.mark.parametrize(
    "detail",
    [
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate",
        "certificate verify failed: self-signed certificate in certificate chain",
    ],
)
def test_a_certificate_of_an_unknown_authority_names_the_option_for_it(detail: str) -> None:
    error = CostofError(Problem.TARGET_UNREACHABLE, target="db:3306", detail=detail)
    assert str(error) == f"cannot reach db:3306: {detail}{UNTRUSTED_HINT}"


def test_another_error_has_no_hint_of_a_certificate() -> None:
    assert "--tls-ca" not in str(CostofError(Problem.TARGET_UNREACHABLE, target="db:3306", detail="connection refused"))
