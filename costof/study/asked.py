"""What an arm asks for: the effects of its levels, merged.

A study's TOML says what each level does, in seven places: `transport` (how the client speaks), `tls_library` (by
which library, on the wire), `service` (what the client asks of the server), `workload` (by the workload's name), `lab`
(what the lab's servers are), `own` (which of a user's own servers is asked) and `seen` (what evidence must show
besides); and of commands in those of a `CommandLevel`. No other code knows a level by its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from costof.instruments.commands.asked import CommandLevel
from costof.messages.plan import PLAIN, Transport

#: Stands for the level's own name in a factor's `each`.
LEVEL = "{level}"


class Asked(CommandLevel):
    """The merged effects of an arm's levels. `transport` is None where a study has nothing to say of it."""

    transport: Transport | None = None
    tls_library: str = Field(default="", description="The engine is one built with it; else the installed one.")
    service: dict[str, Any] = Field(default_factory=dict, description="Settings of the protocol's client.")
    workload: dict[str, dict[str, Any]] = Field(default_factory=dict, description="By workload: what differs.")
    lab: dict[str, Any] = Field(default_factory=dict, description="Settings of the lab's servers.")
    own: dict[str, Any] = Field(default_factory=dict, description="What of a user's own servers is asked.")
    seen: dict[str, str] = Field(default_factory=dict, description="What either end must have seen.")
    near_round_trips: float = Field(default=0.0, description="Of a connection, that its distance does not lengthen.")

    @property
    def speaks_tls(self) -> bool:
        """Whether the client itself speaks TLS; a tunnel around it is the service's to prove."""
        return self.transport is not None and self.transport.is_tls

    def transport_trusting(self, ca_file: Path | None) -> Transport:
        """How the client speaks, and to whom: plain, where the study has nothing to say of it."""
        return (self.transport or PLAIN).trusting(ca_file)


def asked_by(effects: Iterable[tuple[dict[str, Any], str]]) -> Asked:
    """Effects merged in order, each with its level's name. Raises `ValueError` for what no effect can be."""
    merged: dict[str, Any] = {}
    for effect, level in effects:
        _merge(merged, _of_level(effect, level))
    return Asked.model_validate(merged)


def asked_alone(effects: Iterable[tuple[dict[str, Any], str]]) -> Asked:
    """As `asked_by`, of one level's effects: how the client speaks another one says."""
    return asked_by([({"transport": {"kind": PLAIN.kind}}, ""), *effects])


def _merge(into: dict[str, Any], effect: dict[str, Any]) -> None:
    for key, value in effect.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            into[key] = [*into.get(key, []), *value]
        else:
            into[key] = value


def _of_level(effect: Any, level: str) -> Any:
    if isinstance(effect, dict):
        return {key: _of_level(value, level) for key, value in effect.items()}
    if isinstance(effect, list):
        return [_of_level(each, level) for each in effect]
    return effect.replace(LEVEL, level) if isinstance(effect, str) else effect
