"""What an instrument is told of a MongoDB replica set or server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costof.ipc.plan import ServiceSettings
from costof.model import Secret


class MongodbSettings(ServiceSettings):
    """Who logs in, which members are read, and where the records are."""

    protocol: Literal["mongodb"] = "mongodb"
    replica_set: str | None = Field(default=None, description="A single server without.")
    read_preference: str = Field(default="primary", description="As MongoDB names it, such as 'secondaryPreferred'.")
    write_concern: int | str | None = Field(default=None, description="MongoDB's `w`; the server's default without.")
    username: str | None = None
    password: Secret | None = None
    auth_source: str = "admin"
    database: str
    collection: str
