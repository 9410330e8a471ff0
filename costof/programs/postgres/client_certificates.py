"""An optional feature of the lab's PostgreSQL: it accepts only clients that show a TLS certificate."""

from __future__ import annotations

from pathlib import Path

from costof.programs.parts import ServerConfiguration
from costof.programs.postgres.parts import PostgresPart

#: The rule of pg_hba.conf for all connections over the network, and the rule that also requires a certificate.
ANY_CLIENT = "host all all all scram-sha-256"
WITH_CERTIFICATE = "hostssl all all all scram-sha-256 clientcert=verify-ca"


class ClientCertificates(PostgresPart[ServerConfiguration]):
    @classmethod
    def is_needed(cls, configuration: ServerConfiguration) -> bool:
        return configuration.client_certificates

    def prepare(self) -> None:
        self.server.os_user.write(self._ca_file, self.server.place.authority.ca_file.read_bytes())

    def options(self) -> list[str]:
        return ["-c", f"ssl_ca_file={self._ca_file}"]

    def access_rules(self, rules: str) -> str:
        return rules.replace(ANY_CLIENT, WITH_CERTIFICATE)

    def evidence(self) -> dict[str, str]:
        rules = self.server.ask("SELECT array_to_string(options, ',') FROM pg_hba_file_rules WHERE type LIKE 'host%'")
        return {"access over the network": ", ".join(options or "without a certificate" for (options,) in rules)}

    @property
    def _ca_file(self) -> Path:
        return self.server.folder / "ca.pem"
