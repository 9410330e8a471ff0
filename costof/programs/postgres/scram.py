"""The number of hash iterations in PostgreSQL's SCRAM secret. The client repeats them at each log-in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from pydantic import Field

from costof.programs.parts import ServerConfiguration
from costof.programs.postgres.parts import PostgresPart

#: PostgreSQL's default of `scram_iterations`.
SCRAM_ITERATIONS = 4096


class ScramConfiguration(ServerConfiguration):
    """The number of hash iterations for the client's password."""

    scram_iterations: int = Field(
        default=SCRAM_ITERATIONS, gt=0, description="Hashes in the password's SCRAM secret, which each log-in repeats."
    )


class ScramIterations(PostgresPart[ScramConfiguration]):
    configuration_type = ScramConfiguration

    @classmethod
    def is_needed(cls, configuration: ScramConfiguration) -> bool:
        return configuration.scram_iterations != SCRAM_ITERATIONS

    def started(self) -> None:
        self.server.store_password(self.configuration.scram_iterations)

    def evidence(self) -> dict[str, str]:
        ((secret,),) = self.server.ask(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{self.server.user}'")  # noqa: S608  # our own name
        return {"SCRAM iterations": secret.split("$")[1].partition(":")[0]}


def scram_secret(password: str, iterations: int = SCRAM_ITERATIONS) -> str:
    """Return what PostgreSQL stores for an ASCII password with SCRAM-SHA-256 (RFC 5803), with a new salt."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key, server_key = (hmac.digest(salted, text, "sha256") for text in (b"Client Key", b"Server Key"))
    stored_key = hashlib.sha256(client_key).digest()
    salt_text, stored_text, server_text = (base64.b64encode(each).decode() for each in (salt, stored_key, server_key))
    return f"SCRAM-SHA-256${iterations}:{salt_text}${stored_text}:{server_text}"
