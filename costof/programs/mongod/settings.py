"""What an instrument is told of a MongoDB replica set or server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from costof.messages.plan import ServiceSettings
from costof.model import Secret

#: Of YCSB's records.
COLLECTION = "usertable"
#: The write concern that is MongoDB's own word for most of the members.
MAJORITY = "majority"


def _number(concern: object) -> object:
    return int(concern) if isinstance(concern, str) and concern.isdigit() else concern


#: MongoDB's `w`: a number of members, or a word.
WriteConcern = Annotated[int | str, BeforeValidator(_number)]


class MongodbSettings(ServiceSettings):
    """Who logs in, which members are read, and where the records are."""

    protocol: Literal["mongodb"] = "mongodb"
    replica_set: str | None = Field(default=None, description="A single server without.")
    read_preference: str = Field(default="primary", description="As MongoDB names it, such as 'secondaryPreferred'.")
    write_concern: WriteConcern | None = Field(default=None, description="The server's default without.")
    username: str | None = None
    password: Secret | None = None
    auth_source: str = "admin"
    database: str
    collection: str
