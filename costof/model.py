"""The base of everything that is read, written or sent: immutable, and a field that nobody declared is an error."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, SerializationInfo

#: A number that JSON can hold.
Finite = Annotated[float, Field(allow_inf_nan=False)]
#: What stands where a secret was.
HIDDEN = "<redacted>"
#: The serialization context of what a process of our own reads on its standard input: there alone secrets are written.
REVEALED = {"secrets": "revealed"}


def _written(secret: SecretStr, info: SerializationInfo) -> str:
    return secret.get_secret_value() if info.context == REVEALED else HIDDEN


#: A password or a key. No dump, repr or error shows it.
Secret = Annotated[SecretStr, PlainSerializer(_written)]


class Model(BaseModel):
    """Immutable; an undeclared field is an error, and no error quotes what was read, which may hold a secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)
