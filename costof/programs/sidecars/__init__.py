"""Sidecars: Envoy or HAProxy beside a client or a server, with mutual TLS between them."""

from costof.lab.program import located
from costof.programs.sidecars.envoy import PROGRAM, Envoy, envoy_version, find_envoy
from costof.programs.sidecars.haproxy import HaproxySidecar
from costof.programs.sidecars.proxy import Sidecar

__all__ = ["FETCHABLE", "NEEDED", "PROGRAMS"]

#: The class of each sidecar program, by the program's name in studies ('envoy').
PROGRAMS: dict[str, type[Sidecar]] = {each.name: each for each in (Envoy, HaproxySidecar)}
NEEDED = {Envoy.name: located(find_envoy, envoy_version)}
FETCHABLE = [PROGRAM]
