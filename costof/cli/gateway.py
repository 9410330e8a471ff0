"""`costof gateway`: the engine's gateway before a server of the user's own, in the foreground."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import click

from costof.errors import CostofError, ErrorText
from costof.messages.plan import PLAIN, TlsFiles, Transport
from costof.programs.gateway import GatewayLearning, GatewayListener, GatewayProcess

#: What the engine calls mistakes that are the user's to put right.
USERS_OWN = ("plan: ", "tls_configuration: ")
#: How often it is looked whether the engine still runs.
LOOK_SECONDS = 1.0
ENDS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class GatewayOptions:
    """What the command line said. `server_ca` is of the server's certificate, whose name is verified; `limits` by their
    names in the engine's plan, which knows them."""

    rules: Path
    server: str
    listen: str = "127.0.0.1:3307"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    server_ca: Path | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    learn: Path | None = None
    learn_accounts: Sequence[str] = ()

    def listener(self, listen: str) -> GatewayListener:
        """Raises `GATEWAY_ADDRESS`, `GATEWAY_LEARN`."""
        if (self.learn is None) == bool(self.learn_accounts):
            raise CostofError(ErrorText.GATEWAY_LEARN)
        host, colon, port = listen.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise CostofError(ErrorText.GATEWAY_ADDRESS, text=listen)
        tls = None
        if self.tls_cert is not None:
            tls = TlsFiles.of(self.tls_cert.absolute(), self.tls_key and self.tls_key.absolute())
        return GatewayListener(
            address=listen,
            rules_file=self.rules.absolute(),
            server=self.server,
            tls=tls,
            server_transport=Transport(kind="tls", ca_file=self.server_ca.absolute()) if self.server_ca else PLAIN,
            limits=dict(self.limits),
            learn=GatewayLearning(file=self.learn.absolute(), accounts=list(self.learn_accounts))
            if self.learn
            else None,
        )


def serve(options: GatewayOptions, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads the rules again.

    Raises `GATEWAY_ADDRESS`, `GATEWAY_REFUSED`, and `INSTRUMENT_FAILED` when the engine dies.
    """
    with GatewayProcess() as process:
        # Blocked and waited for, signals would be lost to threads that libraries have started.
        signals: SimpleQueue[int] = SimpleQueue()
        for number in (signal.SIGHUP, *ENDS):
            signal.signal(number, lambda number, frame: signals.put(number))
        addresses, warnings = _begin(process, options.listener(options.listen))
        for warning in warnings:
            warn(warning)
        say(f"gateway ready on {addresses[0]} before {options.server}")
        while True:
            try:
                if signals.get(timeout=LOOK_SECONDS) != signal.SIGHUP:
                    return
                for address, why in process.reload().items():
                    warn(f"{address}: {'new rules hold' if why is None else f'the rules before stay: {why}'}")
            except Empty:
                if process.ended() is not None:
                    process.counters()


def _begin(process: GatewayProcess, listener: GatewayListener) -> tuple[list[str], list[str]]:
    try:
        ready = process.begin([listener])
    except CostofError as error:
        _, _, detail = str(error).partition(" stopped: ")
        mistake = next((start for start in USERS_OWN if detail.startswith(start)), None)
        if mistake is None:
            raise
        raise CostofError(ErrorText.GATEWAY_REFUSED, detail=detail.removeprefix(mistake)) from None
    return ready.listeners, ready.warnings


@click.command()
@click.option("--rules", required=True, type=click.Path(path_type=Path), help="Which columns, for whom, how: TOML.")
@click.option("--server", required=True, metavar="HOST:PORT", help="The MySQL or MariaDB server behind the gateway.")
@click.option("--listen", default="127.0.0.1:3307", show_default=True, metavar="ADDRESS:PORT", help="For clients.")
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), help="Take clients under TLS, with this certificate (PEM)."
)
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key (PEM), where it is in another file.")
@click.option(
    "--server-ca", type=click.Path(path_type=Path), help="Go to the server under TLS; CA file (PEM) of its own."
)
@click.option(
    "--limit", "limits", type=(str, click.IntRange(min=1)), multiple=True, metavar="NAME NUMBER",
    help="Another limit than the usual one: connections, connections_an_address, logins, login_seconds, "
    "command_seconds, write_seconds, idle_seconds, statement_bytes, long_data_bytes, prepared_statements, "
    "catalogue_seconds.",
)  # fmt: skip
@click.option(
    "--learn", type=click.Path(path_type=Path), metavar="FILE",
    help="Write each new statement of the accounts of --learn-account to this file, for a person to review. Nothing in "
    "it is approved.",
)  # fmt: skip
@click.option(
    "--learn-account", "learn_accounts", multiple=True, metavar="NAME",
    help="An account whose statements are learned; it is not guarded. Repeat for more.",
)  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Say whether the rules are right, and end.")
def gateway(only_check: bool, limits: tuple[tuple[str, int], ...], **options: Any) -> None:
    """Let only approved statements pass to a MySQL server, and encrypt protected columns in its answers.

    Both depend on the account. SIGHUP reads the rules again; Ctrl-C ends the gateway.
    """

    def warn(text: str) -> None:
        click.echo(f"costof: {text}", err=True)

    asked = GatewayOptions(limits=dict(limits), **options)
    if not only_check:
        serve(asked, click.echo, warn)
        return
    # Read the rules as a gateway would, and hold them against the server where they say how.
    with GatewayProcess() as process:
        for warning in _begin(process, asked.listener("127.0.0.1:0"))[1]:
            warn(warning)
