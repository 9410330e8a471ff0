"""The standing SSH tunnels of a run: one for each cipher and distance that its arms ask for, all through one `sshd`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from costof.errors import CostofError
from costof.lab.lab import Lab
from costof.lab.star import Star
from costof.programs.openssh import CLIENT_ROLE, SERVER_ROLE, SshServer, Tunnel
from costof.programs.server import LabServer
from costof.study.arms import PlannedArm

FIRST_PORT = 3307
#: Of the processes that carry tunnels.
TUNNEL_ROLES = frozenset({CLIENT_ROLE, SERVER_ROLE})

#: A cipher, by OpenSSH's name, and a distance.
Key = tuple[str, str]
NO_TUNNEL: Key = ("", "")


def cipher_of(arm: PlannedArm) -> str:
    """Of the tunnel that an arm's client goes through; '' for an arm without one."""
    return str(arm.asked.lab.get("tunnel", ""))


class Tunnels:
    """Those that arms have `asked` for, by the arms' names. `start` them when the server behind them answers.

    One that does not come up is its arms' misfortune alone.
    """

    def __init__(self, lab: Lab, star: Star, asked: Mapping[str, Key]) -> None:
        self._lab = lab
        self._star = star
        self._asked = asked
        self._ports = {key: FIRST_PORT + number for number, key in enumerate(dict.fromkeys(asked.values()))}
        self._standing: dict[Key, Tunnel] = {}
        self._failed: dict[Key, str] = {}
        self._sshd: SshServer | None = None

    def start(self, server: LabServer) -> None:
        """Stand all of them up to a server on the servers' host. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        if not self._asked:
            return
        address, _, port = server.client_settings().addresses[0].rpartition(":")
        self._sshd = SshServer(self._lab, address, host=self._star.server)
        self._sshd.start()
        begun = {}
        for cipher, distance in self._ports:
            name = f"ssh-{cipher.partition('@')[0]}-{distance}"
            entrance, host = self._listens((cipher, distance)), self._star.client(distance)
            begun[cipher, distance] = self._sshd.begin_tunnel(name, cipher, entrance, (address, int(port)), host=host)
        for key, tunnel in begun.items():
            carries = partial(server.answers, tunnel.address, tunnel.port, self._star.client(key[1]))
            try:
                self._sshd.stand(tunnel, carries)
            except CostofError as error:
                self._failed[key] = str(error)
                if tunnel.process.exit_status is None:
                    self._sshd.close_tunnel(tunnel)
            else:
                self._standing[key] = tunnel

    def entrance(self, arm: PlannedArm) -> str | None:
        """Where on the client's host an arm's tunnel begins, 'address:port'; None for an arm without one."""
        key = self._asked.get(arm.name)
        return "{}:{}".format(*self._listens(key)) if key else None

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        """What the client's own log says was negotiated, both ways."""
        tunnel = self._of(arm)
        if tunnel is None:
            return {}
        ciphers, compressions = tunnel.negotiated()
        return {
            "tunnel cipher": ", ".join(sorted(ciphers)),
            "tunnel compression": ", ".join(sorted(compressions)),
        }

    def why_lost(self, arm: PlannedArm) -> str | None:
        """Why nothing goes through an arm's tunnel; None while it stands, and for an arm without one."""
        tunnel = self._of(arm)
        return tunnel.why_dead() if tunnel else self._failed.get(self._asked.get(arm.name, NO_TUNNEL))

    def process_ids(self) -> dict[str, int]:
        """Pids of the clients that stand, by the tunnel's name."""
        return {tunnel.name: tunnel.process.pid for tunnel in self._standing.values()}

    def versions(self) -> dict[str, str]:
        return {"ssh": self._sshd.version} if self._sshd else {}

    def facts(self) -> dict[str, str]:
        return self._sshd.facts() if self._sshd else {}

    def _of(self, arm: PlannedArm) -> Tunnel | None:
        return self._standing.get(self._asked.get(arm.name, NO_TUNNEL))

    def _listens(self, key: Key) -> tuple[str, int]:
        return self._star.client_address(key[1]), self._ports[key]
