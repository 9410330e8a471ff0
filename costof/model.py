"""The base class of all data that costof reads, writes or sends."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, SerializationInfo, ValidationError

#: A number that JSON can represent: neither infinite nor NaN.
Finite = Annotated[float, Field(allow_inf_nan=False)]
#: The text shown in place of a secret.
HIDDEN = "<redacted>"
#: The serialization context that reveals secrets. Used only for the standard input of costof's own processes.
REVEALED = {"secrets": "revealed"}


def _written(secret: SecretStr, info: SerializationInfo) -> str:
    return secret.get_secret_value() if info.context == REVEALED else HIDDEN


#: A password or a key, hidden in dumps, reprs and errors.
Secret = Annotated[SecretStr, PlainSerializer(_written)]


class Model(BaseModel):
    """An immutable model that rejects undeclared fields. Its errors never quote the input, which may be a secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)


def first_error(error: ValidationError, *place: str) -> str:
    """Return the first error as 'field: message', without pydantic's prefix 'Value error, '.

    `place` has the names of the tables that contain the validated table.
    """
    first = error.errors(include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    field = ".".join(map(str, (*place, *first["loc"])))
    return f"{field}: {message}" if field else message
