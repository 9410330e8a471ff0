"""redis-benchmark: GET of one of the run's own strings, on 50 connections.

It verifies that the server's certificate is of an authority that it was told, and never the name.
"""

from __future__ import annotations

from random import Random

from costof.clients import Called, CannotError, Client, check_tls, host_and_port
from costof.ipc.plan import Endpoint
from costof.programs.redis.settings import RedisSettings


def _called(endpoint: Endpoint, records: int) -> Called:
    settings, transport = endpoint.service, endpoint.transport
    assert isinstance(settings, RedisSettings)
    # The best of both ends, which is 1.3 wherever a server has it.
    check_tls(endpoint, (None, "1.3"))
    host, port = host_and_port(settings.addresses_for(transport))
    options = ["-h", host, "-p", port]
    if settings.username is not None:
        options += ["--user", settings.username]
    if settings.resp == 3:
        options.append("-3")
    if transport.is_tls:
        options.append("--tls")
        if transport.verify == "none":
            options.append("--insecure")
        elif transport.ca_file is None:
            raise CannotError("cannot verify certificates by the system's authorities; name a file with --tls-ca")
        else:
            options += ["--cacert", str(transport.ca_file)]
    secrets = {"REDISCLI_AUTH": settings.password} if settings.password is not None else {}
    return Called([*options, "GET", settings.any_key(records, Random(0))], secrets=secrets)


CLIENT = Client(
    program="redis-benchmark",
    package="redis-tools",
    of="redis",
    # Some tenths of a second of work: it can be told how many requests to make, and not how long.
    run="{program} --csv -c 50 -n 20000 {options}",
    headline=("command_rps",),
    called=_called,
    once=True,
)
