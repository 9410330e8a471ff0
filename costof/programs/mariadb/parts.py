"""The base class of parts: optional features of a lab's MariaDB, such as an audit log or encryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from costof.programs.parts import Configuration, ServerPart

if TYPE_CHECKING:
    from costof.programs.mariadb.lab import SysbenchServer


class MariadbPart(ServerPart[Configuration]):
    server: SysbenchServer

    #: The prefix of settings that the server accepts only after this feature's options, such as 'server-audit-' for a
    #: plugin's settings. `options` then includes the study's settings with this prefix. None means no such settings.
    prefix_of_settings: ClassVar[str | None] = None

    def early_options(self) -> list[str]:
        """Return options that must precede all others. The server that creates the system tables gets them too."""
        return []
