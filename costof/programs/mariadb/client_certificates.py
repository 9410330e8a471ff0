"""An optional feature of the lab's MariaDB: it accepts only clients that show a TLS certificate."""

from __future__ import annotations

from costof.programs.mariadb.parts import MariadbPart
from costof.programs.parts import ServerConfiguration

REQUIREMENT = "REQUIRE X509"


class ClientCertificates(MariadbPart[ServerConfiguration]):
    @classmethod
    def is_needed(cls, configuration: ServerConfiguration) -> bool:
        return configuration.client_certificates

    def options(self) -> list[str]:
        return [f"--ssl-ca={self.server.ca_file}"]

    def started(self) -> None:
        self.server.ask(f"ALTER USER {self.server.user} {REQUIREMENT}")

    def evidence(self) -> dict[str, str]:
        ((account, *_),) = self.server.ask(f"SHOW CREATE USER {self.server.user}")
        return {"certificate of the client": REQUIREMENT if REQUIREMENT in account else "not required"}
