"""The base of everything that is read, written or sent: immutable, and a field that nobody declared is an error."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

#: A number that JSON can hold.
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Model(BaseModel):
    """Immutable; an undeclared field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
