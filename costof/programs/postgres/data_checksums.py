"""Data checksums, with which PostgreSQL detects damaged pages in its files."""

from __future__ import annotations

from pydantic import Field

from costof.programs.parts import ServerConfiguration
from costof.programs.postgres.parts import PostgresPart

#: The first version whose initdb turns data checksums on.
CHECKSUMS_BY_DEFAULT = 18


class ChecksumConfiguration(ServerConfiguration):
    """The use of data checksums by a server. By default they are off in a lab, whatever the version of PostgreSQL."""

    data_checksums: bool = Field(default=False, description="Whether each page of data has a checksum.")


class DataChecksums(PostgresPart[ChecksumConfiguration]):
    configuration_type = ChecksumConfiguration

    def initdb_options(self) -> list[str]:
        if self.configuration.data_checksums:
            return ["--data-checksums"]
        return ["--no-data-checksums"] if self.server.major >= CHECKSUMS_BY_DEFAULT else []

    def evidence(self) -> dict[str, str]:
        return self.server.show(["data_checksums"]) if self.configuration.data_checksums else {}
