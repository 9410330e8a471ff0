"""The standing SSH tunnels of a run: one for each cipher and distance that its arms ask for, all through one `sshd`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from costof.errors import CostofError
from costof.lab.lab import Lab
from costof.programs.openssh import CLIENT_ROLE, SERVER_ROLE, SshServer, Tunnel
from costof.programs.server import LabServer
from costof.services.site import Site
from costof.study.arms import PlannedArm

FIRST_PORT = 3307
#: Of the processes that carry tunnels.
TUNNEL_ROLES = frozenset({CLIENT_ROLE, SERVER_ROLE})

#: A cipher, by OpenSSH's name, and a distance.
Key = tuple[str, str]


def cipher_of(arm: PlannedArm) -> str:
    """Of the tunnel that an arm's client goes through; '' for an arm without one."""
    return str(arm.asked.lab.get("tunnel", ""))


class Tunnels:
    """`start` them when the server behind them answers. One that does not come up is its arms' misfortune alone."""

    def __init__(self, lab: Lab, site: Site, arms: Sequence[PlannedArm]) -> None:
        self._lab = lab
        self._site = site
        self._arms = {self._key(arm): arm for arm in arms if cipher_of(arm)}
        self._ports = {key: FIRST_PORT + number for number, key in enumerate(self._arms)}
        self._standing: dict[Key, Tunnel] = {}
        self._failed: dict[Key, str] = {}
        self._sshd: SshServer | None = None

    def start(self, server: LabServer) -> None:
        """Stand all of them up to a server on the servers' host. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        if not self._arms:
            return
        address, _, port = server.client_settings().addresses[0].rpartition(":")
        self._sshd = SshServer(self._lab, address, host=self._site.server)
        self._sshd.start()
        begun = {}
        for key, arm in self._arms.items():
            cipher, distance = key
            name = f"ssh-{cipher.partition('@')[0]}-{distance}"
            entrance, host = self._listens(key, arm), self._site.client(arm)
            begun[key] = self._sshd.begin_tunnel(name, cipher, entrance, (address, int(port)), host=host)
        for key, tunnel in begun.items():
            carries = partial(server.answers, tunnel.address, tunnel.port, self._site.client(self._arms[key]))
            try:
                self._sshd.stand(tunnel, carries)
            except CostofError as error:
                self._failed[key] = str(error)
                if tunnel.process.exit_status is None:
                    self._sshd.close_tunnel(tunnel)
            else:
                self._standing[key] = tunnel

    def entrance(self, arm: PlannedArm) -> tuple[str, int] | None:
        """Address and port on the client's host where an arm's tunnel begins; None for an arm without one."""
        key = self._key(arm)
        return self._listens(key, self._arms[key]) if key in self._arms else None

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        """What the client's own log says was negotiated, both ways."""
        tunnel = self._standing.get(self._key(arm))
        if tunnel is None:
            return {}
        ciphers, compressions = tunnel.negotiated()
        return {
            "tunnel cipher": ", ".join(sorted(ciphers)),
            "tunnel compression": ", ".join(sorted(compressions)),
        }

    def why_lost(self, arm: PlannedArm) -> str | None:
        """Why nothing goes through an arm's tunnel; None while it stands, and for an arm without one."""
        key = self._key(arm)
        tunnel = self._standing.get(key)
        return tunnel.why_dead() if tunnel else self._failed.get(key)

    def process_ids(self) -> dict[str, int]:
        """Pids of the clients that stand, by the tunnel's name."""
        return {tunnel.name: tunnel.process.pid for tunnel in self._standing.values()}

    def versions(self) -> dict[str, str]:
        return {"ssh": self._sshd.version} if self._sshd else {}

    def facts(self) -> dict[str, str]:
        return self._sshd.facts() if self._sshd else {}

    def _key(self, arm: PlannedArm) -> Key:
        return cipher_of(arm), self._site.distance(arm)

    def _listens(self, key: Key, arm: PlannedArm) -> tuple[str, int]:
        return self._site.client_address(arm), self._ports[key]
