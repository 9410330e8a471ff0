"""The SSH tunnels of a run to one `sshd`: one for each combination of cipher and clients' round-trip time."""

from __future__ import annotations

from functools import partial

from costof.errors import CostofError
from costof.lab.certificates import Authority
from costof.messages.plan import ServiceSettings
from costof.programs.openssh import CLIENT_ROLE, SERVER_ROLE, SshServer, Tunnel
from costof.programs.server import LabServer
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

FIRST_PORT = 3307

#: The identity of a tunnel: its cipher, such as 'aes128-gcm@openssh.com', and its clients' distance (name of the
#: round-trip time), such as 'lan'.
Key = tuple[str, str]
NO_TUNNEL: Key = ("", "")


def tunnel_cipher(arm: PlannedArm) -> str:
    """Return the cipher of an arm's tunnel; '' if the arm has no tunnel."""
    return str(arm.settings.lab.get("tunnel", ""))


class Tunnels(Entrances):
    """The SSH tunnels of a run, each with its own ssh client process."""

    setting = "tunnel"
    # `SERVER_ROLE` is the role of the sshd that accepts connections. If this sshd ends, the run goes on, because open
    # tunnels work without it.
    roles = frozenset({CLIENT_ROLE, SERVER_ROLE})

    def __init__(self, site: Site) -> None:
        self._lab = site.lab
        self._star = site.star
        self._keys = {
            arm.name: (cipher, site.distances[arm.name]) for arm in site.arms if (cipher := tunnel_cipher(arm))
        }
        self._site = site
        first = site.port(FIRST_PORT)
        self._ports = {key: first + number for number, key in enumerate(dict.fromkeys(self._keys.values()))}
        self._open: dict[Key, Tunnel] = {}
        self._failed: dict[Key, str] = {}
        self._sshd: SshServer | None = None

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._keys

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._keys:
            return
        address, _, port = server.client_settings().addresses[0].rpartition(":")
        self._sshd = SshServer(self._lab, address, host=self._star.server, name=self._site.name(SERVER_ROLE))
        self._sshd.start()
        started = {}
        for cipher, distance in self._ports:
            name = self._site.name(f"ssh-{cipher.partition('@')[0]}-{distance}")
            listen, host = self._listen_address((cipher, distance)), self._star.client(distance)
            started[cipher, distance] = self._sshd.start_tunnel(name, cipher, listen, (address, int(port)), host=host)
        for key, tunnel in started.items():
            is_open = partial(server.answers, tunnel.address, tunnel.port, self._star.client(key[1]))
            try:
                self._sshd.wait_until_open(tunnel, is_open)
            except CostofError as error:
                self._failed[key] = str(error)
                if tunnel.process.exit_status is None:
                    self._lab.stop(tunnel.name)
            else:
                self._open[key] = tunnel

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        return settings.at_address("{}:{}".format(*self._listen_address(self._keys[arm.name])))

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        """Return a tunnel's cipher and compression in both directions, from ssh's log; {} if the tunnel is not open."""
        tunnel = self._tunnel(arm)
        if tunnel is None:
            return {}
        ciphers, compressions = tunnel.negotiated()
        return {
            "tunnel cipher": ", ".join(sorted(ciphers)),
            "tunnel compression": ", ".join(sorted(compressions)),
        }

    def failure_reason(self, arm: PlannedArm) -> str | None:
        tunnel = self._tunnel(arm)
        return tunnel.why_dead() if tunnel else self._failed.get(self._keys.get(arm.name, NO_TUNNEL))

    def versions(self) -> dict[str, str]:
        return {"ssh": self._sshd.version} if self._sshd else {}

    def facts(self) -> dict[str, str]:
        return self._sshd.facts() if self._sshd else {}

    def _tunnel(self, arm: PlannedArm) -> Tunnel | None:
        return self._open.get(self._keys.get(arm.name, NO_TUNNEL))

    def _listen_address(self, key: Key) -> tuple[str, int]:
        return self._star.client_address(key[1]), self._ports[key]
