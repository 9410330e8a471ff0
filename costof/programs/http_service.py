"""The HTTP server `costof-engine origin` as a service that another service calls, always on a separate host."""

from __future__ import annotations

from costof.programs.origin import OriginServer


class HttpServiceServer(OriginServer):
    separate_clients = True


lab_server = HttpServiceServer
