"""An arm's transport levels as the border's plan wants them: one switch, for every protocol that speaks TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Levels of the factors that say how a client speaks, at which it speaks TLS itself.
SPEAKS_TLS = {"transport": frozenset({"tls"}), "termination": frozenset({"balancer", "reencrypt", "backend"})}
#: A client's tunnel: the bytes that it itself sends and receives are plain.
TUNNEL_PREFIX = "ssh-"
#: OpenSSL's names of the suites that a study's levels ask for; any other level is OpenSSL's own choice.
SUITES = {
    "ecdhe-rsa-aes128-gcm-sha256": "ECDHE-RSA-AES128-GCM-SHA256",
    "dhe-rsa-aes256-sha": "DHE-RSA-AES256-SHA",
    "aes256-sha": "AES256-SHA",
    "rc4-sha": "RC4-SHA",
}
#: Levels of a suite that ask for a version, with whichever of its suites both ends like best.
VERSIONS = {"tls1.3": "1.3"}
#: Keys that OpenSSL's default security level refuses.
WEAK_KEYS = frozenset({"rsa-1024"})


def speaks_tls(levels: dict[str, str]) -> bool:
    """Whether the client itself speaks TLS; a tunnel around it is the service's to prove."""
    return any(levels.get(factor) in spoken for factor, spoken in SPEAKS_TLS.items())


def says_transport(levels: dict[str, str]) -> bool:
    """Whether the levels say at all how the client speaks; where not, that is no matter of the study's."""
    return bool(SPEAKS_TLS.keys() & levels.keys())


def tunnel_of(levels: dict[str, str]) -> str | None:
    """The level of an arm whose client goes through a tunnel; None for any other."""
    level = levels.get("transport", "")
    return level if level.startswith(TUNNEL_PREFIX) else None


def transport_of(levels: dict[str, str], ca_file: Path | None) -> dict[str, Any]:
    """The `transport` object of an arm (docs/architecture.md). Levels that a study has not are left to the defaults."""
    if not speaks_tls(levels):
        return {"kind": "plain"}
    transport: dict[str, Any] = {
        "kind": "tls",
        "verify": levels.get("verify", "full"),
        "resumption": levels.get("resumption", "off") == "on",
    }
    if ca_file is not None:
        transport["ca_file"] = str(ca_file)
    version = levels.get("tls_version") or VERSIONS.get(levels.get("suite", ""))
    if version:
        # Offered alone, so that a server without it is told when the arm is proved, not slice by slice.
        transport["version"] = version
    if levels.get("suite") in SUITES:
        transport["cipher"] = SUITES[levels["suite"]]
    if "cipher" in transport or levels.get("key") in WEAK_KEYS:
        # What is weak by today's measure is what the arm asks for.
        transport["security_level"] = 0
    return transport


def application_environment(levels: dict[str, str]) -> dict[str, str]:
    """Environment variables for the application of an arm.

    Drivers such as pymongo have no option for the TLS version; OpenSSL's own configuration file pins it for the
    process.
    """
    version = levels.get("tls_version")
    if version is None:
        return {}
    return {"OPENSSL_CONF": str(Path(__file__).parents[1] / "drivers" / f"openssl-tls{version}.cnf")}
