"""How a user's own servers were reached, as the plan keeps it for a run that is resumed."""

from __future__ import annotations

from pydantic import Field

from costof.model import Model


class TargetOptions(Model):
    """The options of a target beside its URLs, without secrets."""

    ca_file: str | None = Field(default=None, description="Absolute path of --tls-ca.")
    database: str | None = Field(default=None, description="The name that the user chose.")
    allow_plain: bool = False
    server_cpu: str | None = Field(default=None, description="The command, without what looks like a password.")
    pooler: str | None = Field(default=None, description="The URL of --pooler without secrets.")
    with_password: bool = Field(default=False, description="It was logged in with a password, which is not kept.")
