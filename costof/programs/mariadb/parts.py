"""The interface of the parts of a lab's MariaDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from costof.programs.parts import Configuration, ServerPart

if TYPE_CHECKING:
    from costof.programs.mariadb.lab import SysbenchServer


class MariadbPart(ServerPart[Configuration]):
    """A part of a lab's MariaDB."""

    server: SysbenchServer

    #: The prefix of settings that the server accepts only after this part's `options`, such as a plugin's settings. If
    #: it is not None, `options` includes the study's settings with this prefix.
    prefix_of_settings: ClassVar[str | None] = None

    def early_options(self) -> list[str]:
        """Return options that must come first, also on the command line that creates the system tables."""
        return []
