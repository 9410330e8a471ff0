"""The engine's `origin` as one of two services that speak HTTP, on another host than its clients."""

from __future__ import annotations

from costof.programs.origin import OriginServer


class HttpServiceServer(OriginServer):
    separate_clients = True


lab_server = HttpServiceServer
