"""The HTTP server `costof-engine origin` as a backend service. Its clients always run on another host."""

from __future__ import annotations

from costof.programs.origin import OriginServer


class HttpServiceServer(OriginServer):
    separate_clients = True


lab_server = HttpServiceServer
